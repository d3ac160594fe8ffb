use std::collections::VecDeque;

use crate::reply::characters::Characters;
use crate::reply::token_odds::TokenOdds;

/// The tokens of a reply that were not passed on yet.
///
/// The reader and the stop texts hold text back, and leave some out: markers, and white space around them.
/// Every token and every text that the reader emits has a place in the output as text, in which U+FFFD
/// replaces invalid UTF-8. The tokens of a text are those at its place.
#[derive(Clone, Debug, Default)]
pub struct PendingLogprobs {
    characters: Characters,
    /// The length of the output, without an incomplete character.
    length: u64,
    /// The texts that the reader emitted, and that were not passed on.
    held: VecDeque<TextEnd>,
    /// Where the text ends that the reader emits next, if that is known.
    next: Option<u64>,
    /// Where the last text ends that the reader emitted.
    emitted: u64,
    /// Where the last text ends that was passed on.
    said: u64,
    /// The tokens that may be part of a text.
    tokens: VecDeque<PendingToken>,
    /// The tokens that were not counted yet, each with its start.
    uncounted: VecDeque<(u64, TokenOdds)>,
}

/// The place of a text in the output.
#[derive(Clone, Copy, Debug)]
struct TextEnd {
    /// The number of bytes, of which the prompt may have written the first.
    length: usize,
    end: u64,
}

#[derive(Clone, Debug)]
struct PendingToken {
    /// Where its first character begins.
    start: u64,
    /// Where its last character ends. `None` while that is incomplete.
    end: Option<u64>,
    odds: TokenOdds,
}

impl PendingLogprobs {
    /// Adds bytes that the reader gets, and how likely their token was, if that is known.
    pub fn push(&mut self, bytes: &[u8], odds: Option<TokenOdds>) {
        if self.characters.is_broken_by(bytes) {
            self.end_character();
        }
        let start = self.length;
        self.characters.bytes.extend_from_slice(bytes);
        let text = self.characters.complete();
        if let Some(first) = text.chars().next() {
            self.close(start + first.len_utf8() as u64);
        }
        self.length += text.len() as u64;
        let Some(odds) = odds else { return };
        let end = self.characters.is_empty().then_some(self.length);
        self.uncounted.push_back((start, odds.clone()));
        self.tokens.push_back(PendingToken { start, end, odds });
    }

    /// Ends a character that stays incomplete, and is replaced.
    pub fn end_character(&mut self) {
        self.length += self.characters.rest().len() as u64;
        self.close(self.length);
    }

    /// Ends the tokens of the character that was incomplete.
    fn close(&mut self, end: u64) {
        self.tokens.iter_mut().rev().take_while(|token| token.end.is_none()).for_each(|token| token.end = Some(end));
    }

    /// Takes the end of the text that the reader emits next.
    pub fn place(&mut self, end: u64) {
        self.next = Some(end);
    }

    /// Takes the length of a text that the reader emits. Unless its place is known, it follows the last one.
    pub fn hold(&mut self, length: usize) {
        let end = self.next.take().unwrap_or(self.emitted + length as u64);
        self.held.push_back(TextEnd { length, end });
        self.emitted = end;
    }

    /// Takes the tokens of a text that is passed on, each with the number of characters of the text before
    /// it. A token that lies in several texts is in the first of them. Tokens before the text are forgotten.
    pub fn take(&mut self, text: &str) -> Vec<(usize, TokenOdds)> {
        let (mut taken, mut from) = (Vec::new(), 0);
        // What is left out may be in the midst of a text that was held back.
        while from < text.len() {
            let Some(place) = self.held.pop_front() else { break };
            let length = place.length.min(text.len() - from);
            let after = place.length - length;
            self.said = place.end.saturating_sub(after as u64);
            if after > 0 {
                self.held.push_front(TextEnd { length: after, ..place });
            }
            self.take_piece(from, length, &mut taken);
            from += length;
        }
        in_characters(text, taken)
    }

    /// Takes the tokens of a piece that is passed on, which is at some bytes of the text.
    fn take_piece(&mut self, from: usize, length: usize, taken: &mut Vec<(usize, TokenOdds)>) {
        let start = self.said.saturating_sub(length as u64);
        let count = self.tokens.partition_point(|token| token.start < self.said);
        for token in self.tokens.drain(..count) {
            if token.start >= start || token.end.is_none_or(|end| end > start) {
                let after = usize::try_from(self.said - token.start).unwrap_or(usize::MAX);
                taken.push((from + length.saturating_sub(after), token.odds));
            }
        }
    }

    /// Takes the tokens so far that were not counted yet and begin before the end of the last text that was
    /// passed on.
    pub fn count_said(&mut self) -> impl Iterator<Item = TokenOdds> {
        self.count_before(self.said)
    }

    /// Takes the tokens so far that were not counted yet, except those of a text that is held back.
    pub fn count(&mut self) -> impl Iterator<Item = TokenOdds> {
        let held = self.held.front().map(|place| place.end.saturating_sub(place.length as u64));
        self.count_before(held.unwrap_or(u64::MAX))
    }

    fn count_before(&mut self, end: u64) -> impl Iterator<Item = TokenOdds> {
        let count = self.uncounted.partition_point(|(start, _)| *start < end);
        self.uncounted.drain(..count).map(|(_, odds)| odds)
    }
}

/// Turns the places of tokens in a text from bytes into characters.
fn in_characters(text: &str, tokens: Vec<(usize, TokenOdds)>) -> Vec<(usize, TokenOdds)> {
    let (mut at, mut before) = (0, 0);
    let place = |(byte, odds): (usize, TokenOdds)| {
        before += text.get(at..byte).map_or(0, |between| between.chars().count());
        at = byte;
        (before, odds)
    };
    tokens.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::PendingLogprobs;
    use crate::reply::token_odds::TokenOdds;

    /// What happens to a reply.
    enum Do {
        /// A token is sampled. Its log probability is the number of tokens so far.
        Token(&'static [u8]),
        /// Bytes come whose token is not known.
        Bytes(&'static [u8]),
        /// A control token that is left out ends a character.
        Break,
        /// The reader emits a text of some bytes that ends here.
        Emit(usize, u64),
        /// The reader emits a text after the last one.
        EmitNext(usize),
        /// A text is passed on, which has these tokens.
        Say(&'static str, &'static [(usize, i32)]),
    }
    use Do::{Break, Bytes, Emit, EmitNext, Say, Token};

    fn number(odds: &TokenOdds) -> Option<i32> {
        odds.logprob.map(|logprob| logprob as i32)
    }

    fn check(steps: &[Do]) -> PendingLogprobs {
        let (mut unsaid, mut count) = (PendingLogprobs::default(), 0);
        for step in steps {
            match step {
                Token(bytes) => {
                    count += 1;
                    let logprob = Some(f64::from(count));
                    unsaid.push(bytes, Some(TokenOdds { bytes: bytes.to_vec(), logprob, top: Vec::new() }));
                }
                Bytes(bytes) => unsaid.push(bytes, None),
                Break => unsaid.end_character(),
                Emit(length, end) => {
                    unsaid.place(*end);
                    unsaid.hold(*length);
                }
                EmitNext(length) => unsaid.hold(*length),
                Say(text, wanted) => {
                    let taken = unsaid.take(text);
                    let found: Vec<_> = taken.iter().map(|(before, odds)| (*before, number(odds))).collect();
                    let wanted: Vec<_> = wanted.iter().map(|(before, number)| (*before, Some(*number))).collect();
                    assert_eq!(found, wanted, "{text:?}");
                }
            }
        }
        unsaid
    }

    #[test]
    fn a_text_has_the_tokens_at_its_place() {
        let cases: &[&[Do]] = &[
            &[Token(b"a"), Token(b"bc"), EmitNext(3), Say("abc", &[(0, 1), (1, 2)])],
            // White space at the start is held back, and emitted before the text.
            &[Token(b"\n\n"), Token(b"b"), Emit(2, 2), Say("\n\n", &[(0, 1)]), Emit(1, 3), Say("b", &[(0, 2)])],
            &[Token(b" "), Token(b" ok"), Emit(1, 1), Say(" ", &[(0, 1)]), Emit(3, 4), Say(" ok", &[(0, 2)])],
            // Markers and a repeat of the same characters are left out.
            &[
                Token(b"<t>"),
                Token(b"\n\n"),
                Token(b"\n\n"),
                Token(b"a"),
                Emit(2, 7),
                Say("\n\n", &[(0, 3)]),
                Emit(1, 8),
                Say("a", &[(0, 4)]),
            ],
            &[Token(b"<"), Token(b"t"), Token(b">"), Token(b"<"), Emit(1, 4), Say("<", &[(0, 4)])],
            &[Token(b"<t>"), Token(b"\n"), Token(b"t"), Token(b"<"), Emit(1, 5), Say("t", &[(0, 3)])],
            // A stop text that is not completed: "<b</b" and "--x--y".
            &[
                Token(b"<"),
                EmitNext(1),
                Token(b"b"),
                EmitNext(1),
                Token(b"<"),
                EmitNext(1),
                Token(b"b"),
                EmitNext(1),
                Say("<b", &[(0, 1), (1, 2)]),
                Token(b">"),
                EmitNext(1),
                Token(b"x"),
                EmitNext(1),
                Say("<b>x", &[(0, 3), (1, 4), (2, 5), (3, 6)]),
            ],
            &[
                Token(b"--"),
                EmitNext(2),
                Token(b"x"),
                EmitNext(1),
                Token(b"--"),
                EmitNext(2),
                Token(b"x"),
                EmitNext(1),
                Say("--x", &[(0, 1), (2, 2)]),
                Say("--x", &[(0, 3), (2, 4)]),
            ],
            &[Token(b"ab"), Token(b"<b"), EmitNext(4), Say("ab", &[(0, 1)]), Say("<b", &[(0, 2)])],
            // What is left out is in the midst of what is held back.
            &[
                Token(b"<"),
                Emit(1, 1),
                Token(b"<t>"),
                Token(b"b"),
                Emit(1, 5),
                Say("<b", &[(0, 1), (1, 3)]),
                Token(b"c"),
                Emit(1, 6),
                Say("c", &[(0, 4)]),
            ],
            // A token begins in one text, and ends in the next.
            &[Token(b"a\n"), Emit(1, 1), Say("a", &[(0, 1)]), Token(b"b"), Emit(2, 3), Say("\nb", &[(1, 2)])],
            // The text begins within a token.
            &[Token(b"<t>\na"), Emit(1, 5), Say("a", &[(0, 1)])],
            // The prompt wrote the beginning of the text.
            &[Token(b"a"), Token(b"b"), Emit(3, 2), Say("\nab", &[(1, 1), (2, 2)])],
            // Some tokens are not known.
            &[Token(b"a"), Bytes(b"bc"), Token(b"d"), EmitNext(4), Say("abcd", &[(0, 1), (3, 2)])],
            // A token has no text.
            &[Token(b""), Token(b"a"), EmitNext(1), Say("a", &[(0, 1), (0, 2)])],
            &[Token(b"a"), Token(b""), Token(b"b"), EmitNext(2), Say("ab", &[(0, 1), (1, 2), (1, 3)])],
            // Characters of several tokens.
            &[
                Token(b"a"),
                Token(b"\xc3"),
                Token(b"\xa9"),
                Token(b"b"),
                EmitNext(4),
                Say("a\u{e9}b", &[(0, 1), (1, 2), (1, 3), (2, 4)]),
            ],
            &[Token(b"a\xc3"), EmitNext(1), Say("a", &[(0, 1)]), Token(b"\xa9"), EmitNext(2), Say("\u{e9}", &[(0, 2)])],
            &[
                Token(b"<t>\xe2"),
                Token(b""),
                Token(b"\x82"),
                Token(b"\xac"),
                Emit(3, 6),
                Say("\u{20ac}", &[(0, 1), (0, 2), (0, 3), (0, 4)]),
            ],
            // Characters that stay incomplete.
            &[Token(b"\xff"), Token(b"\xc3"), Break, EmitNext(6), Say("\u{fffd}\u{fffd}", &[(0, 1), (1, 2)])],
            &[
                Token(b"b"),
                Token(b"\xe2"),
                Token(b"\n\n"),
                Token(b"c"),
                EmitNext(7),
                Say("b\u{fffd}\n\nc", &[(0, 1), (1, 2), (2, 3), (4, 4)]),
            ],
            &[Token(b"\xe2"), Token(b"\x82x"), EmitNext(4), Say("\u{fffd}x", &[(0, 1), (0, 2)])],
            &[Token(b"\xe2"), Break, Token(b"\x82"), EmitNext(6), Say("\u{fffd}\u{fffd}", &[(0, 1), (1, 2)])],
        ];
        for steps in cases {
            check(steps);
        }
    }

    #[test]
    fn all_tokens_are_counted_except_those_of_a_stop_text() {
        let numbers = |odds: Vec<TokenOdds>| odds.iter().filter_map(number).collect::<Vec<i32>>();
        let mut unsaid = check(&[
            Token(b"<t>"),
            Token(b"a"),
            Token(b"b<"),
            Token(b"st"),
            Token(b"op"),
            Emit(7, 10),
            Say("ab", &[(0, 2), (1, 3)]),
        ]);
        assert_eq!(numbers(unsaid.count_said().collect()), [1, 2, 3]);
        assert_eq!(unsaid.count().count(), 0);
        unsaid.take("<stop");
        assert_eq!(numbers(unsaid.count().collect()), [4, 5]);
    }
}
