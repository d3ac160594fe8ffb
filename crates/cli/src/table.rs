//! Output in columns, shared by all commands that print lists.

use std::fmt::Write;

use crate::paint::{Paint, Style};
use crate::visible;

/// The style and text of a table cell.
pub type Cell = (Style, String);

/// Appends a line for each row. Cells are escaped and padded to the width of their column, with two
/// spaces between columns and no trailing spaces.
pub fn push(out: &mut String, paint: Paint, indent: &str, rows: &[Vec<Cell>]) {
    let rows: Vec<Vec<(Style, _)>> =
        rows.iter().map(|row| row.iter().map(|(style, text)| (*style, visible::escape(text))).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|(_, text)| visible::width(text)).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        out.push_str(indent);
        let shown = row.iter().rposition(|(_, text)| !text.is_empty()).map_or(0, |last| last + 1);
        for (column, (style, text)) in row[..shown].iter().enumerate() {
            paint.push(out, *style, text);
            if column + 1 < shown {
                let _ = write!(out, "{:1$}", "", widths[column] + 2 - visible::width(text));
            }
        }
        let trimmed = out.trim_end_matches(' ').len();
        out.truncate(trimmed);
        out.push('\n');
    }
}

/// Appends a heading and rows in columns, or nothing if there are no rows.
pub fn push_headed(out: &mut String, paint: Paint, heading: &str, rows: Vec<Vec<Cell>>) {
    if !rows.is_empty() {
        out.push_str(&format!("\n{}\n", paint.text(Style::Strong, heading)));
        push(out, paint, "  ", &rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_look_and_lines_end_with_text() {
        let row = |texts: &[&str]| texts.iter().map(|text| (Style::Strong, (*text).to_owned())).collect::<Vec<_>>();
        let rows = [row(&["你", "b\n", ""]), row(&["a", "", "c"]), row(&[""])];
        let mut out = String::new();
        push(&mut out, Paint { colored: false }, "  ", &rows);
        assert_eq!(out, "  你  b\\n\n  a        c\n\n");
        let mut colored = String::new();
        push(&mut colored, Paint { colored: true }, "", &rows[..1]);
        assert_eq!(colored, "\u{1b}[1m你\u{1b}[0m  \u{1b}[1mb\\n\u{1b}[0m\n");
    }
}
