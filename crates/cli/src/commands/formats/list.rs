//! Draws the list of formats.

use rolecall::format::{Format, settings_of};

use crate::paint::{Paint, Style};
use crate::table;

/// Draws names, titles, options and stop texts in columns.
pub fn draw(formats: &[&Format], paint: Paint) -> String {
    let strong = |text: &str| (Style::Strong, text.to_owned());
    let mut rows = vec![["NAME", "TITLE", "OPTIONS", "STOP"].map(strong).to_vec()];
    for format in formats {
        let options = settings_of(format).iter().map(|setting| setting.name.clone()).collect::<Vec<_>>().join(", ");
        let rest = [format.title.clone(), options, format.stops().join("  ")].map(|text| (Style::Plain, text));
        rows.push(std::iter::once(strong(&format.name)).chain(rest).collect());
    }
    let mut out = String::new();
    table::push(&mut out, paint, "", &rows);
    out
}
