//! Describes the outcome of a comparison in a few words.

use rolecall::Origin;
use rolecall::diff::{Cell, Difference, LearnedComparison, Opening, Outcome, Side, Spot, Stand};

/// The names of the two formats, and whether to quote the text where they diverge.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub names: [&'a str; 2],
    pub quote: bool,
}

impl Names<'_> {
    fn of(&self, side: Side) -> &str {
        self.names[side.index()]
    }
}

/// Returns the cell of a single conversation.
pub fn in_short(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Same => "same".into(),
        Outcome::Opening(_) => "opening".into(),
        Outcome::Text(_) => "differs".into(),
        Outcome::Loss(_) => "loss differs".into(),
        Outcome::Untaught { .. } => "not taught".into(),
        Outcome::NeverStops { .. } => "never stops".into(),
        Outcome::OneRefuses { side, .. } => format!("{} refuses", side.letter()),
        Outcome::BothRefuse(_) => "both refuse".into(),
        _ => outcome.name().into(),
    }
}

/// Returns the cell for all conversations.
pub fn counted(cell: &Cell) -> String {
    match cell.taken() {
        0 => "-".into(),
        taken if cell.same == taken => "same".into(),
        taken if cell.opening == taken => "opening".into(),
        taken => format!("{} of {taken}", cell.same),
    }
}

/// Describes an outcome in one sentence.
pub fn sentence(outcome: &Outcome, names: Names<'_>) -> String {
    let pair = |by: Side| (names.of(by), names.of(by.other()));
    match outcome {
        Outcome::Same => "the same".into(),
        Outcome::Opening(opening) => format!("only the opening token differs: {}", of_opening(opening, names)),
        Outcome::Text(difference) => of_difference(difference, names),
        Outcome::Loss(loss) => {
            let (by, other) = pair(loss.by);
            format!("the text is the same; {by} learns {}, {other} does not", quoted(&loss.text))
        }
        Outcome::Untaught { by, text } => {
            let (by, other) = pair(*by);
            format!("{other} expects the model to write {}, but {by} does not teach it", quoted(text))
        }
        Outcome::NeverStops { by, learned, stops } => {
            let stops: Vec<String> = stops.iter().map(|stop| quoted(stop)).collect();
            let learned = if learned.is_empty() { "nothing".into() } else { quoted(learned) };
            let (by, other) = pair(*by);
            format!("{by} teaches {learned} after an answer, {other} stops at {}", stops.join(", "))
        }
        Outcome::OneRefuses { side, error } => format!("{} refuses: {error}", names.of(*side)),
        Outcome::BothRefuse([a, b]) if a.to_string() == b.to_string() => format!("both refuse: {a}"),
        Outcome::BothRefuse([a, b]) => format!("both refuse: {}: {a}; {}: {b}", names.of(Side::A), names.of(Side::B)),
        _ => outcome.name().into(),
    }
}

fn of_opening(opening: &Opening, names: Names<'_>) -> String {
    let wrote = |side: Side| match opening.texts[side.index()].as_str() {
        "" => format!("{} writes none", names.of(side)),
        text => format!("{} writes {}", names.of(side), quoted(text)),
    };
    format!("{}, {}", wrote(Side::A), wrote(Side::B))
}

fn of_difference(difference: &Difference, names: Names<'_>) -> String {
    let [a, b] = &difference.spots;
    let (name_a, name_b) = (names.of(Side::A), names.of(Side::B));
    let (what_a, what_b) = (what(a, names.quote), what(b, names.quote));
    let mut said = match place(a) {
        Some(place_a) if Some(&place_a) == place(b).as_ref() => match what_a == what_b {
            true => format!("{place_a}, in {what_a}"),
            false => format!("{place_a}: {name_a} has {what_a}, {name_b} {what_b}"),
        },
        place_a => {
            let with =
                |what: String, place: Option<String>| place.map_or(what.clone(), |place| format!("{what} {place}"));
            format!("{name_a} has {}, {name_b} {}", with(what_a, place_a), with(what_b, place(b)))
        }
    };
    if let Some(opening) = &difference.opening {
        said.push_str(&format!("; the opening token differs too: {}", of_opening(opening, names)));
    }
    if let Some(LearnedComparison::Differs { number, texts }) = &difference.learned {
        let text = |side: Side| texts[side.index()].as_deref().map_or("nothing".into(), quoted);
        let (a, b) = (text(Side::A), text(Side::B));
        said.push_str(&format!("; in answer {number}, {} learns {a}, {} {b}", names.of(Side::A), names.of(Side::B)));
    }
    said
}

/// Describes the position of a place, unless the description of its text already does.
fn place(spot: &Spot) -> Option<String> {
    match spot.stand {
        Stand::Start => Some("before all messages".into()),
        Stand::Before(message) if begins(spot, message) => None,
        Stand::Before(message) => Some(format!("before the text of message {message}")),
        Stand::Within(message) => Some(format!("in the text of message {message}")),
        Stand::Behind(message) => Some(format!("after the text of message {message}")),
        Stand::Generate => Some("in the generation prompt".into()),
    }
}

/// Reports whether the text of a message begins at the place.
fn begins(spot: &Spot, message: usize) -> bool {
    spot.origin.as_ref().and_then(Origin::message) == Some(message)
}

/// Describes the text at a place.
fn what(spot: &Spot, quote: bool) -> String {
    let what = match &spot.origin {
        None => return "the end of its text".into(),
        Some(Origin::Message { message, .. }) if spot.stand == Stand::Before(*message) => {
            return format!("the text of message {message}");
        }
        Some(Origin::Control(_)) => "a control token".into(),
        Some(Origin::Format) => "literal text".into(),
        Some(Origin::Message { field, .. }) if field == "content" => "text".into(),
        Some(Origin::Message { field, .. }) => format!("`{field}`"),
        Some(Origin::Tool { tool }) => format!("tool {tool}"),
        Some(Origin::Document { document }) => format!("document {document}"),
        Some(Origin::Option { name }) => format!("the option `{name}`"),
    };
    if quote { cut(&spot.text, 24) } else { what }
}

/// Returns a text in backquotes on one line, truncated if it is long.
fn quoted(text: &str) -> String {
    cut(text, 40)
}

fn cut(text: &str, length: usize) -> String {
    let shown = text.chars().take(length).map(|character| if character == '\n' { '⏎' } else { character });
    let more = if text.chars().nth(length).is_some() { "…" } else { "" };
    // A backquote in the text would end the quotation.
    format!("`{}{more}`", shown.collect::<String>().replace('`', "'"))
}
