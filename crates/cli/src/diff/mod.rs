//! In: a comparison of two formats, or matrices of many. Out: what a person reads of it.
//! Between: `words` says what came of a comparison, `excerpt` shows a place of a prompt on one line, `finding` draws a difference in place.
//! `pair` draws two formats; `models` finds the formats of a model, `parts` says where each two of them first part,
//! `matrix` draws them for a terminal, `page` writes many as a Markdown document.

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
