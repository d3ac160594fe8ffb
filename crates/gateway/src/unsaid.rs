use crate::characters::Characters;
use crate::token_odds::TokenOdds;

/// The tokens whose text was not passed on yet.
///
/// A parser holds text back, and leaves some out: markers, and white space around them. What is passed on is
/// therefore looked for in the text of these tokens.
#[derive(Clone, Debug, Default)]
pub struct Unsaid {
    /// The text of the tokens, which begins with the rest of the last one that was taken.
    text: String,
    characters: Characters,
    tokens: Vec<Token>,
}

#[derive(Clone, Debug)]
struct Token {
    /// The place in the text. It is empty if the token completes no character.
    start: usize,
    end: usize,
    odds: TokenOdds,
}

impl Unsaid {
    /// Adds a token.
    pub fn push(&mut self, odds: &TokenOdds) {
        let start = self.text.len();
        self.characters.bytes.extend_from_slice(&odds.bytes);
        self.text += &self.characters.complete();
        self.tokens.push(Token { start, end: self.text.len(), odds: odds.clone() });
    }

    /// Takes the tokens of a text that is passed on, each with the number of characters of the text before
    /// it. Tokens before the text were left out, and are forgotten.
    pub fn take(&mut self, said: &str) -> Vec<(usize, TokenOdds)> {
        if self.text.is_empty() && self.tokens.is_empty() {
            return Vec::new();
        }
        let Some(start) = self.find(said) else {
            // The log probabilities of some tokens are not known.
            *self = Unsaid::default();
            return Vec::new();
        };
        self.forget_before(start);
        let rest = self.tokens.split_off(self.tokens.partition_point(|token| token.start < said.len()));
        let (mut at, mut before) = (0, 0);
        let taken = std::mem::replace(&mut self.tokens, rest).into_iter().map(|token| {
            before += said[at..token.start].chars().count();
            at = token.start;
            (before, token.odds)
        });
        let taken = taken.collect();
        self.forget_before(said.len());
        taken
    }

    /// Forgets what was left out before a text that is passed on next and begins something new. What was
    /// left out may begin with the same characters: `<think>` before `<b>`.
    pub fn skip_to(&mut self, said: &str) {
        if let Some(start) = self.text.rfind(said) {
            self.forget_before(start);
        }
    }

    /// Returns where the text is that is passed on. If something before it was left out, it is at the end,
    /// perhaps before what is held back.
    fn find(&mut self, said: &str) -> Option<usize> {
        let find = |text: &str| if text.starts_with(said) { Some(0) } else { text.rfind(said) };
        find(&self.text).or_else(|| {
            // The text ended within a character.
            self.text += &self.characters.rest();
            find(&self.text)
        })
    }

    /// Forgets the tokens that end before a place in the text.
    fn forget_before(&mut self, place: usize) {
        let is_left = |token: &Token| token.start >= place || token.end > place;
        let from = self.tokens.iter().position(is_left).unwrap_or(self.tokens.len());
        self.tokens.drain(..from);
        for token in &mut self.tokens {
            token.start = token.start.saturating_sub(place);
            token.end -= place;
        }
        self.text.drain(..place);
    }
}

#[cfg(test)]
mod tests {
    use super::Unsaid;
    use crate::token_odds::TokenOdds;

    /// Adds tokens whose log probabilities are their numbers.
    fn push(unsaid: &mut Unsaid, tokens: &[&[u8]], count: &mut i32) {
        for token in tokens {
            *count += 1;
            unsaid.push(&TokenOdds { bytes: token.to_vec(), logprob: Some(f64::from(*count)), top: Vec::new() });
        }
    }

    #[test]
    fn a_text_has_the_tokens_that_it_was_made_of() {
        type Case = &'static [(&'static [&'static [u8]], &'static str, &'static [(usize, i32)])];
        let cases: [Case; 9] = [
            &[(&[b"a", b"bc"], "abc", &[(0, 1), (1, 2)])],
            // The second line break is held back.
            &[(&[b"\n", b"\n"], "\n", &[(0, 1)]), (&[b"b"], "\nb", &[(0, 2), (1, 3)])],
            // What comes before the text was left out, even if it has the same characters.
            &[(&[b"<t>", b"\n", b"t"], "t", &[(0, 3)])],
            &[(&[b"<t>", b"\n", b"t", b"<"], "t", &[(0, 3)]), (&[b"b"], "<b", &[(0, 4), (1, 5)])],
            // A token begins in one text, and ends in the next.
            &[(&[b"a\n"], "a", &[(0, 1)]), (&[b"b"], "\nb", &[(1, 2)])],
            &[(&[b"--", b"-"], "-", &[(0, 1)]), (&[b"b"], "--b", &[(1, 2), (2, 3)])],
            // The text begins within a token.
            &[(&[b"<t>\na"], "a", &[(0, 1)])],
            // Characters of several tokens.
            &[(&[b"a", b"\xc3", b"\xa9", b"b"], "a\u{e9}b", &[(0, 1), (1, 2), (1, 3), (2, 4)])],
            &[(&[b"\xff", b"\xc3"], "\u{fffd}\u{fffd}", &[(0, 1), (1, 2)])],
        ];
        for case in cases {
            let (mut unsaid, mut count) = (Unsaid::default(), 0);
            for (tokens, said, wanted) in case {
                push(&mut unsaid, tokens, &mut count);
                let taken = unsaid.take(said).into_iter();
                let found: Vec<(usize, Option<f64>)> = taken.map(|(before, odds)| (before, odds.logprob)).collect();
                let wanted: Vec<(usize, Option<f64>)> =
                    wanted.iter().map(|(before, number)| (*before, Some(f64::from(*number)))).collect();
                assert_eq!(found, wanted, "{said:?}");
            }
        }
    }

    #[test]
    fn what_was_left_out_is_skipped_even_if_it_begins_like_the_text() {
        let (mut unsaid, mut count) = (Unsaid::default(), 0);
        push(&mut unsaid, &[b"<", b"t", b">", b"<"], &mut count);
        unsaid.skip_to("<");
        let found: Vec<Option<f64>> = unsaid.take("<").into_iter().map(|(_, odds)| odds.logprob).collect();
        assert_eq!(found, [Some(4.0)]);
    }
}
