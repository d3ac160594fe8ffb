//! All formats in columns.

use rolecall::Format;

use super::setting::settings_of;
use crate::paint::{Paint, Style};
use crate::visible;

/// Names, titles, options and stop texts in columns.
pub fn draw(formats: &[&Format], paint: Paint) -> String {
    let mut rows = vec![["NAME", "TITLE", "OPTIONS", "STOP"].map(str::to_owned)];
    for format in formats {
        rows.push([
            format.name.clone(),
            visible::escape(&format.title).into_owned(),
            settings_of(format).iter().map(|setting| setting.name.clone()).collect::<Vec<_>>().join(", "),
            visible::escape(&format.stops().join("  ")).into_owned(),
        ]);
    }
    let widths: Vec<usize> =
        (0..3).map(|column| rows.iter().map(|row| visible::width(&row[column])).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let cell = widths.get(column).map_or(cell.clone(), |width| visible::padded(cell, width + 2));
            let style = if at == 0 || column == 0 { Style::Strong } else { Style::Plain };
            paint.push(&mut line, style, &cell);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
