//! The vocabulary embedded in a GGUF file, as plain values that the reader of the file fills in.

mod byte_level;
mod pieces;
mod word_piece;

use super::added::spells_text;
use super::facts::{Algorithm, algorithm_named};
use super::{AddedToken, Beside, Error, NamedToken, TokenRef, Tokenizer, WRONG_TYPE};

/// Reports whether a file begins like a GGUF file.
pub(super) fn is_gguf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"GGUF")
}

/// The values of the `tokenizer.ggml.*` keys of a GGUF file.
///
/// ```
/// # use rolecall_tokenizer::{EmbeddedVocabulary, TokenType};
/// let vocabulary = EmbeddedVocabulary {
///     model: "llama".into(),
///     tokens: vec!["<unk>".into(), "a".into(), "ab".into(), "b".into()],
///     scores: Some(vec![0.0, -3.0, -1.0, -2.0]),
///     types: Some([TokenType::Unknown, TokenType::Normal, TokenType::Normal, TokenType::Normal].into()),
///     add_space_prefix: Some(false),
///     add_bos: Some(false),
///     ..EmbeddedVocabulary::default()
/// };
/// let tokenizer = vocabulary.into_tokenizer()?;
/// let mut tokens = Vec::new();
/// tokenizer.encode_ordinary("aab", rolecall_tokenizer::TextPlace::Start, &mut tokens)?;
/// assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), [1, 2]);
/// # Ok::<(), rolecall_tokenizer::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbeddedVocabulary {
    /// `model`: the algorithm.
    pub model: String,
    /// `pre`: the name of the pattern that splits text.
    pub pre: Option<String>,
    /// `tokens`, by id.
    pub tokens: Vec<String>,
    /// `scores`, by id.
    pub scores: Option<Vec<f32>>,
    /// `token_type`, by id.
    pub types: Option<Vec<TokenType>>,
    /// `merges`: two tokens separated by a space.
    pub merges: Option<Vec<String>>,
    /// `precompiled_charsmap`: the table of a normalizer.
    pub charsmap: Vec<u8>,
    /// `bos_token_id`.
    pub bos: Option<u64>,
    /// `eos_token_id`.
    pub eos: Option<u64>,
    /// `unknown_token_id`.
    pub unknown: Option<u64>,
    /// `seperator_token_id`, as the format spells it.
    pub separator: Option<u64>,
    /// Further keys that contain a token id (`padding_token_id`, `eot_token_id`), with the ids.
    pub special: Vec<(String, u64)>,
    /// `add_bos_token`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`.
    pub add_eos: Option<bool>,
    /// `add_space_prefix`.
    pub add_space_prefix: Option<bool>,
    /// `remove_extra_whitespaces`.
    pub remove_extra_whitespaces: Option<bool>,
    /// `normalizer.lowercase`.
    pub lowercase: Option<bool>,
    /// `normalizer.strip_accents`.
    pub strip_accents: Option<bool>,
    /// The texts that mark turns in the file's chat template. If such a text is a token, it is a control
    /// token, whatever its type.
    pub markers: Vec<String>,
}

/// The type of a token in a GGUF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenType {
    /// Text.
    Normal,
    /// The token for text that the vocabulary lacks.
    Unknown,
    /// A control token.
    Control,
    /// A token at which text is split.
    UserDefined,
    /// An unused entry.
    Unused,
    /// A byte.
    Byte,
}

impl TokenType {
    /// Returns the type with this number. Unknown numbers mean text, as in llama.cpp.
    pub fn of_number(number: i64) -> TokenType {
        match number {
            2 => TokenType::Unknown,
            3 => TokenType::Control,
            4 => TokenType::UserDefined,
            5 => TokenType::Unused,
            6 => TokenType::Byte,
            _ => TokenType::Normal,
        }
    }
}

impl EmbeddedVocabulary {
    /// Builds the tokenizer.
    pub fn into_tokenizer(mut self) -> Result<Box<dyn Tokenizer>, Error> {
        if self.tokens.is_empty() {
            return Err(Error::malformed(TOKENS, "the list is empty"));
        }
        let count = self.tokens.len();
        let lengths =
            [("scores", self.scores.as_ref().map(Vec::len)), ("token_type", self.types.as_ref().map(Vec::len))];
        for (name, length) in lengths {
            if let Some(length) = length.filter(|&length| length != count) {
                let why = format!("expected {count} values, one for each token, found {length}");
                return Err(Error::malformed(format!("tokenizer.ggml.{name}"), why));
            }
        }
        for (id, token) in self.tokens.iter_mut().enumerate().filter(|(_, token)| token.is_empty()) {
            // llama.cpp uses this name.
            *token = format!("[EMPTY_{id}]");
        }
        self.name_wrong_types();
        match algorithm_named(&self.model) {
            Some(Algorithm::ByteLevel) => Ok(Box::new(byte_level::build(self)?)),
            Some(Algorithm::Pieces) => Ok(Box::new(pieces::build(self, false)?)),
            Some(Algorithm::Unigram) => Ok(Box::new(pieces::build(self, true)?)),
            Some(Algorithm::WordPiece) => Ok(Box::new(word_piece::build(self)?)),
            None => Err(Error::unsupported("tokenizer.ggml.model", self.model)),
        }
    }

    /// Names the tokens that the file's other keys name, or that mark turns, and whose type is that of
    /// text. What is named is a control token.
    // llama.cpp: such a token "was not control-type; this is probably a bug in the model. its type will be
    // overridden"
    fn name_wrong_types(&mut self) {
        let own = [self.bos, self.eos, self.separator].into_iter().flatten();
        let special = self.special.iter().filter(|(name, _)| name != "unknown_token_id").map(|(_, id)| *id);
        let mut ids: Vec<u64> = own.chain(special).collect();
        let is_marker = |id: &u64| self.markers.contains(&self.tokens[*id as usize]);
        ids.extend((0..self.tokens.len() as u64).filter(|id| !self.markers.is_empty() && is_marker(id)));
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| {
            let id = usize::try_from(*id).unwrap_or(usize::MAX);
            // Text needs single characters, and runs of one.
            let is_word = |text: &String| text.chars().count() > 1 && !spells_text(text);
            self.tokens.get(id).is_some_and(is_word) && self.type_of(id) == TokenType::Normal
        });
        ids.retain(|id| self.unknown != Some(*id));
        // A file without types says of no token that it is text.
        let name = |id: u64| if self.types.is_some() { "token_type".to_owned() } else { format!("marker_{id}") };
        let named: Vec<(String, u64)> = ids.into_iter().map(|id| (name(id), id)).collect();
        self.special.extend(named);
    }

    fn type_of(&self, id: usize) -> TokenType {
        self.types.as_ref().and_then(|types| types.get(id)).copied().unwrap_or(TokenType::Normal)
    }

    /// Returns the id under a key, which must be the id of a token.
    fn id_of(&self, key: &str, id: Option<u64>) -> Result<Option<u32>, Error> {
        let count = self.tokens.len();
        match id {
            Some(id) if id >= count as u64 => {
                let why = format!("expected an id below the number of tokens, {count}, found {id}");
                Err(Error::malformed(format!("tokenizer.ggml.{key}"), why))
            }
            id => Ok(id.and_then(|id| id.try_into().ok())),
        }
    }

    /// Returns the tokens added before and after every prompt, according to the file or, if it does
    /// not say, to the convention for its kind.
    fn around(&self, before: bool, behind: bool) -> Result<(Option<u32>, Option<u32>), Error> {
        let token = |add: bool, key: &str, id: Option<u64>| match (add, self.id_of(key, id)?) {
            (true, None) => Err(Error::malformed(
                format!("tokenizer.ggml.{key}"),
                "expected the id of the token to add, found none",
            )),
            (true, id) => Ok(id),
            (false, _) => Ok(None),
        };
        // A convention applies only if the token exists; what the file requests must exist.
        let before = self.add_bos.unwrap_or(before && self.bos.is_some());
        let behind = self.add_eos.unwrap_or(behind && self.eos.is_some());
        Ok((token(before, "bos_token_id", self.bos)?, token(behind, "eos_token_id", self.eos)?))
    }

    /// Returns the tokens that the file names by their ids.
    fn beside(&self) -> Beside<'static> {
        let own = [
            ("bos_token_id", self.bos),
            ("eos_token_id", self.eos),
            ("unknown_token_id", self.unknown),
            ("seperator_token_id", self.separator),
        ];
        let own = own.into_iter().filter_map(|(name, id)| Some((name, id?)));
        let special = self.special.iter().map(|(name, id)| (name.as_str(), *id));
        let mut named: Vec<NamedToken> = Vec::new();
        for (name, id) in own.chain(special).filter(|(_, id)| (*id as usize) < self.tokens.len()) {
            // The number of tokens comes from the file and is far below 2^32.
            let token = TokenRef::Id(id as u32);
            let name = format!("tokenizer.ggml.{name}");
            if name == WRONG_TYPE || !named.iter().any(|known| known.name == name) {
                named.push(NamedToken { name, file: "the GGUF file".to_owned(), token });
            }
        }
        Beside { config: None, named }
    }

    fn added(&self, id: usize, special: bool) -> AddedToken {
        // The number of tokens comes from the file and is far below 2^32.
        AddedToken { special, ..AddedToken::special(self.tokens[id].clone(), id as u32) }
    }
}

const TOKENS: &str = "tokenizer.ggml.tokens";
