use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rolecall_render::jinja::NodeContent;

use crate::Error;
use crate::binding::find;
use crate::protection::{By, Protect, Protection};
use crate::spelled::spelled;
use rolecall_tokenizer::{AddedToken, NamedToken, TokenRef, Tokenizer, is_space};

/// The tokens that text must never encode to, each with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectedTokens {
    tokens: BTreeMap<u32, ProtectedToken>,
}

/// A token that text must never encode to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedToken {
    /// The token's id.
    pub id: u32,
    /// The token's text.
    pub text: String,
    /// The reasons; at least one.
    pub reasons: BTreeSet<Reason>,
}

/// The reason why text must never encode to a token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The tokenizer flags the token as special.
    Special,
    /// A format lists the token among its control tokens.
    Control,
    /// The token occurs in a literal of a format, a template or a reply layout.
    Literal(By),
    /// A file of the model names the token.
    Named {
        /// The token's name in the file.
        name: String,
        /// The file.
        file: String,
    },
    /// The `chat_control_tokens` of the tokenizer's config list the token.
    Listed,
    /// The token represents text that the vocabulary lacks.
    Unknown,
    /// The token is an added token, and the caller protects all of these.
    Added,
    /// The token is an added token, and a template is too large to analyze everything that it
    /// writes.
    Unread(By),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Special => f.write_str("flagged special"),
            Reason::Control => f.write_str("a control token of the format"),
            Reason::Literal(by) => write!(f, "in a literal of {by}"),
            Reason::Named { name, file } => write!(f, "`{name}` of {file}"),
            Reason::Listed => f.write_str("listed in `chat_control_tokens`"),
            Reason::Unknown => f.write_str("the token for unknown text"),
            Reason::Added => f.write_str("an added token"),
            Reason::Unread(by) => write!(f, "an added token, and {by} is too large to analyze"),
        }
    }
}

impl ProtectedTokens {
    /// Returns the tokens of `tokenizer` that must be kept out of text for a model's format or
    /// templates.
    ///
    /// ```
    /// use rolecall_encode::{ProtectedTokens, Protection};
    /// use rolecall_tokenizer::HuggingFace;
    /// use rolecall_render::ChatTemplate;
    /// let json = br#"{"added_tokens": [
    ///     {"id": 3, "content": "<a>", "special": false, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false},
    ///     {"id": 4, "content": "<b>", "special": false, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}
    /// ], "model": {"type": "BPE", "vocab": {"<": 0, "a": 1, ">": 2}, "merges": []}}"#;
    /// let template = ChatTemplate::compile("<a>{{ messages[0].content }}", Vec::new())?;
    /// let tokenizer = HuggingFace::from_bytes(json, None)?;
    /// let protected = ProtectedTokens::new(&Protection::default().with_template("default", &template), &tokenizer)?;
    /// assert!(protected.contains(3) && !protected.contains(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(protection: &Protection, tokenizer: &dyn Tokenizer) -> Result<ProtectedTokens, Error> {
        let mut protected = ProtectedTokens::default();
        let candidates: Vec<AddedToken> =
            tokenizer.added_tokens().iter().chain(&tokenizer.text_tokens()).cloned().collect();
        let candidates: Vec<&AddedToken> = candidates.iter().filter(|token| !is_space(&token.text)).collect();
        // Byte pieces represent bytes; text that spells their names never encodes to them.
        let is_byte = |token: &AddedToken| {
            let mut bytes = Vec::new();
            tokenizer.token_bytes(token.id, &mut bytes) && bytes.len() == 1 && token.text.len() == 6
        };
        for token in candidates.iter().filter(|token| token.special && !is_byte(token)) {
            protected.add(token.id, &token.text, Reason::Special);
        }
        if protection.mode == Protect::AllAdded {
            for token in tokenizer.added_tokens() {
                protected.add(token.id, &token.text, Reason::Added);
            }
        }
        for control in protection.controls.iter() {
            if let Some(id) = find(control, tokenizer).ok().filter(|_| !is_space(&control.text)) {
                protected.add(id, &control.text, Reason::Control);
            }
            for text in control.texts() {
                if let Some(id) = tokenizer.token_id(text).filter(|_| !is_space(text)) {
                    protected.add(id, text, Reason::Control);
                }
            }
        }
        match tokenizer.chat_control_tokens() {
            Some(listed) => {
                for token in candidates.iter().filter(|token| listed.contains(&token.text)) {
                    protected.add(token.id, &token.text, Reason::Listed);
                }
                protected.add_literals(protection, tokenizer, &candidates, |by| matches!(by, By::Reply(_)))?;
            }
            None => protected.add_literals(protection, tokenizer, &candidates, |_| true)?,
        }
        protected.add_named(protection, tokenizer);
        if let Some(id) = tokenizer.unknown() {
            protected.add(id, &tokenizer.token_text(id).unwrap_or_default(), Reason::Unknown);
            protected.check_unknown(id)?;
        }
        Ok(protected)
    }

    /// Reports whether text must never encode to the token with this id.
    pub fn contains(&self, id: u32) -> bool {
        self.tokens.contains_key(&id)
    }

    /// Returns the tokens, ordered by id.
    pub fn tokens(&self) -> impl Iterator<Item = &ProtectedToken> {
        self.tokens.values()
    }

    pub(crate) fn ids(&self) -> BTreeSet<u32> {
        self.tokens.keys().copied().collect()
    }

    fn add(&mut self, id: u32, text: &str, reason: Reason) {
        let token = || ProtectedToken { id, text: text.to_owned(), reasons: BTreeSet::new() };
        self.tokens.entry(id).or_insert_with(token).reasons.insert(reason);
    }

    fn add_literals(
        &mut self,
        protection: &Protection,
        tokenizer: &dyn Tokenizer,
        candidates: &[&AddedToken],
        counts: impl Fn(&By) -> bool,
    ) -> Result<(), Error> {
        // Only the tokenizer knows which tokens a literal spells after normalization.
        let is_normalized = tokenizer.normalizes() && candidates.iter().any(|token| token.normalized);
        let texts: Vec<&str> = candidates.iter().map(|token| token.text.as_str()).collect();
        let value =
            |name: &str| protection.tokens.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str());
        for writer in protection.writers.iter().filter(|writer| counts(&writer.by)) {
            match spelled(&writer.writes, &texts, value) {
                Some(found) => {
                    for token in found.into_iter().map(|at| candidates[at]) {
                        self.add(token.id, &token.text, Reason::Literal(writer.by.clone()));
                    }
                }
                None => {
                    for token in candidates {
                        self.add(token.id, &token.text, Reason::Unread(writer.by.clone()));
                    }
                }
            }
            let texts = writer.writes.nodes.iter().filter_map(|node| match &node.written {
                NodeContent::Text(text) => Some(text),
                _ => None,
            });
            // Variables repeat the same texts.
            let texts: BTreeSet<&str> = texts.filter(|_| is_normalized).map(AsRef::as_ref).collect();
            let mut found = Vec::new();
            for text in texts {
                tokenizer.find_added(text, &mut found)?;
            }
            let ids: BTreeSet<u32> = found.iter().map(|token| token.id).collect();
            for token in candidates.iter().filter(|token| ids.contains(&token.id)) {
                self.add(token.id, &token.text, Reason::Literal(writer.by.clone()));
            }
        }
        Ok(())
    }

    fn add_named(&mut self, protection: &Protection, tokenizer: &dyn Tokenizer) {
        let given = protection.tokens.iter().map(|(name, text)| NamedToken {
            name: name.clone(),
            file: "the chat template".to_owned(),
            token: TokenRef::Text(text.clone()),
        });
        let is_added = |id: u32| tokenizer.added_tokens().iter().any(|token| token.id == id);
        for (named, is_file) in
            tokenizer.named().iter().map(|named| (named.clone(), true)).chain(given.map(|named| (named, false)))
        {
            let (id, text) = match &named.token {
                TokenRef::Text(text) => (tokenizer.token_id(text), Some(text.clone())),
                TokenRef::Id(id) => (Some(*id), tokenizer.token_text(*id)),
            };
            let (Some(id), Some(text)) = (id, text) else { continue };
            // If a file names a token that the tokenizer did not add, the token is an ordinary
            // character that text needs.
            let counts = if is_file { is_added(id) } else { is_added(id) || text.chars().count() > 1 };
            if counts && !is_space(&text) {
                let NamedToken { name, file, .. } = named.clone();
                let reason = if named.is_unknown() { Reason::Unknown } else { Reason::Named { name, file } };
                self.add(id, &text, reason);
            }
        }
    }

    /// Rejects an unknown token that has another role as well: any unknown text would encode to
    /// that role's token.
    fn check_unknown(&self, id: u32) -> Result<(), Error> {
        let Some(token) = self.tokens.get(&id) else { return Ok(()) };
        let is_role = |reason: &&Reason| {
            matches!(reason, Reason::Control | Reason::Literal(_) | Reason::Named { .. } | Reason::Listed)
        };
        match token.reasons.iter().find(is_role) {
            None => Ok(()),
            Some(role) => Err(Error::UnknownIsControl { token: token.text.clone(), id, role: role.to_string() }),
        }
    }
}
