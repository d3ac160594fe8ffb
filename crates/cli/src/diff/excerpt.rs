//! Excerpts of a prompt on one line, with white space and control tokens made visible.

use std::ops::Range;

use rolecall::{Origin, Prompt, Segment};

use crate::explain::mark_of;
use crate::paint::{Paint, Style};
use crate::visible;

/// The maximum number of columns before the place, and from it on.
const BEFORE: usize = 36;
const BEHIND: usize = 56;

/// A line that shows a place of a prompt.
pub struct Excerpt {
    /// The line.
    pub line: String,
    /// The column of the place.
    pub column: usize,
}

/// Returns the text around a byte offset. If `loss` is given, text that carries loss is enclosed in
/// `‹` and `›`.
pub fn around(prompt: &Prompt, at: usize, loss: Option<&[Range<usize>]>, paint: Paint) -> Excerpt {
    let cells = cells(prompt, loss, at, paint);
    let (mut first, mut width) = (cells.partition_point(|cell| cell.start < at), 0);
    let place = first;
    while first > 0 && width + cells[first - 1].width <= BEFORE {
        first -= 1;
        width += cells[first].width;
    }
    let (mut last, mut used) = (place, 0);
    while last < cells.len() && used + cells[last].width <= BEHIND {
        used += cells[last].width;
        last += 1;
    }
    let mut line = String::new();
    if first > 0 {
        paint.push(&mut line, Style::Mark, "…");
        width += 1;
    }
    // Change the style as rarely as possible.
    for run in cells[first..last].chunk_by(|a, b| a.style == b.style && a.learned == b.learned) {
        let text: String = run.iter().map(|cell| cell.text.as_str()).collect();
        match run[0].learned && paint.colored {
            true => paint.push_underlined(&mut line, run[0].style, &text),
            false => paint.push(&mut line, run[0].style, &text),
        }
    }
    paint.push(&mut line, Style::Mark, if last < cells.len() { "…" } else { "∎" });
    Excerpt { line, column: width }
}

/// An indivisible piece of an excerpt: a character or a control token.
struct Cell {
    start: usize,
    text: String,
    style: Style,
    width: usize,
    learned: bool,
}

fn cells(prompt: &Prompt, loss: Option<&[Range<usize>]>, at: usize, paint: Paint) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    let mut behind_learned = false;
    for segment in prompt.segments() {
        for (start, text, style) in pieces(prompt, &segment, at, paint) {
            let learned = loss.is_some_and(|loss| loss.iter().any(|span| span.contains(&start)));
            let mark = match (behind_learned, learned) {
                (false, true) => "‹",
                (true, false) => "›",
                _ => "",
            };
            behind_learned = learned;
            let text = if paint.colored { text } else { format!("{mark}{text}") };
            cells.push(Cell { start, width: visible::width(&text), text, style, learned });
        }
    }
    if behind_learned && !paint.colored {
        cells.push(Cell {
            start: prompt.text().len(), text: "›".into(), style: Style::Mark, width: 1, learned: false
        });
    }
    cells
}

/// Splits a segment into pieces, each with its start, its printed form and its style.
fn pieces(prompt: &Prompt, segment: &Segment<'_>, at: usize, paint: Paint) -> Vec<(usize, String, Style)> {
    if let Origin::Control(_) = segment.origin {
        let text = visible::escape(segment.text);
        let text = if paint.colored { text.into_owned() } else { format!("⟦{text}⟧") };
        return vec![(segment.start, text, Style::Control)];
    }
    let plain = if segment.origin.is_format() { Style::Format } else { Style::Plain };
    let whole = prompt.text();
    let each = segment.text.char_indices().map(|(offset, character)| {
        let start = segment.start + offset;
        let before = whole[..start].chars().next_back();
        let next = whole[start + character.len_utf8()..].chars().next();
        // A space is easily overlooked next to a line break, another space, a control token, or the
        // place itself.
        let overlooked = || start == at || start + 1 == at || is_beside(before, next) || is_at_end(segment, offset);
        let shown = mark_of(character).filter(|_| character != ' ' || overlooked());
        match shown {
            Some(mark) => (start, mark.into_owned(), Style::Mark),
            None => (start, character.to_string(), plain),
        }
    });
    each.collect()
}

fn is_beside(before: Option<char>, next: Option<char>) -> bool {
    [before, next].into_iter().any(|neighbour| neighbour.is_none_or(char::is_whitespace))
}

fn is_at_end(segment: &Segment<'_>, offset: usize) -> bool {
    offset == 0 || offset + 1 == segment.text.len()
}
