//! A model that says what a script says, by token ids.

use std::collections::VecDeque;
use std::sync::Arc;

use rolecall::session::Finish;
use rolecall::tokenizer::{TextPlace, Tokenizer};
use rolecall::{Model, Request};
use rolecall_interpreter::Stop;
use rolecall_interpreter::agent::{Engine, EngineError, Sampled, Sampling};
use rolecall_testkit::Toy;

/// An engine that samples the replies of a script, and notes what it got.
pub struct Script {
    tokenizer: Arc<Toy>,
    replies: VecDeque<String>,
    controls: Vec<(String, Option<u32>)>,
    /// How many ids of each prompt were new.
    pub new: Vec<usize>,
    /// The text of the last prompt.
    pub prompt: String,
}

impl Script {
    /// Returns a model of a built-in format, with a script for it.
    pub fn new(format: &str, replies: &[&str]) -> (Model, Script) {
        let registry = rolecall::format::registry();
        let known = registry.get(format).unwrap();
        let controls = known.controls.iter().map(|control| (control.text.clone(), control.id)).collect();
        let tokenizer = Arc::new(Toy::of(known));
        let loaded: Arc<dyn Tokenizer> = tokenizer.clone();
        let model = Model::builder().format(format).loaded_tokenizer(loaded).open().unwrap();
        let replies = replies.iter().map(|reply| (*reply).to_owned()).collect();
        (model, Script { tokenizer, replies, controls, new: Vec::new(), prompt: String::new() })
    }
}

impl Engine for Script {
    fn sample(
        &mut self,
        sampling: &Sampling,
        _: &Stop,
        take: &mut dyn FnMut(Sampled<'_>),
    ) -> Result<Finish, EngineError> {
        self.new.push(sampling.ids.len() - sampling.keep);
        self.prompt.clone_from(&sampling.text);
        let reply = self.replies.pop_front().ok_or(EngineError("the script is over".into()))?;
        let mut rest = reply.as_str();
        while !rest.is_empty() {
            // Some tokenizers never read control tokens in text. A model samples them all the same.
            let known = self.controls.iter().filter(|(control, _)| rest.starts_with(control.as_str()));
            let control = known.max_by_key(|(control, _)| control.len());
            let next = self.controls.iter().filter_map(|(control, _)| rest.find(control.as_str())).min();
            let taken = control.map_or(next.unwrap_or(rest.len()), |(control, _)| control.len());
            match control.and_then(|(control, id)| self.tokenizer.token_id(control).or(*id)) {
                Some(id) => take(Sampled::Ids(&[id])),
                None => {
                    let mut tokens = Vec::new();
                    self.tokenizer.encode_ordinary(&rest[..taken], TextPlace::Inside, &mut tokens).unwrap();
                    tokens.iter().for_each(|token| take(Sampled::Ids(&[token.id])));
                }
            }
            rest = &rest[taken..];
        }
        Ok(Finish::Stop)
    }
}

/// Returns a request from its JSON.
pub fn request(text: &str) -> Request {
    Request::from_text(text).unwrap()
}

/// Returns a request without messages.
pub fn empty() -> Request {
    Request::without_messages(rolecall::conversation::json::Object::new()).unwrap()
}
