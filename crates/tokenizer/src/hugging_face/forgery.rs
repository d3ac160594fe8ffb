use std::collections::{BTreeSet, HashMap};

use tokenizers::{Model, ModelWrapper, Result, Token};

/// The tokens of a model's own vocabulary that plain text must not encode to.
///
/// An added token is often in the vocabulary too, where the model can produce it by itself: by
/// merges, by `ignore_merges` or by its trie.
pub(super) struct Forgery {
    spelled: HashMap<u32, ForgedText>,
}

struct ForgedText {
    /// The model's own spelling.
    name: String,
    /// Whether the model also uses this id for text that it does not know: the unknown token and
    /// the fallback bytes.
    stands_in: bool,
}

impl Forgery {
    pub fn new(model: &ModelWrapper, out: &BTreeSet<u32>, unknown: Option<u32>, byte_fallback: bool) -> Self {
        let mut spelled = HashMap::new();
        for id in out.iter().copied().chain(unknown) {
            if let Some(name) = model.id_to_token(id) {
                spelled.insert(id, ForgedText { name, stands_in: Some(id) == unknown });
            }
        }
        if byte_fallback {
            for name in (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")) {
                if let Some(id) = model.token_to_id(&name) {
                    spelled.insert(id, ForgedText { name, stands_in: true });
                }
            }
        }
        Self { spelled }
    }

    /// Tokenizes a word into ordinary tokens. A forged token is split after its first character
    /// until none is left.
    pub fn tokenize(&self, model: &ModelWrapper, word: &str) -> Result<Vec<Token>> {
        let tokens = model.tokenize(word)?;
        if !tokens.iter().any(|token| self.is_forged(token, word)) {
            return Ok(tokens);
        }
        let mut ordinary = Vec::new();
        let mut parts = vec![(0, word.len())];
        while let Some((start, end)) = parts.pop() {
            let part = &word[start..end];
            let tokens = model.tokenize(part)?;
            let cuts = self.cuts(&tokens, part)?;
            if cuts.is_empty() {
                ordinary.extend(tokens.into_iter().map(|token| shifted(token, start)));
                continue;
            }
            // Push the last part first, because this is a stack.
            let edges: Vec<usize> = [0].into_iter().chain(cuts).chain([part.len()]).collect();
            for edge in edges.windows(2).rev().filter(|edge| edge[0] < edge[1]) {
                parts.push((start + edge[0], start + edge[1]));
            }
        }
        Ok(ordinary)
    }

    fn cuts(&self, tokens: &[Token], part: &str) -> Result<Vec<usize>> {
        let mut cuts = Vec::new();
        for token in tokens.iter().filter(|token| self.is_forged(token, part)) {
            let (start, end) = token.offsets;
            let first = part.get(start..end).and_then(|text| text.chars().next());
            match first.map(char::len_utf8) {
                Some(length) if length < part.len() => cuts.extend([start, start + length, end]),
                // Splitting would produce the same part again.
                _ => return Err(format!("`{}` cannot be spelled in ordinary tokens", token.value).into()),
            }
        }
        Ok(cuts)
    }

    fn is_forged(&self, token: &Token, word: &str) -> bool {
        let Some(spelled) = self.spelled.get(&token.id) else { return false };
        let (start, end) = token.offsets;
        !spelled.stands_in || word.get(start..end) == Some(&spelled.name)
    }
}

fn shifted(token: Token, by: usize) -> Token {
    let (start, end) = token.offsets;
    Token { offsets: (start + by, end + by), ..token }
}
