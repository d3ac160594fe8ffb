//! Draws a view as a self-contained HTML page without scripts, fonts or network access.

use std::fmt::Write;
use std::io;

use crate::Origin;
use crate::conversation::Role;

use super::legend;
use super::piece::{DrawnPiece, PieceKind};
use super::seen::SeenParts;
use super::turns::Owner;
use super::view::{Row, Stroke, View};
use crate::visible;

const STYLE: &str = include_str!("page.css");

/// Writes the page: the legend, the prompt, and the facts below it.
pub fn draw(view: &View<'_>, name: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let seen = view.draw(|_| Ok(()))?;
    let mut legend = String::new();
    push_legend(&mut legend, view, &seen);
    let name = escape(name);
    let format = &view.explained.format;
    let title = escape(&format.title);
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name} as {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{name} <small>as {title} (<code>{}</code>)</small></h1>\n{legend}<table>\n",
        escape(&format.name)
    )?;
    view.draw(|stroke| match stroke {
        Stroke::Row(row) => write_row(out, row),
        Stroke::Piece(piece) => write_piece(out, piece, view),
        Stroke::End => out.write_all(b"</td></tr>\n"),
    })?;
    let mut end = "</table>\n".to_owned();
    push_facts(&mut end, view);
    end.push_str("</body>\n</html>\n");
    out.write_all(end.as_bytes())
}

fn write_row(out: &mut dyn io::Write, row: &Row) -> io::Result<()> {
    let opens = if row.opens { " opens" } else { "" };
    let label = format!("{} {}", row.owner.number(), escape(row.owner.name()));
    let label = label.trim_start();
    write!(out, "<tr class=\"{}{opens}\"><th>{label}</th><td>", owner_class(&row.owner))
}

fn write_piece(out: &mut dyn io::Write, piece: &DrawnPiece<'_, '_>, view: &View<'_>) -> io::Result<()> {
    let edge = if piece.edge { " edge" } else { "" };
    let learned = if piece.learned { " learned" } else { "" };
    let title = escape(&title(piece, view));
    write!(out, "<span class=\"{}{edge}{learned}\" title=\"{title}\">", class(&piece.kind))?;
    for shown in piece.shown() {
        match shown.mark {
            true => write!(out, "<i>{}</i>", escape(&shown.text))?,
            false => out.write_all(escape(&shown.text).as_bytes())?,
        }
    }
    out.write_all(b"</span>")
}

/// Returns the tooltip of a piece: its origin and its ids.
fn title(piece: &DrawnPiece<'_, '_>, view: &View<'_>) -> String {
    let mut title = match piece.origin {
        Origin::Message { message, field } if field == "content" => format!("message {message}, content"),
        origin => legend::who(origin),
    };
    match piece.kind {
        PieceKind::Spelled => title.push_str("; spells a control token and stays text"),
        PieceKind::Forged => title.push_str("; became a control token"),
        _ => {}
    }
    let ids: Vec<String> = match (piece.origin, piece.ids) {
        (Origin::Control(id), []) => view.explained.format.control(*id).id.iter().map(u32::to_string).collect(),
        (_, ids) => ids.iter().map(u32::to_string).collect(),
    };
    match ids.len() {
        0 => {}
        1 => {
            let _ = write!(title, "; id {}", ids[0]);
        }
        _ => {
            let _ = write!(title, "; ids {}", ids.join(" "));
        }
    }
    title
}

/// Appends the legend: a line for the colors and a line for the marks.
fn push_legend(out: &mut String, view: &View<'_>, seen: &SeenParts) {
    out.push_str("<dl>\n");
    let kinds = seen.kinds().map(|(kind, name)| format!("<span class=\"{}\">{name}</span>", class(&kind)));
    let _ = writeln!(out, "<dt>colors</dt><dd>{}</dd>", kinds.collect::<Vec<_>>().join(" "));
    let marks = seen.marks().filter(|(_, name)| *name != "token boundary");
    let mut marks: Vec<String> = marks.map(|(mark, name)| format!("<i>{mark}</i> {name}")).collect();
    if view.explained.tokens.is_some() {
        marks.push("<span class=\"edge\"></span>token boundary".into());
    }
    if view.explained.loss.is_some() {
        marks.push("<span class=\"learned\">carries loss</span>".into());
    }
    if !marks.is_empty() {
        let _ = writeln!(out, "<dt>marks</dt><dd>{}</dd>", marks.join(" &nbsp; "));
    }
    out.push_str("</dl>\n");
}

fn push_facts(out: &mut String, view: &View<'_>) {
    out.push_str("<dl>\n");
    for line in legend::lines(view) {
        let class = if line.warns { " class=\"warns\"" } else { "" };
        let _ = writeln!(out, "<dt>{}</dt><dd{class}>{}</dd>", line.label, escape(&line.text));
    }
    out.push_str("</dl>\n");
}

fn owner_class(owner: &Owner) -> &'static str {
    match owner {
        Owner::Message(_, role) => class(&PieceKind::Said(role.clone())),
        Owner::Tools => class(&PieceKind::Offered),
        Owner::Begin | Owner::Added | Owner::Generate | Owner::End => class(&PieceKind::Format),
    }
}

fn class(kind: &PieceKind) -> &'static str {
    match kind {
        PieceKind::Control => "control",
        PieceKind::Format => "format",
        PieceKind::Said(Role::System) => "system",
        PieceKind::Said(Role::User) => "user",
        PieceKind::Said(Role::Assistant) => "assistant",
        PieceKind::Said(Role::Tool) => "tool",
        PieceKind::Said(Role::Other(_)) => "other",
        PieceKind::Offered => "offered",
        PieceKind::Chosen => "option",
        PieceKind::Spelled => "spelled",
        PieceKind::Forged => "forged",
    }
}

/// Escapes text for use inside elements and attributes, including invisible characters.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => visible::push_escaped(&mut safe, c),
        }
    }
    safe
}
