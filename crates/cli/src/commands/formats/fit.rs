//! Draws which format a model needs: its name, the reasons, warnings, and the dialects of other
//! frameworks.

use rolecall::identify::Identification;

use crate::paint::{Paint, Style};
use crate::visible;

/// Draws the name and title, the reasons, the warnings, and a table of dialects.
pub fn draw(identified: &Identification<'_>, paint: Paint) -> String {
    let Identification { format, evidence, warnings, dialects } = identified;
    let mut out = format!("{}  {}\n", paint.text(Style::Strong, &format.name), visible::escape(&format.title));
    for reason in evidence {
        out.push_str(&format!("  {}\n", visible::escape(&reason.to_string())));
    }
    for warning in warnings {
        push_warning(&mut out, paint, "", &warning.to_string());
    }
    if dialects.is_empty() {
        return out;
    }
    out.push_str(&format!("\n{}\n", paint.text(Style::Strong, "dialects")));
    let column = dialects.iter().map(|dialect| visible::width(&visible::escape(&dialect.format))).max().unwrap_or(0);
    for dialect in dialects {
        let name = visible::padded(&visible::escape(&dialect.format), column);
        out.push_str(&format!("  {name}  {}\n", visible::escape(&dialect.why)));
        if let Some(warning) = &dialect.warning {
            push_warning(&mut out, paint, &" ".repeat(column + 2), warning);
        }
    }
    out
}

fn push_warning(out: &mut String, paint: Paint, indent: &str, text: &str) {
    let word = paint.text(Style::Warning, "warning");
    out.push_str(&format!("  {indent}{word}: {}\n", visible::escape(text)));
}
