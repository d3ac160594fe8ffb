//! All formats of a model against each other, for a terminal.

use rolecall::diff::{Matrix, View};

use super::models::Listed;
use super::parts::{letter, parts};
use super::words::counted;
use crate::paint::{Paint, Style};
use crate::visible;

/// The formats by letter, a table for each view, and where each two first part.
pub fn draw(model: &str, listed: &[Listed], matrix: &Matrix, paint: Paint) -> String {
    let mut out = format!("{}\n", paint.text(Style::Strong, &visible::escape(model)));
    let rows =
        listed.iter().enumerate().map(|(at, listed)| vec![letter(at), listed.format.name.clone(), listed.why.clone()]);
    push_table(&mut out, rows.collect(), paint);
    for listed in listed {
        if let Some(warning) = &listed.warning {
            let label = paint.text(Style::Warning, "warning");
            out.push_str(&format!("  {label}: {}: {}\n", listed.format.name, visible::escape(warning)));
        }
    }
    for view in [View::Chat, View::Training, View::Serving] {
        out.push_str(&format!("\n{}\n", paint.text(Style::Strong, title(view))));
        push_table(&mut out, rows_of(matrix, view), paint);
    }
    let parts = parts(matrix);
    if !parts.is_empty() {
        out.push_str(&format!("\n{}\n", paint.text(Style::Strong, "where they first part")));
    }
    for part in parts {
        let who = part.who();
        let line = format!("{} ({}): {}", part.conversation, part.views.join(", "), part.what);
        out.push_str(&format!("  {}  {}\n", paint.text(Style::Frame, &who), visible::escape(&line)));
    }
    out
}

/// What a table of a view shows.
fn title(view: View) -> &'static str {
    match view {
        View::Chat => "chat: the prompts to be answered",
        View::Training => "training: the texts to be learned from, and what is learned of them",
        View::Serving | View::ServingBack => "serving: what the row trains on is what the column serves",
    }
}

/// The cells of a view, with the formats' letters before and above them.
fn rows_of(matrix: &Matrix, view: View) -> Vec<Vec<String>> {
    let count = matrix.formats.len();
    let mut rows = vec![std::iter::once(String::new()).chain((0..count).map(letter)).collect::<Vec<_>>()];
    for row in 0..count {
        let cells = (0..count).map(|column| matrix.cell(view, row, column).map_or_else(String::new, counted));
        rows.push(std::iter::once(letter(row)).chain(cells).collect());
    }
    rows
}

fn push_table(out: &mut String, rows: Vec<Vec<String>>, paint: Paint) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| visible::width(&visible::escape(cell)))
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in rows {
        let mut line = String::from("  ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let style = if column == 0 { Style::Frame } else { Style::Plain };
            paint.push(&mut line, style, &visible::padded(&visible::escape(cell), *width));
            line.push_str("  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
