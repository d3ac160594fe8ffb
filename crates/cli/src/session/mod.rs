//! Sessions for the command line.
//!
//! `script` reads the steps of a session, `player` performs them, `row` writes each result as JSON,
//! and `page` draws it for people. `written` draws ids by their author. Start reading at `player`.

mod page;
mod player;
mod row;
mod script;
mod written;

pub use page::draw_step;
pub use player::{Done, Player};
pub use row::{of_done, of_refusal};
pub use script::{BadStep, Step, operation_of, read_line, without_messages};
