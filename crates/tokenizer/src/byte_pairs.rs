//! Builds a byte-level BPE from parts by writing the equivalent `tokenizer.json`. All kinds of
//! files thus share one loader with all its checks and features.

use std::collections::{HashMap, HashSet};

use foldhash::quality::RandomState;
use serde::Serialize;
use serde_json::{Value, json};

use super::facts::Cutting;
use super::{AddedToken, Beside, Error, HuggingFace};

#[derive(Default)]
pub(super) struct BytePairs {
    /// Tokens in the byte alphabet, with their ids.
    pub vocabulary: Vec<(String, u32)>,
    pub merges: Vec<(String, String)>,
    pub cutting: Cutting,
    /// Tokens outside the vocabulary; texts and ids are unique.
    pub added: Vec<AddedToken>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
}

impl BytePairs {
    /// Builds the tokenizer, given the files next to the tokenizer's own file.
    pub fn into_tokenizer(mut self, beside: Beside<'_>) -> Result<HuggingFace, Error> {
        self.added.sort_by_key(|token| token.id);
        if !self.numbers_itself() {
            self.name_in_vocabulary()?;
        }
        HuggingFace::from_bytes(&self.into_json()?, beside)
    }

    /// Reports whether the ids of the added tokens follow the vocabulary in order, as in a
    /// tokenizer.json, and no merge produces or uses an added token.
    fn numbers_itself(&self) -> bool {
        let count = self.vocabulary.len();
        let is_dense = self.vocabulary.iter().all(|&(_, id)| (id as usize) < count);
        let mut behind = self.added.iter().zip(count..);
        is_dense && behind.all(|(token, id)| token.id as usize == id) && !self.merges_reach_added()
    }

    fn merges_reach_added(&self) -> bool {
        let added: HashSet<&str, RandomState> = self.added.iter().map(|token| token.text.as_str()).collect();
        let longest = added.iter().map(|text| text.len()).max().unwrap_or(0);
        let mut joined = String::new();
        self.merges.iter().any(|(left, right)| {
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            let is_added = |text: &str| text.len() <= longest && added.contains(text);
            is_added(left) || is_added(right) || is_added(&joined)
        })
    }

    /// Inserts the added tokens into the vocabulary, which preserves their ids whatever they are.
    fn name_in_vocabulary(&mut self) -> Result<(), Error> {
        let known: HashMap<&str, u32> = self.vocabulary.iter().map(|(text, id)| (text.as_str(), *id)).collect();
        let mut more = Vec::new();
        for token in &self.added {
            match known.get(token.text.as_str()) {
                Some(id) if *id == token.id => {}
                Some(id) => {
                    let why = format!("`{}` has id {}, but id {id} in the vocabulary", token.text, token.id);
                    return Err(Error::malformed("added tokens", why));
                }
                None => more.push((token.text.clone(), token.id)),
            }
        }
        self.vocabulary.extend(more);
        Ok(())
    }

    fn into_json(self) -> Result<Vec<u8>, Error> {
        let cuts =
            self.cutting.cuts.iter().map(
                |cut| json!({"type": "Split", "pattern": {"Regex": cut}, "behavior": "Isolated", "invert": false}),
            );
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let file = BytePairFile {
            normalizer: self.cutting.normalizer.as_ref().map(|form| json!({ "type": form })),
            pre_tokenizer: json!({"type": "Sequence", "pretokenizers": cuts.chain([bytes]).collect::<Vec<_>>()}),
            post_processor: around(self.bos, self.eos),
            added_tokens: self.added.iter().map(of_added).collect(),
            model: BytePairModel {
                kind: "BPE",
                ignore_merges: self.cutting.whole,
                vocab: self.vocabulary,
                merges: &self.merges,
            },
        };
        serde_json::to_vec(&file).map_err(|error| Error::malformed("vocabulary", error.to_string()))
    }
}

/// Returns a post-processor that adds these tokens around a prompt.
pub(super) fn around(bos: Option<u32>, eos: Option<u32>) -> Value {
    let special = |name: &str| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let mut single = vec![json!({"Sequence": {"id": "A", "type_id": 0}})];
    let mut tokens = serde_json::Map::new();
    for (name, id) in [("bos", bos), ("eos", eos)] {
        let Some(id) = id else { continue };
        tokens.insert(name.to_owned(), json!({"id": name, "ids": [id], "tokens": [name]}));
        single.insert(if name == "bos" { 0 } else { single.len() }, special(name));
    }
    json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": tokens})
}

/// Returns an added token in the form that both files of a tokenizer use.
pub(super) fn of_added(token: &AddedToken) -> Value {
    json!({
        "id": token.id, "content": token.text, "special": token.special, "normalized": token.normalized,
        "lstrip": token.lstrip, "rstrip": token.rstrip, "single_word": token.single_word,
    })
}

#[derive(Serialize)]
struct BytePairFile<'a> {
    added_tokens: Vec<Value>,
    normalizer: Option<Value>,
    pre_tokenizer: Value,
    post_processor: Value,
    model: BytePairModel<'a>,
}

#[derive(Serialize)]
struct BytePairModel<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    ignore_merges: bool,
    #[serde(serialize_with = "as_map")]
    vocab: Vec<(String, u32)>,
    merges: &'a [(String, String)],
}

fn as_map<S: serde::Serializer>(vocabulary: &[(String, u32)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(vocabulary.iter().map(|(text, id)| (text, id)))
}
