//! Where every byte of a prompt comes from, which id it became, and what of the conversation spells a control token.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};
use rolecall_encode::{Encoded, EncodedToken};
use rolecall_render::{Origin, Prompt};

use crate::answer;
use crate::model::ModelPrompt;
use crate::tokenizer::AddedToken;

/// A prompt explained: see [`Model::explain`](crate::Model::explain).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The prompt; its segments say where each byte comes from.
    pub prompt: ModelPrompt,
    /// Its ids, each with its bytes, where the model has a tokenizer.
    pub encoded: Option<Encoded>,
    /// Where the conversation spells control tokens, in order.
    pub spelled: Vec<Spelled>,
}

/// A place where a conversation spells a control token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelled {
    /// The control token's text.
    pub token: String,
    /// The bytes of the prompt.
    pub span: Range<usize>,
    /// Which part of the conversation it is in.
    pub origin: Origin,
    /// Whether a control token's id came out for it, which only the reference encoding does.
    pub is_control: bool,
}

/// The texts of control tokens, to be found in a conversation.
#[derive(Debug)]
pub struct Marks<'a> {
    texts: Vec<&'a str>,
    search: Option<AhoCorasick>,
}

impl<'a> Marks<'a> {
    /// Those of the prompt's format. A template's control tokens are those that the tokenizer has added.
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

    /// All places in order, each with its token's text and its origin; none lies within another.
    pub fn find<'s>(
        &'s self,
        prompt: &'s Prompt,
    ) -> impl Iterator<Item = (Range<usize>, &'a str, Origin)> + use<'a, 's> {
        self.search.iter().flat_map(move |search| {
            let said = prompt.segments().filter(|segment| !segment.origin.is_format());
            said.flat_map(move |segment| {
                let (origin, start) = (segment.origin, segment.start);
                search.find_iter(segment.text).map(move |found| {
                    let span = start + found.start()..start + found.end();
                    (span, self.texts[found.pattern().as_usize()], origin.clone())
                })
            })
        })
    }
}

impl Explanation {
    pub(crate) fn new(prompt: ModelPrompt, encoded: Option<Encoded>, added: &[AddedToken]) -> Explanation {
        let becomes_control = |span: &Range<usize>| {
            let tokens = encoded.as_ref().map_or(&[][..], |encoded| &encoded.tokens);
            let from = tokens.partition_point(|token| token.end <= span.start);
            tokens[from..].iter().take_while(|token| token.start < span.end).any(|token| token.control)
        };
        let marks = Marks::new(&prompt, added);
        let spelled = marks.find(&prompt).map(|(span, token, origin)| Spelled {
            token: token.to_owned(),
            is_control: becomes_control(&span),
            span,
            origin,
        });
        let spelled = spelled.collect();
        Explanation { prompt, encoded, spelled }
    }

    /// The answer with ids where there are some, with `"tokens": [{"id", "text", "start", "end", "control", "origin"?}, ..]`, and
    /// with `"spelled": [{"token", "start", "end", "origin", "control"}, ..]` where the conversation spells control tokens.
    pub fn to_json(&self) -> Json {
        let id = self.prompt.request().id.as_ref();
        let answer = match &self.encoded {
            Some(encoded) => answer::of_encoded(id, &self.prompt, encoded),
            None => answer::of_prompt(id, &self.prompt),
        };
        let Json::Object(mut answer) = answer else { return answer };
        if let Some(encoded) = &self.encoded {
            let tokens = encoded.tokens.iter().map(|token| Json::Object(of_token(&self.prompt, token)));
            answer.insert("tokens", Json::Array(tokens.collect()));
        }
        if !self.spelled.is_empty() {
            answer.insert("spelled", Json::Array(self.spelled.iter().map(of_spelled).collect()));
        }
        Json::Object(answer)
    }
}

/// `{"id", "text", "start", "end", "control", "origin"?}`
pub fn of_token(prompt: &Prompt, token: &EncodedToken) -> Object {
    let mut object = object! {
        "id" => i64::from(token.id),
        "text" => prompt.text().get(token.start..token.end).unwrap_or_default(),
        "start" => token.start as i64,
        "end" => token.end as i64,
        "control" => token.control,
    };
    if let Some(origin) = prompt.origin_at(token.start) {
        object.insert("origin", answer::of_origin(&origin));
    }
    object
}

/// `{"token", "start", "end", "origin", "control"}`
pub fn of_spelled(spelled: &Spelled) -> Json {
    Json::Object(object! {
        "token" => spelled.token.as_str(),
        "start" => spelled.span.start as i64,
        "end" => spelled.span.end as i64,
        "origin" => answer::of_origin(&spelled.origin),
        "control" => spelled.is_control,
    })
}
