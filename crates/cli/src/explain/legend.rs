//! What stands below the picture: counts, what spells control tokens, where the model stops.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rolecall::{Origin, Place, Role};

use super::forgery::Forgery;
use super::view::{Kind, View};

/// A line of the legend: what it is about, and what it says.
pub struct Line {
    pub label: &'static str,
    pub text: String,
    pub warns: bool,
}

pub fn lines(view: &View<'_>) -> Vec<Line> {
    let format = view.explained.format;
    let mut lines = vec![
        Line { label: "format", text: name_of(format), warns: false },
        Line { label: "counts", text: counts(view), warns: false },
    ];
    let stop = stops(view);
    if !stop.is_empty() {
        lines.push(Line { label: "stop", text: stop, warns: false });
    }
    lines.extend(forged(&view.forgeries));
    lines
}

/// The kinds of pieces that occur, with what they are called, in a fixed order.
pub fn kinds(view: &View<'_>) -> Vec<(Kind, &'static str)> {
    let all = [
        (Kind::Control, "control token"),
        (Kind::Format, "format"),
        (Kind::Said(Role::System), "system"),
        (Kind::Said(Role::User), "user"),
        (Kind::Said(Role::Assistant), "assistant"),
        (Kind::Said(Role::Tool), "tool"),
        (Kind::Offered, "tool offered"),
        (Kind::Chosen, "option"),
        (Kind::Spelled, "text that spells a control token"),
        (Kind::Forged, "forged control token"),
    ];
    let occurs = |kind: &Kind| view.rows.iter().flat_map(|row| &row.pieces).any(|piece| piece.kind == *kind);
    all.into_iter().filter(|(kind, _)| occurs(kind)).collect()
}

/// The marks that occur, with what they stand for.
pub fn marks(view: &View<'_>) -> Vec<(&'static str, &'static str)> {
    let pieces = || view.rows.iter().flat_map(|row| &row.pieces);
    let marked =
        |mark: &str| pieces().flat_map(|piece| &piece.shown).any(|shown| shown.mark && shown.text.contains(mark));
    let all = [
        ("⏎", "line break", marked("⏎")),
        ("·", "space", marked("·")),
        ("→", "tab", marked("→")),
        ("␍", "carriage return", marked("␍")),
        ("▏", "token edge", pieces().any(|piece| piece.edge)),
    ];
    all.into_iter().filter(|(_, _, occurs)| *occurs).map(|(mark, name, _)| (mark, name)).collect()
}

fn counts(view: &View<'_>) -> String {
    let prompt = view.explained.prompt;
    let tools = view.explained.conversation.tools.as_ref().map_or(0, Vec::len);
    let controls = match view.explained.encoded {
        // Of a template only the tokenizer knows them.
        Some(encoded) if prompt.controls().is_empty() => encoded.control_ids().len(),
        _ => prompt.segments().filter(|segment| matches!(segment.origin, Origin::Control(_))).count(),
    };
    let mut counts = vec![counted(view.explained.conversation.messages.len(), "message")];
    if tools > 0 {
        counts.push(counted(tools, "tool"));
    }
    counts.push(counted(controls, "control token"));
    counts.push(counted(prompt.text().chars().count(), "character"));
    if let Some(encoded) = view.explained.encoded {
        counts.push(counted(encoded.tokens.len(), "token"));
    }
    counts.join(", ")
}

/// `1 token`, `2 tokens`
pub fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The texts to stop at, with their ids where they are control tokens.
fn stops(view: &View<'_>) -> String {
    let prompt = view.explained.prompt;
    let each = prompt.stops().into_iter().map(|text| {
        let control = prompt.controls().iter().find(|control| control.texts().any(|own| own == text));
        match control.and_then(|control| control.id) {
            Some(id) => format!("`{text}` ({id})"),
            None => format!("`{text}`"),
        }
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Each message and token once.
fn forged(forgeries: &[Forgery]) -> Vec<Line> {
    let mut said: Vec<(String, &str, bool, usize)> = Vec::new();
    let mut places: HashMap<(String, &str, bool), usize> = HashMap::new();
    for forgery in forgeries {
        let who = who(&forgery.origin);
        match places.entry((who.clone(), &forgery.token, forgery.succeeded)) {
            Entry::Occupied(place) => said[*place.get()].3 += 1,
            Entry::Vacant(place) => {
                place.insert(said.len());
                said.push((who, &forgery.token, forgery.succeeded, 1));
            }
        }
    }
    let each = said.into_iter().map(|(who, token, succeeded, times)| {
        let times = if times > 1 { format!(" {times} times") } else { String::new() };
        let fate = if succeeded { "the reference encoding makes it a control token" } else { "it stays text" };
        Line { label: "spelled", text: format!("{who} spells `{token}`{times}: {fate}"), warns: true }
    });
    each.collect()
}

/// `message 0`, `message 2, tool_calls[0].function.arguments`, `tool 1`, `option date_string`
pub fn who(origin: &Origin) -> String {
    match origin {
        Origin::Control(_) => "control token".into(),
        Origin::Format => "format".into(),
        Origin::Message { message, field } if field == "content" => format!("message {message}"),
        Origin::Message { message, field } => Place::message(*message, field.as_ref()).to_string(),
        Origin::Tool { tool } => format!("tool {tool}"),
        Origin::Document { document } => format!("document {document}"),
        Origin::Option { name } => format!("option {name}"),
    }
}

/// A template has no title.
fn name_of(format: &rolecall::Format) -> String {
    match format.title.is_empty() {
        true => format!("`{}`", format.name),
        false => format!("{} (`{}`)", format.title, format.name),
    }
}
