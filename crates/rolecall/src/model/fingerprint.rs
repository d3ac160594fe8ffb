//! What a saved session is bound to, as digests of content.

use std::fmt::Write;

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;
use rolecall_format::Format;
use rolecall_tokenizer::{TextPlace, Tokenizer};

use super::digest::digest;
use super::setup::Setup;
use crate::Error;

/// Digests of everything of a model on which the ids of a session depend, by part.
///
/// A digest tells apart models that differ by accident. It is no protection against a model that
/// was made to have the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(Vec<(&'static str, String)>);

impl Fingerprint {
    pub fn to_json(&self) -> Json {
        let parts = self.0.iter().map(|(part, digest)| ((*part).to_owned(), Json::from(digest.as_str())));
        Json::Object(parts.collect::<Object>())
    }

    /// Returns the first part that differs from a saved fingerprint.
    pub fn difference(&self, saved: &Object) -> Option<&'static str> {
        let is_same = |(part, digest): &&(&str, String)| saved.get(part).and_then(Json::as_str) == Some(digest);
        self.0.iter().find(|part| !is_same(part)).map(|(part, _)| *part)
    }
}

impl Setup {
    /// Returns the digests of what the session's ids depend on.
    pub fn fingerprint(&self) -> Result<&Fingerprint, Error> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known);
        }
        let voice = match (self.chosen(), self.format()) {
            (Some(chosen), _) => ("chat template", chosen.digest().to_owned()),
            (None, Some(format)) => ("format", self.digest_of_format(format)),
            (None, None) => return Err(Error::NoFormat),
        };
        let loaded = self.model.shared.encoders.loaded()?;
        let tokenizer = loaded.digest.get_or_init(|| digest_of(loaded.tokenizer.as_ref()));
        let stops = (&self.stops, &self.stop_ids, &self.final_stop);
        let found = vec![
            voice,
            ("tokenizer", tokenizer.clone()),
            ("settings", digest(&self.switches)),
            ("stop tokens", digest(&format!("{stops:?}"))),
        ];
        Ok(self.fingerprint.get_or_init(|| Fingerprint(found)))
    }

    fn digest_of_format(&self, format: &Format) -> String {
        let make = || (format.name.clone(), digest(&content_of(format)));
        self.model.shared.digests.get_or_make(|known| *known == format.name, make)
    }
}

/// Returns what a format writes and reads, without what only describes it.
fn content_of(format: &Format) -> String {
    let mut content = format.clone();
    content.models.clear();
    content.base_models.clear();
    content.sources.clear();
    content.aliases.clear();
    content.title.clear();
    content.fields.clear();
    content.training = None;
    content.identity = Default::default();
    format!("{content:?}")
}

/// Returns the digest of a tokenizer's content: its tokens, and how it encodes probes. The merges
/// are not reachable for every kind, but the probes depend on them.
fn digest_of(tokenizer: &dyn Tokenizer) -> String {
    let mut content = String::new();
    let facts = (tokenizer.kind(), tokenizer.vocabulary_size(), tokenizer.adds_bos(), tokenizer.adds_eos());
    let places = [TextPlace::Start, TextPlace::Inside].map(|place| tokenizer.prefix_space(place));
    let _ = write!(content, "{facts:?}{places:?}{:?}{}", tokenizer.unknown(), tokenizer.normalizes());
    let added = tokenizer.added_tokens();
    let _ = write!(content, "{added:?}{:?}", tokenizer.text_tokens());
    let size = u32::try_from(tokenizer.vocabulary_size()).unwrap_or(u32::MAX);
    let step = (size / PROBED).max(1);
    let mut ids = Vec::new();
    let mut probe = |text: &str, content: &mut String| {
        ids.clear();
        match tokenizer.encode_ids(text, TextPlace::Inside, &mut ids) {
            Ok(()) => ids.iter().for_each(|id| {
                let _ = write!(content, "{id},");
            }),
            Err(_) => content.push('!'),
        }
        content.push(';');
    };
    for id in 0..size {
        let text = tokenizer.token_text(id);
        let _ = write!(content, "{text:?}");
        let mut bytes = Vec::new();
        if id % step == 0
            && tokenizer.token_bytes(id, &mut bytes)
            && let Ok(text) = std::str::from_utf8(&bytes)
        {
            probe(text, &mut content);
        }
    }
    for text in PROBES {
        probe(text, &mut content);
    }
    digest(&content)
}

/// The number of tokens whose own text is encoded.
const PROBED: u32 = 4_096;

/// Texts of which each part of a tokenizer changes the ids: splitting, normalizing and merging.
const PROBES: [&str; 6] = [
    "The quick brown fox, it's said, can't jump over 13 lazy dogs in 1234567 days; WHO knew? unbelievable",
    "def f(x):\n    return {\"a\": [1, 2.50], 'b': None}\r\n\t# done\n\n\n   x != y && z <= 10",
    "Caf\u{e9} cafe\u{301} \u{fb03} na\u{ef}ve \u{130}stanbul stra\u{df}e \u{a0}\u{2003}|\u{200b}|",
    "\u{4f60}\u{597d}\u{ff0c}\u{4e16}\u{754c} \u{3053}\u{3093}\u{306b}\u{3061}\u{306f} \u{c548}\u{b155} \u{43f}\u{440}\u{438}\u{432}\u{435}\u{442} \u{645}\u{631}\u{62d}\u{628}\u{627}",
    "\u{1f600}\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{10348} \u{2603}",
    " leading and trailing   spaces   ",
];
