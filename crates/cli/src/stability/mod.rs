//! Draws the comparison of growing conversations: a line for each conversation, and the changes.

mod changes;
mod page;

pub use page::draw;
