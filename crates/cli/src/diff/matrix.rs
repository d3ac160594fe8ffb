//! Draws the comparison of all formats of a model for a terminal.

use rolecall::diff::{Matrix, View};

use super::models::ListedModel;
use super::parts::{letter, parts};
use super::words::counted;
use crate::paint::{Paint, Style};
use crate::table::{self, Cell};
use crate::visible;

/// Draws the formats with their letters, a table for each view, and the first differences of each
/// pair.
pub fn draw(model: &str, listed: &[ListedModel], matrix: &Matrix, paint: Paint) -> String {
    let mut out = format!("{}\n", paint.text(Style::Strong, &visible::escape(model)));
    let rows = listed.iter().enumerate().map(|(at, listed)| {
        let (name, why) = (listed.format.name.clone(), listed.why.clone());
        vec![(Style::Frame, letter(at)), (Style::Plain, name), (Style::Plain, why)]
    });
    table::push(&mut out, paint, "  ", &rows.collect::<Vec<_>>());
    for listed in listed {
        if let Some(warning) = &listed.warning {
            let label = paint.text(Style::Warning, "warning");
            out.push_str(&format!("  {label}: {}: {}\n", listed.format.name, visible::escape(warning)));
        }
    }
    for view in [View::Chat, View::Training, View::Serving] {
        out.push_str(&format!("\n{}\n", paint.text(Style::Strong, title(view))));
        table::push(&mut out, paint, "  ", &rows_of(matrix, view));
    }
    let parts = parts(matrix);
    if !parts.is_empty() {
        out.push_str(&format!("\n{}\n", paint.text(Style::Strong, "first differences")));
    }
    for part in parts {
        let who = part.who();
        let line = format!("{} ({}): {}", part.conversation, part.views.join(", "), part.what);
        out.push_str(&format!("  {}  {}\n", paint.text(Style::Frame, &who), visible::escape(&line)));
    }
    out
}

/// Returns the title of a view's table.
fn title(view: View) -> &'static str {
    match view {
        View::Chat => "chat: the prompts",
        View::Training => "training: the training texts, and which parts of them carry loss",
        View::Serving | View::ServingBack => "serving: whether the row's training text matches what the column serves",
    }
}

/// Returns the cells of a view, with the formats' letters as row and column headers.
fn rows_of(matrix: &Matrix, view: View) -> Vec<Vec<Cell>> {
    let count = matrix.formats.len();
    let name = |at| (Style::Plain, letter(at));
    let mut rows = vec![std::iter::once((Style::Plain, String::new())).chain((0..count).map(name)).collect::<Vec<_>>()];
    for row in 0..count {
        let cell = |column| matrix.cell(view, row, column).map_or_else(String::new, counted);
        let cells = (0..count).map(|column| (Style::Plain, cell(column)));
        rows.push(std::iter::once((Style::Frame, letter(row))).chain(cells).collect());
    }
    rows
}
