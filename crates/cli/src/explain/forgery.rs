//! Text of a conversation that spells a control token.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use rolecall::tokenizer::AddedToken;
use rolecall::{Origin, Prompt};

use super::tokens::Tokens;

/// A place where a conversation spells a control token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgery<'a> {
    pub span: Range<usize>,
    pub origin: Origin,
    /// The control token's text.
    pub token: &'a str,
    /// Whether a control token's id came out for it: only the reference encoding does that.
    pub succeeded: bool,
}

/// The texts of control tokens, to be found in a conversation.
pub struct Marks<'a> {
    texts: Vec<&'a str>,
    search: Option<AhoCorasick>,
}

impl<'a> Marks<'a> {
    /// A template's control tokens are those that the tokenizer has added.
    pub fn new(prompt: &'a Prompt, added: &'a [AddedToken]) -> Marks<'a> {
        // A control token such as `sop` is a piece of ordinary words.
        let is_mark = |text: &&str| text.chars().any(|character| !character.is_alphanumeric());
        let own = prompt.controls().iter().flat_map(|control| control.texts());
        let added = added.iter().map(|token| token.text.as_str()).filter(|_| prompt.controls().is_empty());
        let texts: Vec<&str> = own.chain(added).filter(is_mark).collect();
        // A set too large to search for is not searched for; no tokenizer file comes near.
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&texts).ok();
        Marks { search: search.filter(|_| !texts.is_empty()), texts }
    }

    /// All places in order; none lies within another.
    pub fn find<'s>(
        &'s self,
        prompt: &'s Prompt,
        tokens: Option<&'s Tokens>,
    ) -> impl Iterator<Item = Forgery<'a>> + use<'a, 's> {
        self.search.iter().flat_map(move |search| {
            let said = prompt.segments().filter(|segment| !segment.origin.is_format());
            said.flat_map(move |segment| {
                let (origin, start) = (segment.origin, segment.start);
                search.find_iter(segment.text).map(move |found| {
                    let span = start + found.start()..start + found.end();
                    let succeeded = tokens.is_some_and(|tokens| becomes_control(tokens, &span));
                    Forgery { span, origin: origin.clone(), token: self.texts[found.pattern().as_usize()], succeeded }
                })
            })
        })
    }
}

fn becomes_control(tokens: &Tokens, span: &Range<usize>) -> bool {
    tokens.behind(span.start).take_while(|token| token.start < span.end).any(|token| token.control)
}
