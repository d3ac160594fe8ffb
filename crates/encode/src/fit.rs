//! Whether a chat template belongs to a tokenizer: whether the markers of its turns are tokens.
//!
//! A few models were trained on markers that are ordinary text, so a marker that is no token is not
//! wrong by itself. What tells them apart is how a turn ends: their templates end it with a token.

use std::collections::BTreeSet;

use rolecall_render::jinja::NodeContent;
use rolecall_render::{AroundTurns, ChatTemplate};
use rolecall_tokenizer::{TextPlace, Tokenizer};

/// Returns the markers of a template's turns that are not one token of the tokenizer, if the template
/// and the tokenizer do not belong together. Returns none if they do.
///
/// They do not belong together if
/// - the text between a reply and the next turn has markers, and none of them is a token;
/// - some of the markers `<|name|>` that the template writes around turns are tokens and others are not;
/// - the template writes a special token that its files name and that is no token.
///
/// ```
/// use rolecall_encode::foreign_markers;
/// use rolecall_render::ChatTemplate;
/// use rolecall_tokenizer::HuggingFace;
/// let json = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"<": 0, "|": 1, ">": 2}, "merges": []}}"#;
/// let tokenizer = HuggingFace::from_bytes(json, None)?;
/// let source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
/// let template = ChatTemplate::compile(source, Vec::new())?;
/// assert_eq!(foreign_markers(&template, &tokenizer), ["<|im_start|>", "<|im_end|>"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn foreign_markers(template: &ChatTemplate, tokenizer: &dyn Tokenizer) -> Vec<String> {
    let Some(around) = AroundTurns::of(template) else { return Vec::new() };
    let is_foreign = |mark: &&str| !is_token(mark, tokenizer);
    let own: Vec<&str> = marks(&around.closing).collect();
    // An unknown special token is taken for a token.
    let has_token = around.closing.contains(AroundTurns::UNKNOWN) || own.iter().any(|mark| !is_foreign(mark));
    let is_special = |mark: &str| template.tokens().iter().any(|(_, token)| token == mark);
    let literal: Vec<&str> =
        markers_of(&around).into_iter().filter(|mark| !is_special(mark) && has_bar(mark)).collect();
    let is_split = literal.iter().any(is_foreign) && !literal.iter().all(is_foreign);
    let mut found: Vec<&str> = markers_of(&around).into_iter().filter(is_foreign).collect();
    if own.is_empty() || has_token {
        found.retain(|mark| is_special(mark) || (is_split && literal.contains(mark)));
    }
    found.into_iter().map(str::to_owned).collect()
}

/// Returns the markers that a template writes around turns, each once, in order.
///
/// ```
/// use rolecall_encode::turn_markers;
/// use rolecall_render::ChatTemplate;
/// let source = "{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}";
/// let template = ChatTemplate::compile(source, Vec::new())?;
/// assert_eq!(turn_markers(&template), ["<start_of_turn>", "<end_of_turn>"]);
/// # Ok::<(), rolecall_render::Error>(())
/// ```
pub fn turn_markers(template: &ChatTemplate) -> Vec<String> {
    let around = AroundTurns::of(template).unwrap_or_default();
    markers_of(&around).into_iter().map(str::to_owned).collect()
}

/// Returns the markers that a template's literals spell and that are not one token of the tokenizer, in
/// order of their text. Comments spell none.
pub(crate) fn text_markers(template: &ChatTemplate, tokenizer: &dyn Tokenizer) -> BTreeSet<String> {
    let writes = template.writes().unwrap_or_default();
    let texts = writes.nodes.iter().filter_map(|node| match &node.written {
        NodeContent::Text(text) => Some(text.as_ref()),
        _ => None,
    });
    let around = AroundTurns::of(template).unwrap_or_default();
    let all = texts.flat_map(marks).chain(markers_of(&around));
    all.filter(|mark| !is_token(mark, tokenizer)).map(str::to_owned).collect()
}

/// Returns the markers around turns, each once, in order.
fn markers_of(around: &AroundTurns) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    around.texts.iter().flat_map(|text| marks(text)).filter(|mark| seen.insert(*mark)).collect()
}

/// Reports whether a text is one token in any way: added, a word of the vocabulary, or after
/// normalization.
fn is_token(text: &str, tokenizer: &dyn Tokenizer) -> bool {
    let mut tokens = Vec::new();
    tokenizer.token_id(text).is_some()
        || (tokenizer.encode_reference(text, TextPlace::Inside, &mut tokens).is_ok() && tokens.len() == 1)
}

/// Reports whether a marker has the form `<|name|>`, in either width.
fn has_bar(mark: &str) -> bool {
    mark.contains(['|', '\u{ff5c}'])
}

/// Returns the markers in a text: `<name>`, `</name>`, `<|name|>` in either width, and `[NAME]`.
fn marks(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.char_indices().filter(|(_, c)| matches!(c, '<' | '['));
    starts.filter_map(|(at, opening)| {
        let rest = &text[at..];
        let closing = if opening == '<' { '>' } else { ']' };
        let end = rest.find(closing)?;
        let name = &rest[1..end];
        let is_good = match opening {
            '<' => {
                let inner = |c: char| c.is_ascii_alphanumeric() || "_-/.:|\u{ff5c}\u{2581}".contains(c);
                let is_wide = name.starts_with('\u{ff5c}') && name.ends_with('\u{ff5c}');
                name.chars().any(char::is_alphanumeric)
                    && name.chars().all(|c| inner(c) || (is_wide && c.is_alphanumeric()))
            }
            _ => name.len() > 2 && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'/'),
        };
        (is_good && end <= 66).then(|| &rest[..end + closing.len_utf8()])
    })
}
