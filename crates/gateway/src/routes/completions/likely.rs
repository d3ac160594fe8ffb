use rolecall::conversation::{Json, object};

use crate::token_odds::TokenOdds;
use crate::unsaid::Unsaid;

/// How likely the tokens of a choice's text were.
#[derive(Clone)]
pub struct Likely {
    /// The number of most likely tokens that are reported for each.
    most: u32,
    unsaid: Unsaid,
    /// The number of characters of the text so far.
    length: usize,
    /// The tokens of the text so far, each with the number of characters before it.
    tokens: Vec<(usize, TokenOdds)>,
}

impl Likely {
    pub fn new(most: u32) -> Likely {
        Likely { most, unsaid: Unsaid::default(), length: 0, tokens: Vec::new() }
    }

    /// Takes a token whose text comes next.
    pub fn push(&mut self, odds: &TokenOdds) {
        self.unsaid.push(odds);
    }

    /// Takes the next part of the text, and returns the log probabilities of its tokens, or null if no token
    /// begins in it.
    pub fn say(&mut self, text: &str) -> Json {
        let from = self.tokens.len();
        let new = self.unsaid.take(text);
        self.tokens.extend(new.into_iter().map(|(before, odds)| (self.length + before, odds)));
        self.length += text.chars().count();
        match &self.tokens[from..] {
            [] => Json::Null,
            new => self.written(new),
        }
    }

    /// Returns the log probabilities of all tokens of the text.
    pub fn all(&self) -> Json {
        self.written(&self.tokens)
    }

    fn written(&self, tokens: &[(usize, TokenOdds)]) -> Json {
        let each = |write: fn(&(usize, TokenOdds)) -> Json| Json::Array(tokens.iter().map(write).collect());
        let tops = match self.most {
            0 => Json::Null,
            _ => each(|(_, odds)| odds.by_text().into()),
        };
        object! {
            "tokens" => each(|(_, odds)| (&*odds.text()).into()), "token_logprobs" => each(|(_, odds)| odds.likelihood()),
            "top_logprobs" => tops, "text_offset" => each(|(before, _)| (*before as i64).into()),
        }
        .into()
    }
}
