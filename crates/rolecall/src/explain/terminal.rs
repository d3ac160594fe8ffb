//! Draws a view for a terminal, or without colors for a pipe.

use std::io;

use unicode_width::UnicodeWidthChar;

use super::legend::{self, Line};
use super::paint::{Paint, Style};
use super::piece::{DrawnPiece, PieceKind};
use super::seen::SeenParts;
use super::turns::Owner;
use super::view::{Row, Stroke, View};
use crate::visible;

/// Writes the prompt and its legend. Rows are wrapped if a width is given.
pub fn draw(view: &View<'_>, paint: Paint, width: Option<usize>, out: &mut dyn io::Write) -> io::Result<()> {
    let gutter = Gutter::new(view);
    let room = width.map(|width| width.saturating_sub(gutter.width() + 3).max(20));
    let mut lines = Lines { out, paint, gutter, room, used: 0, row: None, pending: None };
    let mut cells = Cells::default();
    let seen = view.draw(|stroke| match stroke {
        Stroke::Row(row) => {
            cells = Cells::default();
            lines.begin(row)
        }
        Stroke::Piece(piece) => cells.of_piece(piece, paint, &mut |look, text| lines.add(look, text)),
        Stroke::End => {
            cells.of_end(paint, &mut |look, text| lines.add(look, text))?;
            lines.end()
        }
    })?;
    let mut end = String::new();
    push_legend(&mut end, view, &seen, paint);
    lines.out.write_all(end.as_bytes())
}

/// The columns before a row that name its owner.
struct Gutter {
    /// The width of the message number in columns.
    number: usize,
    /// The width of the name after it in columns.
    name: usize,
}

impl Gutter {
    fn new(view: &View<'_>) -> Gutter {
        view.rows().fold(Gutter { number: 0, name: 0 }, |widest, Row { owner, .. }| Gutter {
            number: widest.number.max(owner.number().len()),
            name: widest.name.max(visible::width(&visible::escape(owner.name()))),
        })
    }

    fn width(&self) -> usize {
        self.number + 1 + self.name
    }

    fn push(&self, out: &mut String, paint: Paint, row: &Row, first: bool) {
        let (number, name) = (row.owner.number(), visible::escape(row.owner.name()));
        let text = match first {
            true => format!("{number:>width$} {}", visible::padded(&name, self.name), width = self.number),
            false => " ".repeat(self.width()),
        };
        let style = owner_style(&row.owner);
        paint.push(out, if row.opens && first { style } else { Style::Mark }, &text);
        paint.push(out, style, " │ ");
    }
}

fn owner_style(owner: &Owner) -> Style {
    match owner {
        Owner::Begin | Owner::Generate | Owner::End | Owner::Added => Style::Format,
        Owner::Message(_, role) => style(&PieceKind::Said(role.clone())),
        Owner::Tools => Style::Offered,
    }
}

fn style(kind: &PieceKind) -> Style {
    use crate::conversation::Role;
    match kind {
        PieceKind::Control => Style::Control,
        PieceKind::Format => Style::Format,
        PieceKind::Said(Role::System) => Style::System,
        PieceKind::Said(Role::User) => Style::User,
        PieceKind::Said(Role::Assistant) => Style::Assistant,
        PieceKind::Said(Role::Tool) => Style::Tool,
        PieceKind::Said(Role::Other(_)) => Style::Plain,
        PieceKind::Offered => Style::Offered,
        PieceKind::Chosen => Style::Option,
        PieceKind::Spelled => Style::Spelled,
        PieceKind::Forged => Style::Forged,
    }
}

/// The look of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    style: Style,
    /// Whether the text carries loss: it is underlined, or enclosed in `‹` and `›` without colors.
    learned: bool,
}

/// Splits the pieces of a row into texts of one style each.
#[derive(Default)]
struct Cells {
    behind_control: bool,
    behind_learned: bool,
}

type Add<'a> = dyn FnMut(Look, &str) -> io::Result<()> + 'a;

impl Cells {
    fn of_piece(&mut self, piece: &DrawnPiece<'_, '_>, paint: Paint, add: &mut Add<'_>) -> io::Result<()> {
        let look = |style| Look { style, learned: piece.learned };
        let is_control = matches!(piece.kind, PieceKind::Control | PieceKind::Forged);
        let bracket = is_control && !paint.colored;
        // Two adjacent texts in inverse video would look like one.
        let touching = is_control && self.behind_control && paint.colored;
        self.behind_control = is_control;
        if piece.learned != self.behind_learned && !paint.colored {
            add(look(Style::Mark), if piece.learned { "‹" } else { "›" })?;
        }
        self.behind_learned = piece.learned;
        if piece.edge || touching {
            add(look(Style::Mark), "▏")?;
        }
        if bracket {
            add(look(style(&piece.kind)), if piece.kind == PieceKind::Forged { "⟦!" } else { "⟦" })?;
        }
        for shown in piece.shown() {
            let style = if shown.mark && piece.kind != PieceKind::Control { Style::Mark } else { style(&piece.kind) };
            add(look(style), &shown.text)?;
        }
        if bracket {
            add(look(style(&piece.kind)), "⟧")?;
        }
        Ok(())
    }

    fn of_end(&self, paint: Paint, add: &mut Add<'_>) -> io::Result<()> {
        match self.behind_learned && !paint.colored {
            true => add(Look { style: Style::Mark, learned: true }, "›"),
            false => Ok(()),
        }
    }
}

/// Writes a row, wrapped into lines, with as few style changes as possible.
struct Lines<'a> {
    out: &'a mut dyn io::Write,
    paint: Paint,
    gutter: Gutter,
    /// The width of a line in columns, if lines are wrapped.
    room: Option<usize>,
    used: usize,
    row: Option<Row>,
    /// Text of one style that is not written yet.
    pending: Option<(Look, String)>,
}

/// The maximum number of pending bytes of one style.
const PENDING: usize = 1 << 16;

impl Lines<'_> {
    fn begin(&mut self, row: &Row) -> io::Result<()> {
        self.row = Some(row.clone());
        self.begin_line(true)
    }

    fn begin_line(&mut self, first: bool) -> io::Result<()> {
        self.used = 0;
        let mut head = String::new();
        if let Some(row) = &self.row {
            self.gutter.push(&mut head, self.paint, row, first);
        }
        self.out.write_all(head.as_bytes())
    }

    /// Adds a text and wraps it where the line is full. A control token moves to the next line as a
    /// whole.
    fn add(&mut self, look: Look, text: &str) -> io::Result<()> {
        let Some(room) = self.room else { return self.put(look, text) };
        let whole = visible::width(text);
        if look.style == Style::Control && self.used + whole > room && whole <= room {
            self.break_line()?;
        }
        let mut from = 0;
        for (at, character) in text.char_indices() {
            let width = character.width().unwrap_or(0);
            if self.used + width > room {
                self.put(look, &text[from..at])?;
                self.break_line()?;
                from = at;
            }
            self.used += width;
        }
        self.put(look, &text[from..])
    }

    fn put(&mut self, look: Look, text: &str) -> io::Result<()> {
        match &mut self.pending {
            Some((same, pending)) if *same == look && pending.len() < PENDING => pending.push_str(text),
            _ => {
                self.flush()?;
                self.pending = Some((look, text.to_owned()));
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some((look, text)) = self.pending.take() else { return Ok(()) };
        let mut drawn = String::new();
        match look.learned {
            true => self.paint.push_underlined(&mut drawn, look.style, &text),
            false => self.paint.push(&mut drawn, look.style, &text),
        }
        self.out.write_all(drawn.as_bytes())
    }

    fn break_line(&mut self) -> io::Result<()> {
        self.end()?;
        self.begin_line(false)
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush()?;
        self.out.write_all(b"\n")
    }
}

fn push_legend(out: &mut String, view: &View<'_>, seen: &SeenParts, paint: Paint) {
    out.push('\n');
    if paint.colored {
        let kinds = seen.kinds().map(|(kind, name)| paint.text(style(&kind), name));
        push_entry(out, paint, "colors", &kinds.collect::<Vec<_>>().join("  "), Style::Plain);
    }
    let mut marks: Vec<String> = Vec::new();
    if !paint.colored {
        marks.push("⟦ ⟧ control token".into());
    }
    if view.explained.loss.is_some() {
        marks.push(if paint.colored { "underlined: carries loss" } else { "‹ › carries loss" }.into());
    }
    marks.extend(seen.marks().map(|(mark, name)| format!("{mark} {name}")));
    if !marks.is_empty() {
        push_entry(out, paint, "marks", &marks.join("   "), Style::Plain);
    }
    for Line { label, text, warns } in legend::lines(view) {
        push_entry(out, paint, label, &visible::escape(&text), if warns { Style::Spelled } else { Style::Plain });
    }
}

fn push_entry(out: &mut String, paint: Paint, label: &str, text: &str, style: Style) {
    paint.push(out, Style::Strong, &format!("{label:<8}"));
    paint.push(out, style, text);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_wrapped_by_columns_and_control_tokens_stay_whole() {
        let cells = [(Style::User, "谢谢you"), (Style::Control, "<|end|>"), (Style::Mark, "⏎")];
        let lines = |room| {
            let mut out: Vec<u8> = Vec::new();
            let (paint, gutter) = (Paint { colored: false }, Gutter { number: 0, name: 0 });
            let mut lines = Lines { out: &mut out, paint, gutter, room: Some(room), used: 0, row: None, pending: None };
            for (style, text) in cells {
                lines.add(Look { style, learned: false }, text).expect("writing to memory does not fail");
            }
            lines.end().expect("writing to memory does not fail");
            let drawn = String::from_utf8(out).expect("it is UTF-8");
            drawn.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(20), ["谢谢you<|end|>⏎"]);
        assert_eq!(lines(10), ["谢谢you", "<|end|>⏎"]);
        assert_eq!(lines(5), ["谢谢y", "ou<|e", "nd|>⏎"]);
    }
}
