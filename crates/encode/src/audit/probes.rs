//! Probes a tokenizer with texts that a message or a template could contain.

use std::collections::{BTreeMap, BTreeSet};

use rolecall_render::ChatTemplate;

use super::{Finding, FindingKind};
use crate::fit::{foreign_markers, text_markers};
use rolecall_tokenizer::Tokenizer;
use rolecall_tokenizer::{AddedToken, TextPlace};

/// The number of ids to check for holes; no known vocabulary comes near it.
const MOST_IDS: usize = 1 << 22;

/// Tokens by kind of finding, in the order of their ids.
#[derive(Default)]
struct TokensByFinding(BTreeMap<FindingKind, Vec<(String, Option<u32>)>>);

impl TokensByFinding {
    fn push(&mut self, kind: FindingKind, token: &AddedToken) {
        self.0.entry(kind).or_default().push((token.text.clone(), Some(token.id)));
    }

    fn report(self, out: &mut Vec<Finding>) {
        for (kind, tokens) in self.0 {
            out.push(Finding { kind, message: message(kind, &tokens), tokens });
        }
    }
}

pub(super) fn find_in_added(tokenizer: &dyn Tokenizer, out: &mut Vec<Finding>) {
    let mut found = TokensByFinding::default();
    let added = tokenizer.added_tokens();
    let byte_names: BTreeSet<String> = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut ids = BTreeMap::new();
    let mut texts = BTreeMap::new();
    for token in added {
        let is_byte = byte_names.contains(&token.text);
        let in_reference = reference(tokenizer, &token.text);
        let is_found = in_reference.contains(&token.id);
        if is_byte {
            // Encoded as text, the name is six tokens; as a byte it is one.
            if is_found {
                found.push(FindingKind::ByteNameIsText, token);
            }
            continue;
        }
        // Some normalizers change only the start of a text, or everything but the start.
        let is_found_inside = reference(tokenizer, &format!("a {} a", token.text)).contains(&token.id);
        if is_found || is_found_inside {
            found.push(FindingKind::SpelledByText, token);
        }
        if token.normalized && !(is_found && is_found_inside) {
            found.push(FindingKind::ChangedByNormalization, token);
        } else if !is_found {
            found.push(FindingKind::NeverText, token);
        }
        if token.normalized
            && is_found
            && other_spellings(&token.text).any(|text| reference(tokenizer, &text) == in_reference)
        {
            found.push(FindingKind::OtherSpellings, token);
        }
        if tokenizer.encode_ordinary(&token.text, TextPlace::Inside, &mut Vec::new()).is_err() {
            found.push(FindingKind::NoPlainSpelling, token);
        }
        if token.lstrip || token.rstrip {
            found.push(FindingKind::TakesSpace, token);
        }
        if token.single_word {
            found.push(FindingKind::SingleWord, token);
        }
        if !token.special {
            found.push(FindingKind::NotSpecial, token);
        }
        if ids.insert(token.id, token).is_some_and(|before| before.text != token.text) {
            found.push(FindingKind::TwoTexts, token);
        }
        if texts.insert(&token.text, token).is_some_and(|before| before.id != token.id) {
            found.push(FindingKind::TextTwice, token);
        }
    }
    tokenizer.text_tokens().iter().for_each(|token| found.push(FindingKind::TextTokens, token));
    found.report(out);
}

/// Finds ids below the highest id that have no token.
pub(super) fn find_in_vocabulary(tokenizer: &dyn Tokenizer, out: &mut Vec<Finding>) {
    let highest = tokenizer.added_tokens().iter().map(|token| token.id as usize + 1).max().unwrap_or(0);
    let end = highest.max(tokenizer.vocabulary_size()).min(MOST_IDS);
    // At most four million ids.
    let holes: Vec<u32> = (0..end as u32).filter(|&id| tokenizer.token_text(id).is_none()).collect();
    if let [first, .., last] | [first @ last] = holes.as_slice() {
        let message = match holes.len() {
            1 => format!("no token for id {first}"),
            count => format!("no token for {count} ids from {first} to {last}"),
        };
        out.push(Finding { kind: FindingKind::Holes, message, tokens: Vec::new() });
    }
}

/// Finds markers that templates write and that are no tokens.
pub(super) fn find_in_templates(templates: &[ChatTemplate], tokenizer: &dyn Tokenizer, out: &mut Vec<Finding>) {
    let unfit: BTreeSet<String> = templates.iter().flat_map(|template| foreign_markers(template, tokenizer)).collect();
    let mut text: BTreeSet<String> = templates.iter().flat_map(|template| text_markers(template, tokenizer)).collect();
    text.retain(|mark| !unfit.contains(mark));
    for (kind, marks) in [(FindingKind::ForeignTemplate, unfit), (FindingKind::TemplateWritesText, text)] {
        let tokens: Vec<(String, Option<u32>)> = marks.into_iter().map(|text| (text, None)).collect();
        if !tokens.is_empty() {
            out.push(Finding { kind, message: message(kind, &tokens), tokens });
        }
    }
}

fn message(kind: FindingKind, tokens: &[(String, Option<u32>)]) -> String {
    let (name, these) = match tokens {
        [(text, _)] => (format!("`{text}`"), true),
        tokens => (format!("{} tokens", tokens.len()), false),
    };
    let say = |one: &str, many: &str| format!("{name} {}", if these { one } else { many });
    match kind {
        FindingKind::ChangedByNormalization => say(
            "is not found in text that spells it: normalization changes the text first",
            "are not found in text that spells them: normalization changes the text first",
        ),
        FindingKind::OtherSpellings => say(
            "also matches other spellings because of normalization",
            "also match other spellings because of normalization",
        ),
        FindingKind::NoPlainSpelling => {
            say("cannot be spelled in ordinary tokens", "cannot be spelled in ordinary tokens")
        }
        FindingKind::TakesSpace => say("absorbs the white space around it", "absorb the white space around them"),
        FindingKind::SingleWord => say("is found only as a whole word", "are found only as whole words"),
        FindingKind::TextTwice => say("is the text of two ids", "are each the text of two ids"),
        FindingKind::TwoTexts => say("is a second text of its id", "are second texts of their ids"),
        FindingKind::ForeignTemplate => say(
            "marks turns in the chat template but is not a token",
            "mark turns in the chat template but do not exist",
        ),
        FindingKind::TemplateWritesText => {
            say("appears in the chat template but is not a token", "appear in the chat template but do not exist")
        }
        FindingKind::ByteNameIsText => {
            say("encodes to a byte where text spells it", "encode to bytes where text spells them")
        }
        FindingKind::NotSpecial => say("is not flagged as special", "are not flagged as special"),
        FindingKind::NeverText => say(
            "is never produced from text, even in the reference: a control token or unused",
            "are never produced from text, even in the reference: control tokens or unused",
        ),
        FindingKind::TextTokens => say("is an added token but ordinary text", "are added tokens but ordinary text"),
        FindingKind::SpelledByText => say(
            "is produced from text that spells it in the reference",
            "are produced from text that spells them in the reference",
        ),
        _ => name,
    }
}

/// Returns spellings that a normalizer may map to the same text: other case, other width, and the
/// space sign.
fn other_spellings(text: &str) -> impl Iterator<Item = String> + '_ {
    let wide = |c: char| match c {
        '!'..='~' => char::from_u32(u32::from(c) + 0xFEE0).unwrap_or(c),
        ' ' => '\u{3000}',
        other => other,
    };
    let spellings = [
        text.to_uppercase(),
        text.to_lowercase(),
        text.chars().map(wide).collect(),
        text.replace('\u{2581}', " "),
        text.replace(' ', "\u{2581}"),
    ];
    spellings.into_iter().filter(move |other| other != text)
}

fn reference(tokenizer: &dyn Tokenizer, text: &str) -> Vec<u32> {
    let mut tokens = Vec::new();
    match tokenizer.encode_reference(text, TextPlace::Start, &mut tokens) {
        Ok(()) => tokens.into_iter().map(|token| token.id).collect(),
        Err(_) => Vec::new(),
    }
}
