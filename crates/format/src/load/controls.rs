//! Reads `[control]` and `[names]`.

use super::table::Table;
use super::unknown;
use crate::{BoundaryToken, Control, ControlId, Diagnostic, InText, Slot};

pub(super) fn read_controls(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Vec<Control> {
    let mut controls: Vec<Control> = Vec::new();
    for text in table.keys() {
        let span = table.span_of(&text);
        if Slot::from_key(&text).is_some() && table.is_text(&text) {
            mistakes.push(Diagnostic {
                code: "misplaced_key",
                message: format!("`{text}` is a layout, not a control token"),
                span: table.key_span(&text),
                help: Some("put the line `[layout]` above it".into()),
            });
            continue;
        }
        let Some(entry) = table.table(&text, mistakes) else { continue };
        let mut control = Control {
            id: entry.integer("id", mistakes).and_then(|id| u32::try_from(id).ok()),
            bos: entry.boolean("bos", mistakes),
            ends_turn: entry.boolean("ends_turn", mistakes),
            appended: entry.boolean("appended", mistakes),
            emitted: false,
            by_id: false,
            own: match entry.text("own", mistakes).as_deref() {
                None => None,
                Some("bos") => Some(BoundaryToken::Bos),
                Some("eos") => Some(BoundaryToken::Eos),
                Some(other) => {
                    mistakes.push(unknown("value of `own`", other, ["bos", "eos"], entry.span_of("own")));
                    None
                }
            },
            in_text: match entry.text("in-text", mistakes).as_deref() {
                None | Some("always") => InText::Always,
                Some("on-request") => InText::OnRequest,
                Some("never") => InText::Never,
                Some(other) => {
                    let known = ["always", "on-request", "never"];
                    mistakes.push(unknown("value of `in-text`", other, known, entry.span_of("in-text")));
                    InText::Always
                }
            },
            spelled: Vec::new(),
            text,
        };
        if let Some(spelled) = entry.table("spelled", mistakes) {
            for name in spelled.keys() {
                let text = spelled.text(&name, mistakes).unwrap_or_default();
                control.spelled.push((name, text));
            }
        }
        entry.finish(&["id", "bos", "ends_turn", "appended", "own", "in-text", "spelled"], mistakes);
        let clash = controls.iter().find(|other| {
            other.texts().any(|text| control.texts().any(|own| own == text))
                || (other.id.is_some() && other.id == control.id)
        });
        if let Some(other) = clash {
            mistakes.push(Diagnostic {
                code: "control_clash",
                message: format!("`{}` and `{}` share a spelling or an id", other.text, control.text),
                span: span.clone(),
                help: Some("declare a token with two names once, with `spelled`".into()),
            });
        }
        if control.texts().any(str::is_empty) {
            mistakes.push(Diagnostic {
                code: "empty_control",
                message: "expected the text of a control token, found an empty string".into(),
                span,
                help: Some("write the token's text".into()),
            });
        }
        controls.push(control);
    }
    controls
}

pub(super) fn read_names(
    table: Table<'_>,
    controls: &[Control],
    mistakes: &mut Vec<Diagnostic>,
) -> Vec<(String, ControlId)> {
    let mut names = Vec::new();
    for name in table.keys() {
        let span = table.span_of(&name);
        let Some(text) = table.text(&name, mistakes) else { continue };
        match controls.iter().position(|control| control.text == text) {
            Some(at) => names.push((name, ControlId(at))),
            None => mistakes.push(unknown(
                "control token",
                &text,
                controls.iter().map(|control| control.text.as_str()),
                span,
            )),
        }
    }
    names
}
