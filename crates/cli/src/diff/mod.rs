//! Draws the comparison of two formats, or the matrices of many.
//!
//! `words` describes the outcome of a comparison, `excerpt` shows a place of a prompt on one line,
//! and `finding` draws a difference. `pair` draws the comparison of two formats. `models` finds the
//! formats of a model, `parts` finds the first differences of each pair, `matrix` draws them for a
//! terminal, and `page` writes the matrices of many models as a Markdown document.

mod excerpt;
mod finding;
mod matrix;
mod models;
mod page;
mod pair;
mod parts;
mod words;

pub use matrix::draw as draw_matrix;
pub use models::{Group, group_models, list_formats, read_models};
pub use page::write as write_page;
pub use pair::draw as draw_pair;
