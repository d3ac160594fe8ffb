//! A reply in the shape of OpenAI's chat completions: a whole completion, or the chunks of a
//! stream.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};
use rolecall_parse::{Event, Reading, Stop};

use super::reading::{finish_reason, of_message};

/// The fields of a completion other than the reply itself.
///
/// ```
/// use rolecall::answer::Completion;
/// use rolecall::{Event, Reading, Stop};
/// use rolecall::conversation::json;
/// let completion = Completion { id: "chatcmpl-1".into(), model: "m".into(), created: 0 };
/// let mut reading = Reading::default();
/// reading.add(&Event::Content("Hi"));
/// reading.add(&Event::Stop(Stop::End));
/// let text = json::write(&completion.of_reading(&reading), &json::Layout::compact());
/// assert!(text.contains(r#""message":{"role":"assistant","content":"Hi"},"finish_reason":"stop""#), "{text}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The id of the completion.
    pub id: String,
    /// The model's name in the answer.
    pub model: String,
    /// The creation time, in seconds since 1970.
    pub created: i64,
}

impl Completion {
    /// Returns a whole `chat.completion`. Malformed output is not included.
    pub fn of_reading(&self, reading: &Reading) -> Json {
        let mut message = of_message(reading);
        if reading.content.is_empty() && !reading.calls.is_empty() {
            message.insert("content", Json::Null);
        }
        self.around("chat.completion", "message", message, finish_reason(reading).into())
    }

    fn around(&self, kind: &str, key: &str, said: Object, finish_reason: Json) -> Json {
        let choice = [
            ("index".to_owned(), Json::from(0)),
            (key.to_owned(), Json::Object(said)),
            ("finish_reason".to_owned(), finish_reason),
        ];
        Json::Object(object! {
            "id" => self.id.as_str(), "object" => kind, "created" => self.created, "model" => self.model.as_str(),
            "choices" => vec![Json::Object(choice.into_iter().collect())],
        })
    }
}

/// A converter from events to the chunks of a stream.
///
/// ```
/// use rolecall::answer::{Chunks, Completion};
/// use rolecall::Event;
/// use rolecall::conversation::json;
/// let mut chunks = Chunks::new(Completion::default());
/// let first = chunks.of_event(&Event::Content("Hi"));
/// // The first chunk has the role.
/// assert_eq!(first.len(), 2);
/// assert!(json::write(&first[1], &json::Layout::compact()).contains(r#""delta":{"content":"Hi"}"#));
/// ```
#[derive(Clone, Debug)]
pub struct Chunks {
    completion: Completion,
    has_begun: bool,
    has_calls: bool,
    holds_calls: bool,
    held: Option<HeldCall>,
}

/// A call whose id may still change.
#[derive(Clone, Debug)]
struct HeldCall {
    index: usize,
    id: String,
    name: String,
    arguments: String,
}

impl Chunks {
    /// Returns a converter for a completion that has not emitted any chunks.
    pub fn new(completion: Completion) -> Chunks {
        Chunks { completion, has_begun: false, has_calls: false, holds_calls: false, held: None }
    }

    /// Holds each call back until it ends.
    ///
    /// Use it if the model may write the id of a call after its name
    /// ([`ReplyContext::has_late_ids`](crate::model::ReplyContext::has_late_ids)). A client adds up the
    /// texts of the chunks, so an id cannot be replaced once it was sent.
    ///
    /// ```
    /// use rolecall::answer::{Chunks, Completion};
    /// use rolecall::Event;
    /// use rolecall::conversation::json;
    /// let mut chunks = Chunks::new(Completion::default()).holding_calls(true);
    /// chunks.of_event(&Event::CallStarted { index: 0, id: "made-up", name: "f" });
    /// assert!(chunks.of_event(&Event::Arguments { index: 0, text: "{}" }).is_empty());
    /// let held = chunks.of_event(&Event::CallFinished { index: 0, whole: true, id: Some("own") });
    /// let first = json::write(&held[0], &json::Layout::compact());
    /// assert!(first.contains(r#""id":"own""#) && held.len() == 2, "{first}");
    /// ```
    #[must_use]
    pub fn holding_calls(self, holds_calls: bool) -> Chunks {
        Chunks { holds_calls, ..self }
    }

    /// Returns the chunk that reports the tokens that were used. It has no choices.
    ///
    /// ```
    /// use rolecall::answer::{Chunks, Completion};
    /// use rolecall::conversation::{json, object};
    /// let chunk = Chunks::new(Completion::default()).of_usage(object! { "total_tokens" => 3 }.into());
    /// let text = json::write(&chunk, &json::Layout::compact());
    /// assert!(text.contains(r#""choices":[],"usage":{"total_tokens":3}"#), "{text}");
    /// ```
    pub fn of_usage(&self, usage: Json) -> Json {
        let mut chunk = self.chunk(Object::new(), Json::Null);
        if let Json::Object(chunk) = &mut chunk {
            chunk.insert("choices", Json::Array(Vec::new()));
            chunk.insert("usage", usage);
        }
        chunk
    }

    /// Returns the `chat.completion.chunk`s of an event. Events that chunks cannot represent, such
    /// as malformed output, give none.
    pub fn of_event(&mut self, event: &Event<'_>) -> Vec<Json> {
        let mut chunks = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            chunks.push(self.chunk(object! { "role" => "assistant", "content" => "" }, Json::Null));
        }
        match (&mut self.held, event) {
            (Some(held), Event::Arguments { text, .. }) => {
                held.arguments.push_str(text);
                return chunks;
            }
            (held @ Some(_), Event::CallFinished { id, .. }) => {
                if let Some(HeldCall { index, id: generated, name, arguments }) = held.take() {
                    chunks.push(self.chunk(started(index, id.unwrap_or(&generated), &name), Json::Null));
                    if !arguments.is_empty() {
                        let function = object! { "arguments" => arguments };
                        chunks.push(self.chunk(call(index, object! { "function" => function }), Json::Null));
                    }
                }
                return chunks;
            }
            _ => {}
        }
        let delta = match *event {
            Event::Content(text) => object! { "content" => text },
            Event::Reasoning(text) => object! { "reasoning_content" => text },
            Event::CallStarted { index, id, name } => {
                self.has_calls = true;
                if self.holds_calls {
                    let (id, name) = (id.to_owned(), name.to_owned());
                    self.held = Some(HeldCall { index, id, name, arguments: String::new() });
                    return chunks;
                }
                started(index, id, name)
            }
            Event::Arguments { index, text } => call(index, object! { "function" => object! { "arguments" => text } }),
            Event::CodeStarted { index, id } => {
                self.has_calls = true;
                let input = object! { "input" => "" };
                call(index, object! { "id" => id, "type" => "code_interpreter", "code_interpreter" => input })
            }
            Event::Code { index, text } => call(index, object! { "code_interpreter" => object! { "input" => text } }),
            // The model wrote the id after the name.
            Event::CallFinished { index, id: Some(id), .. } => call(index, object! { "id" => id }),
            Event::CallFinished { .. } | Event::Malformed(_) => return chunks,
            Event::Stop(stop) => {
                let reason = match stop {
                    Stop::Length => "length",
                    Stop::Abort => "abort",
                    Stop::End if self.has_calls => "tool_calls",
                    Stop::End => "stop",
                };
                chunks.push(self.chunk(Object::new(), reason.into()));
                return chunks;
            }
            _ => {
                debug_assert!(false, "{event:?}");
                return chunks;
            }
        };
        chunks.push(self.chunk(delta, Json::Null));
        chunks
    }

    fn chunk(&self, delta: Object, finish_reason: Json) -> Json {
        self.completion.around("chat.completion.chunk", "delta", delta, finish_reason)
    }
}

fn started(index: usize, id: &str, name: &str) -> Object {
    let function = object! { "name" => name, "arguments" => "" };
    call(index, object! { "id" => id, "type" => "function", "function" => function })
}

fn call(index: usize, rest: Object) -> Object {
    let mut call = object! { "index" => index as i64 };
    rest.iter().for_each(|(key, value)| call.insert(key, value.clone()));
    object! { "tool_calls" => vec![Json::Object(call)] }
}
