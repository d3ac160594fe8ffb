//! Drawing a short example conversation that shows what the turns of a format look like.

use std::sync::Arc;

use rolecall::format::{Format, example};

use crate::explain::{ExplainedPrompt, View, draw_terminal};
use crate::paint::Paint;

/// Draws an example of a format's turns, or returns why even the plainest conversation is refused.
pub fn draw_example(format: &Arc<Format>, paint: Paint, width: Option<usize>) -> Result<String, rolecall::Error> {
    let (conversation, prompt) = example(format)?;
    let explained = ExplainedPrompt {
        conversation: &conversation,
        format,
        prompt: &prompt,
        tokens: None,
        notes: &[],
        added: &[],
        loss: None,
    };
    let mut drawn = Vec::new();
    draw_terminal(&View::new(explained), paint, width, &mut drawn).expect("writing to memory does not fail");
    Ok(String::from_utf8_lossy(&drawn).into_owned())
}
