use super::super::Error;
use super::charsmap::Charsmap;
use super::model::NormalizerSpec;
use super::trie::Trie;

pub(super) const ESCAPED_SPACE: &str = "\u{2581}";

/// The changes that sentencepiece makes to a text before it looks for pieces.
pub(super) struct Normalizer {
    pub add_dummy_prefix: bool,
    charsmap: Option<Charsmap>,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
    whitespace_as_suffix: bool,
}

pub(super) struct NormalizedInput {
    pub text: String,
    /// For each byte of `text`, and for its end, the corresponding byte of the original.
    pub origin: Vec<usize>,
}

/// Whether a section gets the prefix space that the model requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    AsTheModelSays,
    Without,
}

impl Normalizer {
    pub fn new(spec: &NormalizerSpec, whitespace_as_suffix: bool) -> Result<Self, Error> {
        let charsmap = match spec.charsmap.as_slice() {
            [] => None,
            bytes => Some(Charsmap::from_bytes(bytes)?),
        };
        Ok(Self {
            add_dummy_prefix: spec.add_dummy_prefix,
            charsmap,
            remove_extra_whitespaces: spec.remove_extra_whitespaces,
            escape_whitespaces: spec.escape_whitespaces,
            whitespace_as_suffix,
        })
    }

    /// Reports whether a space is added before a text.
    pub fn adds_prefix(&self, prefix: Prefix) -> bool {
        self.add_dummy_prefix && prefix == Prefix::AsTheModelSays && !self.whitespace_as_suffix
    }

    /// Normalizes a text like sentencepiece's `Normalizer::Normalize`. Text in `matched` stays
    /// unchanged.
    pub fn normalize(&self, text: &str, matched: &Trie, prefix: Prefix) -> NormalizedInput {
        let mut out =
            NormalizedInput { text: String::with_capacity(text.len() + 8), origin: Vec::with_capacity(text.len() + 8) };
        let space = if self.escape_whitespaces { ESCAPED_SPACE } else { " " };
        let mut consumed = 0;
        if self.remove_extra_whitespaces {
            while let Some((length, " ")) = self.next_unit(&text[consumed..], matched) {
                consumed += length;
            }
        }
        let has_dummy = self.add_dummy_prefix && prefix == Prefix::AsTheModelSays && consumed < text.len();
        if has_dummy && !self.whitespace_as_suffix {
            out.push(space, consumed);
        }
        let mut after_space = self.remove_extra_whitespaces;
        while let Some((length, mut unit)) = self.next_unit(&text[consumed..], matched) {
            if after_space {
                unit = unit.trim_start_matches(' ');
            }
            if !unit.is_empty() {
                for (index, part) in unit.split(' ').enumerate() {
                    if index > 0 {
                        out.push(space, consumed);
                    }
                    out.push(part, consumed);
                }
                after_space = self.remove_extra_whitespaces && unit.ends_with(' ');
            }
            consumed += length;
        }
        if self.remove_extra_whitespaces {
            while out.text.ends_with(space) {
                let length = out.text.len() - space.len();
                consumed = out.origin[length];
                out.text.truncate(length);
                out.origin.truncate(length);
            }
        }
        if has_dummy && self.whitespace_as_suffix {
            out.push(space, consumed);
        }
        out.origin.push(consumed);
        out
    }

    /// Returns the number of bytes that are normalized together at the start of the text, and their
    /// replacement.
    fn next_unit<'a>(&'a self, text: &'a str, matched: &Trie) -> Option<(usize, &'a str)> {
        let first = text.chars().next()?;
        if !matched.is_empty()
            && let Some((length, _)) = matched.longest_prefix(text.as_bytes())
        {
            return Some((length, &text[..length]));
        }
        let mapped = self.charsmap.as_ref().and_then(|charsmap| charsmap.longest_prefix(text));
        // A table entry could end within a character; no text can match such an entry.
        let mapped = mapped.filter(|(length, _)| text.is_char_boundary(*length));
        Some(mapped.unwrap_or((first.len_utf8(), &text[..first.len_utf8()])))
    }
}

impl NormalizedInput {
    fn push(&mut self, text: &str, origin: usize) {
        self.text.push_str(text);
        self.origin.extend(std::iter::repeat_n(origin, text.len()));
    }
}
