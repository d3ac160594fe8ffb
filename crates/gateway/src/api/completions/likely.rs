use rolecall::conversation::{Json, object};

use crate::reply::token_odds::TokenOdds;

/// How likely the tokens of a choice's text were.
#[derive(Clone)]
pub struct Likely {
    /// The number of most likely tokens that are reported for each.
    most: u32,
    /// The tokens of the next part of the text.
    next: Vec<(usize, TokenOdds)>,
    /// The number of characters of the text so far.
    length: usize,
    /// The tokens of the text so far, each with the number of characters before it.
    tokens: Vec<(usize, TokenOdds)>,
}

impl Likely {
    pub fn new(most: u32) -> Likely {
        Likely { most, next: Vec::new(), length: 0, tokens: Vec::new() }
    }

    /// Takes the tokens of the next part of the text, each with the number of characters of the part
    /// before it.
    pub fn push(&mut self, odds: Vec<(usize, TokenOdds)>) {
        self.next = odds;
    }

    /// Takes the next part of the text, and returns the log probabilities of its tokens, or null if no token
    /// begins in it.
    pub fn say(&mut self, text: &str) -> Json {
        let from = self.tokens.len();
        let new = std::mem::take(&mut self.next);
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
            _ => each(|(_, odds)| odds.by_text()),
        };
        object! {
            "tokens" => each(|(_, odds)| (&*odds.text()).into()), "token_logprobs" => each(|(_, odds)| odds.likelihood()),
            "top_logprobs" => tops, "text_offset" => each(|(before, _)| (*before as i64).into()),
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use rolecall::conversation::json::{self, Layout};

    use super::Likely;
    use crate::reply::token_odds::TokenOdds;

    #[test]
    fn what_is_not_known_is_null() {
        let token = |logprob, top: &[(&str, f64)]| {
            let top = top.iter().map(|(text, logprob)| (text.as_bytes().to_vec(), *logprob)).collect();
            TokenOdds { bytes: b"a".to_vec(), logprob, top }
        };
        for (odds, logprob, top) in [
            (token(None, &[]), "null", "null"),
            (token(None, &[("b", -0.5)]), "null", r#"{"b":-0.5}"#),
            (token(Some(-1.5), &[("b", -0.5)]), "-1.5", r#"{"b":-0.5,"a":-1.5}"#),
            (token(Some(f64::NEG_INFINITY), &[]), "-9999", r#"{"a":-9999}"#),
        ] {
            let mut likely = Likely::new(1);
            likely.push(vec![(0, odds)]);
            let wanted =
                format!(r#"{{"tokens":["a"],"token_logprobs":[{logprob}],"top_logprobs":[{top}],"text_offset":[0]}}"#);
            assert_eq!(json::write(&likely.say("a"), &Layout::compact()), wanted);
        }
    }
}
