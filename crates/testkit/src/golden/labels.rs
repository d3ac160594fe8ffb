//! A prompt with its loss in the vectors' own notation: `{"special": .., "loss": ..}` and
//! `{"text": .., "loss": ..}`.

use std::ops::Range;

use rolecall::conversation::{Json, object};
use rolecall::format::Control;
use rolecall::{Origin, Prompt};

/// The name of a control token (if any), the text, and whether it carries loss.
type Labelled = (Option<(&'static str, String)>, String, bool);

/// Splits a prompt into runs at control tokens and at the borders of loss; `name` returns the name
/// of a control token.
pub(super) fn of_prompt(
    prompt: &Prompt,
    loss: &[Range<usize>],
    name: impl Fn(&Control) -> (&'static str, String),
) -> Vec<Json> {
    let mut runs: Vec<Labelled> = Vec::new();
    let mut borders: Vec<usize> = loss.iter().flat_map(|span| [span.start, span.end]).collect();
    borders.push(prompt.text().len());
    for segment in prompt.segments() {
        let mut start = segment.start;
        let end = start + segment.text.len();
        let special = match segment.origin {
            Origin::Control(id) => Some(name(&prompt.controls()[id.0])),
            _ => None,
        };
        while start < end {
            let next = borders.iter().copied().filter(|border| *border > start).min().unwrap_or(end).min(end);
            let learned = loss.iter().any(|span| span.contains(&start));
            match runs.last_mut() {
                Some((None, text, same)) if special.is_none() && *same == learned => {
                    text.push_str(&prompt.text()[start..next])
                }
                _ => runs.push((special.clone(), prompt.text()[start..next].to_owned(), learned)),
            }
            start = next;
        }
    }
    let each = runs.into_iter().map(|(special, text, learned)| match special {
        Some((key, name)) => Json::Object(
            [(key.to_owned(), Json::from(name)), ("loss".to_owned(), Json::from(learned))].into_iter().collect(),
        ),
        None => Json::Object(object! { "text" => text, "loss" => learned }),
    });
    each.collect()
}
