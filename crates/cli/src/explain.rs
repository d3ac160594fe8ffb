//! Drawing a prompt, which the library does.

pub use rolecall::explain::{ExplainedPrompt, Tokens, View, counted, draw_html, draw_terminal, mark_of, write_json};
