use super::super::AddedToken;
use super::trie::Trie;

/// The added tokens of a `tokenizer_config.json`, at which transformers cuts a text before sentencepiece sees it.
pub(super) struct Sections {
    tokens: Vec<AddedToken>,
    trie: Trie,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Section {
    Token { id: u32, start: usize, end: usize },
    Text { start: usize, end: usize },
}

impl Sections {
    pub fn new(tokens: Vec<AddedToken>) -> Self {
        let entries = (0..).zip(&tokens).filter(|(_, token)| !token.text.is_empty());
        let trie = Trie::new(entries.map(|(index, token)| (token.text.as_str(), index)).collect());
        Self { tokens, trie }
    }

    pub fn tokens(&self) -> &[AddedToken] {
        &self.tokens
    }

    pub fn id(&self, text: &str) -> Option<u32> {
        self.tokens.iter().find(|token| token.text == text).map(|token| token.id)
    }

    pub fn split(&self, text: &str) -> Vec<Section> {
        if self.tokens.is_empty() && !text.is_empty() {
            return vec![Section::Text { start: 0, end: text.len() }];
        }
        let mut sections = Vec::new();
        let mut open = 0;
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            let Some((length, index)) = self.trie.longest_prefix(&text.as_bytes()[at..]) else {
                at += next.len_utf8();
                continue;
            };
            let token = &self.tokens[index as usize];
            let (mut start, mut end) = (at, at + length);
            if token.single_word && (ends_in_word(&text[..start]) || starts_with_word(&text[end..])) {
                at += length;
                continue;
            }
            if token.lstrip {
                start = open + text[open..start].trim_end().len();
            }
            if token.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            if open < start {
                sections.push(Section::Text { start: open, end: start });
            }
            sections.push(Section::Token { id: token.id, start, end });
            (open, at) = (end, end);
        }
        if open < text.len() {
            sections.push(Section::Text { start: open, end: text.len() });
        }
        sections
    }
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

fn starts_with_word(text: &str) -> bool {
    text.chars().next().is_some_and(is_word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
