//! Draws a view for a terminal, or for a pipe without colours.

use unicode_width::UnicodeWidthChar;

use super::legend::{self, Line};
use super::turns::Owner;
use super::view::{Kind, Row, View};
use crate::paint::{Paint, Style};
use crate::visible;

/// The picture with its legend. Rows are wrapped where a width is given.
pub fn draw(view: &View<'_>, paint: Paint, width: Option<usize>) -> String {
    let gutter = Gutter::new(view);
    let mut out = String::new();
    for row in &view.rows {
        let room = width.map(|width| width.saturating_sub(gutter.width() + 3).max(20));
        for (at, line) in wrap(cells(row, paint), room).into_iter().enumerate() {
            gutter.push(&mut out, paint, row, at == 0);
            push_line(&mut out, paint, &line);
            out.push('\n');
        }
    }
    push_legend(&mut out, view, paint);
    out
}

/// What says whose a row is.
struct Gutter {
    /// Columns of a message's number.
    number: usize,
    /// Columns of the name behind it.
    name: usize,
}

impl Gutter {
    fn new(view: &View<'_>) -> Gutter {
        let owners = || view.rows.iter().map(|row| &row.owner);
        Gutter {
            number: owners().map(|owner| owner.number().len()).max().unwrap_or(0),
            name: owners().map(|owner| visible::width(&visible::escape(owner.name()))).max().unwrap_or(0),
        }
    }

    fn width(&self) -> usize {
        self.number + 1 + self.name
    }

    fn push(&self, out: &mut String, paint: Paint, row: &Row<'_>, first: bool) {
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
        Owner::Message(_, role) => style(&Kind::Said(role.clone())),
        Owner::Tools => Style::Offered,
    }
}

fn style(kind: &Kind) -> Style {
    use rolecall::Role;
    match kind {
        Kind::Control => Style::Control,
        Kind::Format => Style::Format,
        Kind::Said(Role::System) => Style::System,
        Kind::Said(Role::User) => Style::User,
        Kind::Said(Role::Assistant) => Style::Assistant,
        Kind::Said(Role::Tool) => Style::Tool,
        Kind::Said(Role::Other(_)) => Style::Plain,
        Kind::Offered => Style::Offered,
        Kind::Chosen => Style::Option,
        Kind::Spelled => Style::Spelled,
        Kind::Forged => Style::Forged,
    }
}

/// Texts in one style each; none is ever broken inside a character.
type Cells = Vec<(Look, String)>;

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    style: Style,
    /// Whether a training loss may touch it: it is underlined, or stands between `‹` and `›`.
    learned: bool,
}

fn cells(row: &Row<'_>, paint: Paint) -> Cells {
    let mut cells: Cells = Vec::new();
    let mut behind_control = false;
    let mut behind_learned = false;
    for piece in &row.pieces {
        let look = |style| Look { style, learned: piece.learned };
        let is_control = matches!(piece.kind, Kind::Control | Kind::Forged);
        let bracket = is_control && !paint.colored;
        // Two inverse texts would look like one.
        let touching = is_control && behind_control && paint.colored;
        behind_control = is_control;
        if piece.learned != behind_learned && !paint.colored {
            cells.push((look(Style::Mark), if piece.learned { "‹" } else { "›" }.to_owned()));
        }
        behind_learned = piece.learned;
        if piece.edge || touching {
            cells.push((look(Style::Mark), "▏".to_owned()));
        }
        if bracket {
            cells.push((look(style(&piece.kind)), if piece.kind == Kind::Forged { "⟦!" } else { "⟦" }.to_owned()));
        }
        for shown in &piece.shown {
            let style = if shown.mark && piece.kind != Kind::Control { Style::Mark } else { style(&piece.kind) };
            cells.push((look(style), shown.text.clone()));
        }
        if bracket {
            cells.push((look(style(&piece.kind)), "⟧".to_owned()));
        }
    }
    if behind_learned && !paint.colored {
        cells.push((Look { style: Style::Mark, learned: true }, "›".to_owned()));
    }
    cells
}

/// Breaks a row into lines of so many columns; a control token moves to the next line whole.
fn wrap(cells: Cells, room: Option<usize>) -> Vec<Cells> {
    let Some(room) = room else { return vec![cells] };
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut used = 0;
    for (look, text) in cells {
        let whole = visible::width(&text);
        if look.style == Style::Control && used + whole > room && whole <= room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        let mut rest = String::new();
        for character in text.chars() {
            let width = character.width().unwrap_or(0);
            if used + width > room {
                line.push((look, std::mem::take(&mut rest)));
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            rest.push(character);
            used += width;
        }
        line.push((look, rest));
    }
    lines.push(line);
    lines
}

/// Writes cells with as few changes of style as there are.
fn push_line(out: &mut String, paint: Paint, cells: &Cells) {
    let mut at = 0;
    while let Some((look, _)) = cells.get(at) {
        let same = cells[at..].iter().take_while(|(other, _)| other == look).count();
        let text: String = cells[at..at + same].iter().map(|(_, text)| text.as_str()).collect();
        match look.learned {
            true => paint.push_underlined(out, look.style, &text),
            false => paint.push(out, look.style, &text),
        }
        at += same;
    }
}

fn push_legend(out: &mut String, view: &View<'_>, paint: Paint) {
    out.push('\n');
    if paint.colored {
        let kinds = legend::kinds(view).into_iter().map(|(kind, name)| paint.text(style(&kind), name));
        push_entry(out, paint, "colours", &kinds.collect::<Vec<_>>().join("  "), Style::Plain);
    }
    let mut marks: Vec<String> = Vec::new();
    if !paint.colored {
        marks.push("⟦ ⟧ control token".into());
    }
    if view.explained.loss.is_some() {
        marks.push(if paint.colored { "underlined: carries loss" } else { "‹ › carries loss" }.into());
    }
    marks.extend(legend::marks(view).into_iter().map(|(mark, name)| format!("{mark} {name}")));
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
        let cells = || {
            [(Style::User, "谢谢you".to_owned()), (Style::Control, "<|end|>".to_owned()), (Style::Mark, "⏎".to_owned())]
                .map(|(style, text)| (Look { style, learned: false }, text))
                .to_vec()
        };
        let lines = |room| {
            let wrapped = wrap(cells(), Some(room)).into_iter();
            wrapped.map(|line| line.into_iter().map(|(_, text)| text).collect::<String>()).collect::<Vec<_>>()
        };
        assert_eq!(lines(20), ["谢谢you<|end|>⏎"]);
        assert_eq!(lines(10), ["谢谢you", "<|end|>⏎"]);
        assert_eq!(lines(5), ["谢谢y", "ou<|e", "nd|>⏎"]);
    }
}
