//! Supplies what tokenizer files leave out, from a data file of published facts.

use toml::de::{DeTable, DeValue};

const FILE: &str = include_str!("../data/tokenizers.toml");

/// How to split text into words, and how to encode a word.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cutting {
    /// Regular expressions, applied in order. Each match becomes a separate word.
    pub cuts: Vec<String>,
    /// The Unicode normalization form that is applied to text first.
    pub normalizer: Option<String>,
    /// Whether a word that is a token is encoded as that token without merging.
    pub whole: bool,
    /// Whether BOS is added if the file does not say.
    pub adds_bos: bool,
    /// Whether merges are derived from the ids if the file has none.
    pub ranks: bool,
}

/// Published facts about a file that contains only ranks.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownRanks {
    pub cutting: Cutting,
    /// The control tokens that the program next to the file defines.
    pub special: Vec<(String, u32)>,
    /// Texts for the ids that nothing else names.
    pub numbered: Vec<(String, u32)>,
}

/// The algorithm of a vocabulary that a GGUF file embeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    ByteLevel,
    Pieces,
    Unigram,
    WordPiece,
}

/// Returns the algorithm that a GGUF file names.
pub(super) fn algorithm_named(name: &str) -> Option<Algorithm> {
    let facts = Facts::read();
    match text(facts.0.get("models")?.get_ref().as_table()?, name)? {
        "byte-level" => Some(Algorithm::ByteLevel),
        "pieces" => Some(Algorithm::Pieces),
        "unigram" => Some(Algorithm::Unigram),
        "word-piece" => Some(Algorithm::WordPiece),
        _ => None,
    }
}

/// Returns the cutting that a GGUF file names.
pub(super) fn cutting_named(name: &str) -> Option<Cutting> {
    let facts = Facts::read();
    let entry = facts.list("pre").find(|entry| texts(entry, "names").any(|known| known == name))?;
    Some(facts.cutting(entry))
}

/// Returns the facts about a file with `count` ranks whose last token is `last` in base64, or about
/// the class that its config names.
pub(super) fn known_ranks(count: usize, last: &str, class: Option<&str>) -> Option<KnownRanks> {
    let facts = Facts::read();
    let is_it = |entry: &&DeTable<'_>| {
        let by_content = number(entry, "count") == Some(count as u64) && text(entry, "last") == Some(last);
        by_content || class.is_some_and(|class| text(entry, "class") == Some(class))
    };
    let entry = facts.list("ranks").find(is_it)?;
    let special = entry.get("special").and_then(|special| special.get_ref().as_table());
    let special = special.into_iter().flat_map(|table| table.iter());
    let special = special.filter_map(|(name, id)| Some((name.get_ref().to_string(), as_id(id.get_ref())?)));
    let numbered = entry.get("numbered").and_then(|numbered| numbered.get_ref().as_table());
    Some(KnownRanks {
        cutting: facts.cutting(entry),
        special: special.collect(),
        numbered: numbered.map(numbered_tokens).unwrap_or_default(),
    })
}

/// Returns the control tokens of a tekken file that does not list them, and the pattern (`{id}`)
/// for the names of ids that no list names.
pub(super) fn tekken_tokens() -> (Vec<String>, String) {
    let facts = Facts::read();
    let table = facts.0.get("tekken").and_then(|table| table.get_ref().as_table());
    let special = table.into_iter().flat_map(|table| texts(table, "special")).map(str::to_owned).collect();
    (special, table.and_then(|table| text(table, "numbered")).unwrap_or_default().to_owned())
}

struct Facts(DeTable<'static>);

impl Facts {
    fn read() -> Facts {
        // The file is compiled into the program, and a test parses all of it.
        Facts(DeTable::parse(FILE).map(toml::Spanned::into_inner).unwrap_or_default())
    }

    fn list(&self, name: &str) -> impl Iterator<Item = &DeTable<'static>> {
        let list = self.0.get(name).and_then(|list| list.get_ref().as_array());
        list.into_iter().flat_map(|list| list.iter()).filter_map(|entry| entry.get_ref().as_table())
    }

    fn cutting(&self, entry: &DeTable<'_>) -> Cutting {
        let cuts = self.0.get("cuts").and_then(|cuts| cuts.get_ref().as_table());
        let cuts = cuts.zip(text(entry, "cuts")).into_iter().flat_map(|(cuts, name)| texts(cuts, name));
        Cutting {
            cuts: cuts.map(str::to_owned).collect(),
            normalizer: text(entry, "normalizer").map(str::to_owned),
            whole: flag(entry, "whole"),
            adds_bos: flag(entry, "bos"),
            ranks: flag(entry, "ranks"),
        }
    }
}

fn numbered_tokens(table: &DeTable<'_>) -> Vec<(String, u32)> {
    let (Some(name), Some(first), Some(count)) = (text(table, "text"), number(table, "first"), number(table, "count"))
    else {
        return Vec::new();
    };
    let token = |n: u64| {
        let id = u32::try_from(first + n).ok()?;
        Some((name.replace("{n}", &n.to_string()).replace("{id}", &id.to_string()), id))
    };
    (0..count).filter_map(token).collect()
}

fn text<'a>(table: &'a DeTable<'_>, name: &str) -> Option<&'a str> {
    table.get(name)?.get_ref().as_str()
}

fn texts<'a>(table: &'a DeTable<'_>, name: &str) -> impl Iterator<Item = &'a str> {
    let list = table.get(name).and_then(|list| list.get_ref().as_array());
    list.into_iter().flat_map(|list| list.iter()).filter_map(|item| item.get_ref().as_str())
}

fn number(table: &DeTable<'_>, name: &str) -> Option<u64> {
    as_number(table.get(name)?.get_ref())
}

fn flag(table: &DeTable<'_>, name: &str) -> bool {
    table.get(name).and_then(|value| value.get_ref().as_bool()) == Some(true)
}

fn as_id(value: &DeValue<'_>) -> Option<u32> {
    as_number(value)?.try_into().ok()
}

fn as_number(value: &DeValue<'_>) -> Option<u64> {
    value.as_integer()?.as_str().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_facts_is_whole() {
        let facts = Facts::read();
        for entry in facts.list("pre").chain(facts.list("ranks")) {
            assert!(!facts.cutting(entry).cuts.is_empty(), "{entry:?}");
        }
        let names: Vec<&str> = facts.list("pre").flat_map(|entry| texts(entry, "names")).collect();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert!(names.len() > 50 && unique.len() == names.len());
        assert!(facts.list("ranks").all(|entry| text(entry, "source").is_some()));
        for entry in facts.list("ranks") {
            let (Some(count), Some(last)) = (number(entry, "count"), text(entry, "last")) else { continue };
            assert!(
                known_ranks(count as usize, last, None).is_some()
                    && known_ranks(count as usize + 1, last, None).is_none()
            );
        }
        let known = known_ranks(0, "", Some("TikTokenTokenizer")).unwrap_or_default();
        assert_eq!(known.numbered.last(), Some(&("<|reserved_token_163839|>".to_owned(), 163_839)));
        let models = facts.0.get("models").and_then(|models| models.get_ref().as_table());
        assert!(
            models.into_iter().flat_map(|models| models.keys()).all(|name| algorithm_named(name.get_ref()).is_some())
        );
        let (special, numbered) = tekken_tokens();
        assert_eq!((special.len(), numbered.as_str()), (20, "<SPECIAL_{id}>"));
    }
}
