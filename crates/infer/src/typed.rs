//! Arguments whose surroundings name the kind of the value: `type="number"`.

use rolecall_conversation::Json;
use rolecall_format::codec::kinds::{Kind, Words};
use rolecall_format::{Codec, Field};
use rolecall_text::common_prefix;

use crate::arguments::{Each, value_codecs};
use crate::said::KEYS;
use crate::sequence::{Item, Sequence, items, items_with_key, literal, text_with_key};
use crate::value::print;

/// A kind of value, a value of this kind, and the text that the template writes before and after
/// the key of an argument with this value.
pub(crate) type Kinds = (&'static str, Json, (String, String));

/// The text around one kind of value.
struct TextAround<'a> {
    kind: Kind,
    value: &'a Json,
    /// The text before the key, from the end of the previous argument.
    prefix: &'a str,
    /// The text after the key.
    text: &'a str,
}

/// Finds the words for the kinds of values, if there are any, and the text around them.
pub(crate) fn fit_typed(found: &mut Each, seen: &[Kinds]) {
    let lead = format!("{}{}", text_with_key(&found.row.suffix, KEYS[0]), literal(&found.row.separator));
    let parts: Option<Vec<TextAround<'_>>> = seen
        .iter()
        .map(|(_, value, (before, text))| {
            Some(TextAround { kind: Kind::of(value), value, prefix: before.strip_prefix(&*lead)?, text })
        })
        .collect();
    let Some(parts) = parts.filter(|parts| !parts.is_empty()) else { return };
    let prefix = literal(&found.row.prefix);
    let prefixes = parts.iter().map(|part| (part.kind, part.prefix)).chain([(Kind::String, prefix.as_str())]);
    let (best, known) = match worded(&prefixes.collect::<Vec<_>>()) {
        Some(words) => (by_prefix(found, &parts, &words), 0),
        None => (by_middle(found, &parts), parts.len().saturating_sub(found.inexact.len())),
    };
    let Some(best) = best.filter(|best| best.exact.len() > known) else { return };
    let is_exact =
        |kind: &str| seen.iter().any(|(name, value, _)| *name == kind && best.exact.contains(&Kind::of(value)));
    let kinds = crate::arguments::kinds().map(|(kind, _)| kind);
    found.inexact.retain(|kind| !kinds.contains(kind));
    found.inexact.extend(kinds.into_iter().filter(|kind| !is_exact(kind)));
    found.row.prefix = best.prefix;
    found.row.suffix.clone_from(&best.suffix);
    found.middle.clone_from(&best.middle);
    found.words = Some(best.words);
    found.other = Some((best.middle, best.suffix, best.codec));
}

/// A way of writing an argument, and the kinds of values that are written this way.
struct Way {
    prefix: Vec<Item>,
    middle: Vec<Item>,
    suffix: Vec<Item>,
    words: Words,
    codec: Codec,
    exact: Vec<Kind>,
}

/// The text before and after a word, and the word for each kind.
struct KindWords {
    before: String,
    after: String,
    words: Vec<(Kind, String)>,
}

/// The words precede the keys. The rest of an argument may repeat them.
fn by_prefix(found: &Each, parts: &[TextAround<'_>], worded: &KindWords) -> Option<Way> {
    let own = worded.of(Kind::String)?;
    let hole = |items: &Sequence| with_word(items, own);
    let (middle, suffix) = (hole(&found.middle), hole(&found.row.suffix));
    let fill = |items: &Sequence, word: &str| text_with_word(items, KEYS[1], word);
    let ways = value_codecs().into_iter().map(|codec| {
        let fits = |part: &&TextAround<'_>| {
            let word = worded.of(part.kind)?;
            let printed = print(&codec, part.value)?;
            Some(part.text == format!("{}{printed}{}", fill(&middle, word), fill(&suffix, word)))
        };
        let exact = parts.iter().filter(|part| fits(part) == Some(true)).map(|part| part.kind).collect::<Vec<_>>();
        (exact, codec)
    });
    let (exact, codec) = most(ways)?;
    Some(Way {
        prefix: worded.items(),
        middle: middle.clone(),
        suffix: suffix.clone(),
        words: worded.words()?,
        codec,
        exact,
    })
}

/// The words follow the keys.
fn by_middle(found: &Each, parts: &[TextAround<'_>]) -> Option<Way> {
    let (own, after) = (literal(&found.middle), text_with_key(&found.row.suffix, KEYS[1]));
    let ways = value_codecs().into_iter().filter_map(|codec| {
        let before = |part: &TextAround<'_>| {
            let text = part.text.strip_suffix(&*after)?.strip_suffix(&*print(&codec, part.value)?)?;
            Some((part.kind, text.to_owned()))
        };
        let mut befores: Vec<(Kind, String)> = parts.iter().filter_map(before).collect();
        befores.push((Kind::String, own.clone()));
        let texts: Vec<(Kind, &str)> = befores.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
        let worded = worded(&texts)?;
        let exact = befores.iter().map(|(kind, _)| *kind).filter(|kind| *kind != Kind::String).collect::<Vec<_>>();
        Some((exact, (codec, worded)))
    });
    let (exact, (codec, worded)) = most(ways)?;
    let suffix = found.row.suffix.clone();
    Some(Way { prefix: found.row.prefix.clone(), middle: worded.items(), suffix, words: worded.words()?, codec, exact })
}

/// Returns the first way with the most kinds.
fn most<T>(ways: impl Iterator<Item = (Vec<Kind>, T)>) -> Option<(Vec<Kind>, T)> {
    let mut best: Option<(Vec<Kind>, T)> = None;
    for way in ways {
        if best.as_ref().is_none_or(|(known, _)| way.0.len() > known.len()) {
            best = Some(way);
        }
    }
    best
}

/// Finds the one word in which texts for different kinds differ.
fn worded(texts: &[(Kind, &str)]) -> Option<KindWords> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let (_, first) = texts.first()?;
    let shared = texts.iter().map(|(_, text)| common_prefix(first, text)).min()?;
    let before = first[..shared].trim_end_matches(is_word);
    let rests: Vec<&str> = texts.iter().map(|(_, text)| &text[before.len()..]).collect();
    let tail = |text: &str| text.trim_start_matches(is_word).to_owned();
    let after = tail(rests.first()?);
    let word = |rest: &&str| Some(rest.strip_suffix(&*after)?.to_owned()).filter(|word| !word.is_empty());
    let words: Vec<String> = rests.iter().map(word).collect::<Option<_>>()?;
    let is_plain = words.iter().all(|word| word.chars().all(is_word));
    let differs = words.iter().any(|word| *word != words[0]);
    let words = texts.iter().map(|(kind, _)| *kind).zip(words).collect();
    (is_plain && differs).then(|| KindWords { before: before.to_owned(), after, words })
}

impl KindWords {
    fn of(&self, kind: Kind) -> Option<&str> {
        self.words.iter().find(|(known, _)| *known == kind).map(|(_, word)| word.as_str())
    }

    fn items(&self) -> Vec<Item> {
        [items(&self.before), vec![Item::Hole(Field::Type)], items(&self.after)].concat()
    }

    /// Returns the words. A kind of number that was not seen has the word of the other kind.
    fn words(&self) -> Option<Words> {
        let usual = Words::default();
        Words::new(|kind| {
            let other = match kind {
                Kind::Integer => Kind::Fraction,
                Kind::Fraction => Kind::Integer,
                kind => kind,
            };
            self.of(kind).or(self.of(other)).unwrap_or(usual.of(kind)).to_owned()
        })
    }
}

/// Replaces each occurrence of a word by a hole.
fn with_word(text: &Sequence, word: &str) -> Vec<Item> {
    let text = text_with_key(text, "\u{1}");
    let mut found: Vec<Item> = Vec::new();
    for (at, part) in text.split(word).enumerate() {
        if at > 0 {
            found.push(Item::Hole(Field::Type));
        }
        found.extend(items_with_key(part, "\u{1}"));
    }
    found
}

fn text_with_word(text: &Sequence, key: &str, word: &str) -> String {
    let mut filled = String::new();
    for item in text {
        match item {
            Item::Char(character) => filled.push(*character),
            Item::Hole(Field::Key) => filled.push_str(key),
            Item::Hole(Field::Type) => filled.push_str(word),
            _ => {}
        }
    }
    filled
}
