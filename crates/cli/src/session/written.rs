//! Draws ids as text, by their author.

use rolecall::encode::Decoder;
use rolecall::session::{Author, Segment};

use crate::paint::{Paint, Style};
use crate::visible;

/// Appends the text of ids on one line. `first` is the index of the first of them. Control tokens
/// are shown in inverse video, or in `⟦ ⟧` without colors.
pub fn push_ids(out: &mut String, paint: Paint, decoder: &Decoder, ids: &[u32], first: usize, segments: &[Segment]) {
    for segment in segments {
        let start = segment.ids.start.saturating_sub(first).min(ids.len());
        let end = segment.ids.end.saturating_sub(first).clamp(start, ids.len());
        push_run(out, paint, decoder, &ids[start..end], style(segment.author));
    }
}

/// Appends the text of ids of one author.
pub fn push_run(out: &mut String, paint: Paint, decoder: &Decoder, ids: &[u32], style: Style) {
    let mut bytes = Vec::new();
    for id in ids {
        let is_marker = decoder.is_marker(*id);
        if is_marker {
            push_text(out, paint, style, &std::mem::take(&mut bytes));
        }
        if decoder.append(*id, &mut bytes).is_err() {
            bytes.extend_from_slice(format!("\u{fffd}{id}").as_bytes());
        }
        if is_marker {
            let text = std::mem::take(&mut bytes);
            match paint.colored {
                true => push_text(out, paint, Style::Control, &text),
                false => {
                    out.push('⟦');
                    push_text(out, paint, Style::Control, &text);
                    out.push('⟧');
                }
            }
        }
    }
    push_text(out, paint, style, &bytes);
}

/// Appends a text that need not be valid UTF-8.
fn push_text(out: &mut String, paint: Paint, style: Style, bytes: &[u8]) {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&visible::escape(chunk.valid()));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    paint.push(out, style, &text);
}

pub fn style(author: Author) -> Style {
    match author {
        Author::Template => Style::Format,
        Author::Caller => Style::User,
        Author::Sampled => Style::Assistant,
        Author::Closing => Style::Option,
        _ => Style::Plain,
    }
}
