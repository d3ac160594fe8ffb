use std::ops::Range;

use super::super::native::added::AddedSearch;
use super::super::{AddedToken, Error, stands_alone};

/// The added tokens of a `tokenizer_config.json`, at which transformers splits a text before
/// sentencepiece sees it.
pub(super) struct Sections {
    tokens: Vec<AddedToken>,
    /// Finds a token's index.
    search: AddedSearch,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Section {
    Token { id: u32, start: usize, end: usize },
    Text { start: usize, end: usize },
}

impl Sections {
    pub fn new(tokens: Vec<AddedToken>) -> Result<Self, Error> {
        let indexed = (0..).zip(&tokens).map(|(index, token)| (token.text.clone(), index));
        let search =
            AddedSearch::new(indexed.collect()).map_err(|why| Error::unsupported("added_tokens_decoder", why))?;
        Ok(Self { tokens, search })
    }

    pub fn tokens(&self) -> &[AddedToken] {
        &self.tokens
    }

    pub fn id(&self, text: &str) -> Option<u32> {
        self.tokens.iter().find(|token| token.text == text).map(|token| token.id)
    }

    pub fn split(&self, text: &str) -> Vec<Section> {
        let mut sections = Vec::new();
        let (mut open, mut at) = (0, 0);
        while let Some((index, Range { mut start, mut end })) = self.search.find(text, at) {
            at = end;
            let token = &self.tokens[index as usize];
            if token.single_word && !stands_alone(text, &(start..end)) {
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

#[cfg(test)]
mod tests {
    use super::{AddedToken, Section, Sections};

    #[test]
    fn a_token_takes_the_white_space_on_the_sides_that_it_says() {
        let mut token = AddedToken::special("<t>".to_owned(), 7);
        let split = |token: &AddedToken| Sections::new(vec![token.clone()]).unwrap().split("a  <t>  b");
        let text = |start, end| Section::Text { start, end };
        assert_eq!(split(&token), [text(0, 3), Section::Token { id: 7, start: 3, end: 6 }, text(6, 9)]);
        token.rstrip = true;
        assert_eq!(split(&token), [text(0, 3), Section::Token { id: 7, start: 3, end: 8 }, text(8, 9)]);
        token.lstrip = true;
        assert_eq!(split(&token), [text(0, 1), Section::Token { id: 7, start: 1, end: 8 }, text(8, 9)]);
    }

    #[test]
    fn of_two_tokens_with_one_text_the_first_is_found() {
        let sections = Sections::new([7, 8].map(|id| AddedToken::special("<t>".to_owned(), id)).to_vec()).unwrap();
        assert_eq!(sections.split("<t>"), [Section::Token { id: 7, start: 0, end: 3 }]);
        assert_eq!(sections.id("<t>"), Some(7));
    }

    #[test]
    fn a_single_word_is_not_found_inside_a_word() {
        let mut token = AddedToken::special("<t>".to_owned(), 7);
        token.single_word = true;
        let found = |text: &str| {
            let sections = Sections::new(vec![token.clone()]).unwrap().split(text);
            sections.iter().filter(|section| matches!(section, Section::Token { .. })).count()
        };
        assert_eq!([" <t> ", "a<t>", "<t>b", "_<t>", "é<t>", "-<t>-"].map(found), [1, 0, 0, 0, 0, 1]);
    }
}
