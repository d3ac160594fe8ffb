//! Rows of training datasets in Arrow's memory, encoded to columns of token ids.
//!
//! Input: a [`Table`] of Arrow arrays, or JSON values, and a [`ColumnPlan`]. Output: record batches with ids,
//! loss masks, weights, lengths and errors. In between: `value` reads a cell as JSON, `table` a row,
//! `padding` tells nulls apart, `samples` and [`packed`] build the columns, and `encode` runs it all on several threads. Start
//! reading at [`encode()`].

mod account;
mod encode;
mod fault;
pub mod packed;
mod padding;
mod plan;
mod samples;
mod table;
mod value;

pub use account::Accounts;
pub use encode::{Counts, Error, Rows, SampleColumns, encode};
pub use fault::{SampleError, error_fields, errors};
pub use padding::NullMeaning;
pub use plan::{ColumnNames, ColumnPlan};
pub use samples::{list, list_of, under};
pub use table::{Table, of_columns};
