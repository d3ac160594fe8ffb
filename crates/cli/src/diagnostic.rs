//! Diagnostics, drawn in the style of rustc.

use std::fmt::Write;
use std::ops::Range;

use unicode_width::UnicodeWidthChar;

use crate::paint::{Paint, Style};
use crate::source::Source;
use crate::visible;

/// The maximum number of columns of a source line that are shown around the caret.
const LINE_WIDTH: usize = 100;
/// The number of columns shown before the caret if the line is cut.
const LEAD: usize = 30;

/// The maximum number of similar diagnostics that are drawn; the rest is only counted.
pub const DRAWN: usize = 20;

/// An error, warning or note about an input.
#[derive(Debug)]
pub struct Diagnostic<'a> {
    pub severity: Severity,
    /// The stable name of this kind of problem.
    pub code: &'a str,
    pub message: String,
    pub place: DiagnosticPlace<'a>,
    pub help: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
    Note,
}

/// The location of a diagnostic.
#[derive(Debug)]
pub enum DiagnosticPlace<'a> {
    Nowhere,
    /// A name such as `chat.json` or `command line, --option`.
    Named(String),
    /// A span of a text that can be shown.
    Span(&'a Source, Range<usize>),
}

impl Diagnostic<'_> {
    /// Returns the printed form of the diagnostic, including a final line break.
    pub fn draw(&self, paint: Paint) -> String {
        self.draw_with(&[], paint)
    }

    /// Returns the printed form of the diagnostic with further facts, which come before the help.
    pub fn draw_with(&self, notes: &[String], paint: Paint) -> String {
        let mut out = String::new();
        let (style, word) = match self.severity {
            Severity::Error => (Style::Error, "error"),
            Severity::Warning => (Style::Warning, "warning"),
            Severity::Note => (Style::Strong, "note"),
        };
        paint.push(&mut out, style, &format!("{word}[{}]", self.code));
        paint.push(&mut out, Style::Strong, &format!(": {}", visible::escape(&self.message)));
        out.push('\n');
        let indent = match &self.place {
            DiagnosticPlace::Nowhere => 0,
            DiagnosticPlace::Named(name) => {
                paint.push(&mut out, Style::Frame, " -->");
                let _ = writeln!(out, " {}", visible::escape(name));
                1
            }
            DiagnosticPlace::Span(source, span) => draw_snippet(&mut out, paint, style, source, span.clone()),
        };
        let notes = notes.iter().map(|note| ("note:", note));
        for (word, line) in notes.chain(self.help.iter().map(|help| ("help:", help))) {
            out.extend(std::iter::repeat_n(' ', indent + 1));
            paint.push(&mut out, Style::Frame, "= ");
            let _ = writeln!(out, "{} {}", paint.text(Style::Strong, word), visible::escape(line));
        }
        out
    }
}

/// Draws the file, line and column, the line itself, and carets under the span. Returns the width
/// of the line number.
fn draw_snippet(out: &mut String, paint: Paint, style: Style, source: &Source, span: Range<usize>) -> usize {
    let (line, column) = source.line_and_column(span.start);
    let number = line.to_string();
    let indent = " ".repeat(number.len());
    let arrow = paint.text(Style::Frame, "-->");
    let _ = writeln!(out, "{indent}{arrow} {}:{line}:{column}", visible::escape(&source.name));
    let around = source.line_around(span.start);
    let within = span.start - around.start..span.end.clamp(span.start, around.end.max(span.start)) - around.start;
    let shown = cut_around(source.text[around].trim_end_matches('\r'), within);
    let bar = paint.text(Style::Frame, "|");
    let _ = writeln!(out, "{indent} {bar}");
    let _ = writeln!(out, "{} {bar} {}", paint.text(Style::Frame, &number), shown.text);
    let caret = paint.text(style, &"^".repeat(shown.carets.len().max(1)));
    let _ = writeln!(out, "{indent} {bar} {}{caret}", " ".repeat(shown.carets.start));
    number.len()
}

/// The printed form of a source line, and the columns to underline.
struct Shown {
    text: String,
    carets: Range<usize>,
}

/// Escapes a line and, if it is long, cuts it around a span, with `…` at the cut ends.
fn cut_around(line: &str, span: Range<usize>) -> Shown {
    // Do not process the whole of a very long line.
    let near = border(line, span.start.saturating_sub(4 * LINE_WIDTH))..border(line, span.start + 8 * LINE_WIDTH);
    let span = span.start - near.start..span.end - near.start;
    let (cut_before, cut_behind) = (near.start > 0, near.end < line.len());
    let line = &line[near];
    let mut cells: Vec<(String, usize)> = Vec::new();
    let (mut first, mut last) = (None, None);
    for (at, character) in line.char_indices() {
        if at >= span.start {
            first = first.or(Some(cells.len()));
        }
        if at >= span.end {
            last = last.or(Some(cells.len()));
        }
        cells.push(match character {
            '\t' => ("    ".to_owned(), 4),
            c if visible::is_steering(c) => {
                let mut escaped = String::new();
                visible::push_escaped(&mut escaped, c);
                let width = escaped.len();
                (escaped, width)
            }
            c => (c.to_string(), c.width().unwrap_or(0)),
        });
    }
    let first = first.unwrap_or(cells.len());
    let last = last.unwrap_or(cells.len()).max(first);
    let total: usize = cells.iter().map(|(_, width)| width).sum();
    let mut from = 0;
    if total > LINE_WIDTH {
        // Show `LEAD` columns before the caret, and more if the line ends soon after it.
        let mut lead = 0;
        let mut behind = columns(&cells[first..]);
        from = first;
        while from > 0 && (lead < LEAD || behind < LINE_WIDTH) {
            from -= 1;
            lead += cells[from].1;
            behind += cells[from].1;
        }
    }
    let mut to = from;
    let mut used = 0;
    while to < cells.len() && used + cells[to].1 <= LINE_WIDTH {
        used += cells[to].1;
        to += 1;
    }
    let mut text = String::new();
    let mut start = 0;
    if from > 0 || cut_before {
        text.push('…');
        start = 1;
    }
    text.extend(cells[from..to].iter().map(|(cell, _)| cell.as_str()));
    if to < cells.len() || cut_behind {
        text.push('…');
    }
    start += columns(&cells[from..first.clamp(from, to)]);
    let end = start + columns(&cells[first.clamp(from, to)..last.clamp(from, to)]);
    Shown { text, carets: start..end }
}

/// Returns the character boundary at or before an offset.
fn border(line: &str, offset: usize) -> usize {
    let mut offset = offset.min(line.len());
    while !line.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

fn columns(cells: &[(String, usize)]) -> usize {
    cells.iter().map(|(_, width)| width).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_wide_tabbed_and_escaped_characters() {
        let cases = [
            ("abc", 1..2, "abc", 1..2),
            ("\tx", 1..2, "    x", 4..5),
            ("你好x", 3..6, "你好x", 2..4),
            ("\u{1b}[31mx", 5..6, "\\u{1b}[31mx", 10..11),
            ("ab", 2..2, "ab", 2..2),
        ];
        for (line, span, text, carets) in cases {
            let shown = cut_around(line, span);
            assert_eq!((shown.text.as_str(), shown.carets), (text, carets), "{line:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_at_both_ends() {
        let line = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let shown = cut_around(&line, 500..501);
        assert!(shown.text.starts_with("…a") && shown.text.ends_with("b…"), "{}", shown.text);
        assert_eq!(shown.text.chars().nth(shown.carets.start), Some('X'));
    }
}
