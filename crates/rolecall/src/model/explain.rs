//! Explaining a prompt: the origin of every byte, the id of every token, and where the conversation
//! spells a control token.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};
use rolecall_encode::{Encoded, EncodedToken};
use rolecall_format::Format;
use rolecall_render::{Loss, LossPolicy, Origin, Prompt};

use super::ModelPrompt;
use crate::Error;
use crate::answer;
use crate::explain::{self, ExplainedPrompt, Paint, Tokens, View};
use crate::loss::TokenLoss;
use crate::tokenizer::AddedToken;

/// A prompt with its tokens and the control tokens that the conversation spells. See
/// [`Model::explain`](crate::Model::explain).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The prompt. Its segments record the origin of every byte.
    pub prompt: ModelPrompt,
    /// The token ids, each with its bytes, if the model has a tokenizer.
    pub encoded: Option<Encoded>,
    /// The places where the conversation spells control tokens, in order.
    pub spelled: Vec<ControlSpelling>,
    /// The text that carries loss, if requested.
    pub loss: Option<Loss>,
}

/// A place where a conversation spells a control token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSpelling {
    /// The control token's text.
    pub token: String,
    /// The byte range in the prompt.
    pub span: Range<usize>,
    /// The part of the conversation that spells it.
    pub origin: Origin,
    /// Whether the text was encoded as the control token. Only the reference encoding does this.
    pub is_control: bool,
}

/// The texts of control tokens to search for in a conversation.
#[derive(Debug)]
pub struct Marks<'a> {
    texts: Vec<&'a str>,
    search: Option<AhoCorasick>,
}

impl<'a> Marks<'a> {
    /// Returns the control tokens of the prompt's format. If a template wrote the prompt, these are
    /// the tokens that the tokenizer has added.
    pub fn new(prompt: &'a Prompt, added: &'a [AddedToken]) -> Marks<'a> {
        // A control token such as `sop` also occurs in ordinary words, so it is skipped.
        let is_mark = |text: &&str| text.chars().any(|character| !character.is_alphanumeric());
        let own = prompt.controls().iter().flat_map(|control| control.texts());
        let added = added.iter().map(|token| token.text.as_str()).filter(|_| prompt.controls().is_empty());
        let texts: Vec<&str> = own.chain(added).filter(is_mark).collect();
        // A set that is too large to build is not searched. No tokenizer file comes near this
        // limit.
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&texts).ok();
        Marks { search: search.filter(|_| !texts.is_empty()), texts }
    }

    /// Returns all places in order, each with the text of the control token and the origin of the
    /// bytes. Places do not overlap.
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

impl ModelPrompt {
    /// Explains the prompt, and which text carries loss if a policy is given. The explanation has all
    /// tokens that end the model's replies, as [`find_stops`](Self::find_stops) adds them.
    pub fn explain(mut self, policy: Option<&LossPolicy>) -> Result<Explanation, Error> {
        self.find_stops()?;
        let loss = policy.map(|policy| self.loss(policy)).transpose()?;
        let has_tokenizer = self.model.has_tokenizer();
        let encoded = has_tokenizer.then(|| self.encode()).transpose()?;
        let model = self.model.clone();
        let added = if has_tokenizer { model.tokenizer()?.added_tokens() } else { &[] };
        Ok(Explanation::new(self, encoded, added, loss))
    }
}

impl Explanation {
    pub(crate) fn new(
        prompt: ModelPrompt,
        encoded: Option<Encoded>,
        added: &[AddedToken],
        loss: Option<Loss>,
    ) -> Explanation {
        let becomes_control = |span: &Range<usize>| {
            let tokens = encoded.as_ref().map_or(&[][..], |encoded| &encoded.tokens);
            let from = tokens.partition_point(|token| token.end <= span.start);
            tokens[from..].iter().take_while(|token| token.start < span.end).any(|token| token.control)
        };
        let marks = Marks::new(&prompt.prompt, added);
        let spelled = marks.find(&prompt.prompt).map(|(span, token, origin)| ControlSpelling {
            token: token.to_owned(),
            is_control: becomes_control(&span),
            span,
            origin,
        });
        let spelled = spelled.collect();
        Explanation { prompt, encoded, spelled, loss }
    }

    /// Draws the prompt for a terminal, or without colors for a file: a row for each line, with its
    /// message, and a legend. Rows are wrapped if a width in columns is given.
    ///
    /// ```
    /// use rolecall::explain::Paint;
    /// use rolecall::{Model, Request};
    /// let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let explanation = Model::open("chatml")?.explain(request)?;
    /// let drawn = explanation.draw_terminal(Paint { colored: false }, None);
    /// assert!(drawn.contains("0 user     │ Hi⟦<|im_end|>⟧⏎"), "{drawn}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn draw_terminal(&self, paint: Paint, width: Option<usize>) -> String {
        self.draw(|view, out| explain::draw_terminal(view, paint, width, out))
    }

    /// Draws the prompt as an HTML page without scripts, fonts or network access. Everything in it
    /// is escaped. `name` is its heading.
    pub fn draw_html(&self, name: &str) -> String {
        self.draw(|view, out| explain::draw_html(view, name, out))
    }

    /// Returns the answer as JSON text, as the command `rolecall explain --json` writes it: that of
    /// [`to_json`](Explanation::to_json), with the loss if it was requested.
    pub fn write_json(&self) -> String {
        self.draw(|view, out| explain::write_json(self.prompt.request().id.as_ref(), view, out))
    }

    fn draw(&self, draw: impl FnOnce(&View<'_>, &mut Vec<u8>) -> io::Result<()>) -> String {
        let named = || {
            let mut nameless = Format::new(self.prompt.model.name());
            nameless.title = "chat template".into();
            Arc::new(nameless)
        };
        let format = self.prompt.format().cloned().unwrap_or_else(named);
        let mut tokens = None;
        if let Some(encoded) = &self.encoded
            && let Ok(mut compact) = Tokens::of(&self.prompt.prompt)
        {
            encoded.tokens.iter().for_each(|token| compact.push(*token));
            tokens = Some(compact);
        }
        let has_tokens = tokens.is_some();
        let added = has_tokens.then(|| self.prompt.model.tokenizer().ok()).flatten();
        let view = View::new(ExplainedPrompt {
            conversation: &self.prompt.request().conversation,
            format: &format,
            prompt: &self.prompt.prompt,
            tokens: tokens.as_ref(),
            notes: self.encoded.as_ref().map_or(&[][..], |encoded| &encoded.notes),
            added: added.map_or(&[][..], |tokenizer| tokenizer.added_tokens()),
            loss: self.loss.as_ref().map(TokenLoss::from),
        });
        let mut drawn = Vec::new();
        draw(&view, &mut drawn).expect("writing to memory does not fail");
        String::from_utf8_lossy(&drawn).into_owned()
    }

    /// Returns the answer as JSON, with ids if there are any.
    ///
    /// Adds `"tokens": [{"id", "text", "start", "end", "control", "origin"?}, ..]` if the prompt
    /// was encoded, and `"spelled": [{"token", "start", "end", "origin", "control"}, ..]` if the
    /// conversation spells control tokens.
    pub fn to_json(&self) -> Json {
        let id = self.prompt.request().id.as_ref();
        let answer = match &self.encoded {
            Some(encoded) => answer::of_encoded(id, &self.prompt.prompt, encoded),
            None => answer::of_prompt(id, &self.prompt.prompt),
        };
        let Json::Object(mut answer) = answer else { return answer };
        if let Some(encoded) = &self.encoded {
            let tokens = encoded.tokens.iter().map(|token| Json::Object(of_token(&self.prompt.prompt, token)));
            answer.insert("tokens", Json::Array(tokens.collect()));
        }
        if !self.spelled.is_empty() {
            answer.insert("spelled", Json::Array(self.spelled.iter().map(of_spelled).collect()));
        }
        Json::Object(answer)
    }
}

/// Returns a token as `{"id", "text", "start", "end", "control", "origin"?}`.
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

/// Returns a spelled control token as `{"token", "start", "end", "origin", "control"}`.
pub fn of_spelled(spelled: &ControlSpelling) -> Json {
    Json::Object(object! {
        "token" => spelled.token.as_str(),
        "start" => spelled.span.start as i64,
        "end" => spelled.span.end as i64,
        "origin" => answer::of_origin(&spelled.origin),
        "control" => spelled.is_control,
    })
}
