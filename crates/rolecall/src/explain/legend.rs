//! The facts below the prompt: counts, text that spells control tokens, and stop texts.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use crate::Origin;
use crate::conversation::Place;
use crate::loss::TokenLoss;

use super::forgery::Forgery;
use super::view::View;

/// A line of the legend, with its label.
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
    if let Some(loss) = view.explained.loss.filter(|loss| !loss.loss.is_uniform()) {
        lines.push(Line { label: "weights", text: weights(view, loss), warns: false });
    }
    let stop = stops(view);
    if !stop.is_empty() {
        lines.push(Line { label: "stop", text: stop, warns: false });
    }
    lines.extend(forged(view.forgeries()));
    lines
}

fn counts(view: &View<'_>) -> String {
    let prompt = view.explained.prompt;
    let tools = view.explained.conversation.tools.as_ref().map_or(0, Vec::len);
    let controls = match view.explained.tokens {
        // A template's control tokens are only known to the tokenizer.
        Some(tokens) if prompt.controls().is_empty() => tokens.iter().filter(|token| token.control).count(),
        _ => prompt.segments().filter(|segment| matches!(segment.origin, Origin::Control(_))).count(),
    };
    let mut counts = vec![counted(view.explained.conversation.messages.len(), "message")];
    if tools > 0 {
        counts.push(counted(tools, "tool"));
    }
    counts.push(counted(controls, "control token"));
    counts.push(counted(prompt.text().chars().count(), "character"));
    if let Some(tokens) = view.explained.tokens {
        counts.push(counted(tokens.len(), "token"));
    }
    counts.join(", ")
}

/// Returns the loss weights, each with the number of its tokens, or of its characters without a
/// tokenizer.
fn weights(view: &View<'_>, loss: TokenLoss<'_>) -> String {
    // The bits of positive numbers have the order of the numbers.
    let mut found: BTreeMap<u32, usize> = BTreeMap::new();
    let mut add = |weight: f32, count: usize| *found.entry(weight.to_bits()).or_default() += count;
    let what = match view.explained.tokens {
        Some(tokens) => {
            let mut weigher = loss.weigher();
            tokens.iter().for_each(|token| add(weigher.weight(&token), 1));
            "token"
        }
        None => {
            let text = view.explained.prompt.text();
            loss.loss.spans.iter().for_each(|span| add(span.weight, text[span.range.clone()].chars().count()));
            "character"
        }
    };
    found.remove(&0);
    let each = found.into_iter().map(|(bits, count)| format!("{} ({})", f32::from_bits(bits), counted(count, what)));
    each.collect::<Vec<_>>().join(", ")
}

/// Formats a count with its noun: `1 token`, `2 tokens`.
pub fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// Returns the stop texts, with the ids of those that are control tokens.
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

/// The maximum number of lines about spelled control tokens; the rest is only counted.
const MOST_FORGED: usize = 100;

/// Returns a line for each combination of message and token.
fn forged<'a>(forgeries: impl Iterator<Item = Forgery<'a>>) -> Vec<Line> {
    let mut said: Vec<(String, &str, bool, usize)> = Vec::new();
    let mut places: HashMap<(String, &str, bool), usize> = HashMap::new();
    let mut rest = 0;
    for forgery in forgeries {
        let who = who(&forgery.origin);
        let full = said.len() >= MOST_FORGED;
        match places.entry((who.clone(), forgery.token, forgery.succeeded)) {
            Entry::Occupied(place) => said[*place.get()].3 += 1,
            Entry::Vacant(_) if full => rest += 1,
            Entry::Vacant(place) => {
                place.insert(said.len());
                said.push((who, forgery.token, forgery.succeeded, 1));
            }
        }
    }
    let each = said.into_iter().map(|(who, token, succeeded, times)| {
        let times = if times > 1 { format!(" {times} times") } else { String::new() };
        let fate = if succeeded { "the reference encoding makes it a control token" } else { "it stays text" };
        Line { label: "spelled", text: format!("{who} spells `{token}`{times}: {fate}"), warns: true }
    });
    let text = format!("{rest} more times in other messages");
    each.chain((rest > 0).then_some(Line { label: "spelled", text, warns: true })).collect()
}

/// Names an origin: `message 0`, `message 2, tool_calls[0].function.arguments`, `tool 1`,
/// `option date_string`.
pub fn who(origin: &Origin) -> String {
    match origin {
        Origin::Control(_) => "control token".into(),
        Origin::Format => "format".into(),
        Origin::Message { message, field } if field == "content" => format!("message {message}"),
        Origin::Message { message, field } => Place::message(*message, field.clone().into_owned()).to_string(),
        Origin::Tool { tool } => format!("tool {tool}"),
        Origin::Document { document } => format!("document {document}"),
        Origin::Option { name } => format!("option {name}"),
    }
}

/// Returns the title and name of a format; a format without a title is shown by name only.
fn name_of(format: &crate::format::Format) -> String {
    match format.title.is_empty() {
        true => format!("`{}`", format.name),
        false => format!("{} (`{}`)", format.title, format.name),
    }
}
