//! Records of datasets, converted to requests.
//!
//! [`read`] takes a JSON text in one of the shapes that trainers use and returns its [`Sample`]s,
//! each with a [`Request`]. [`Shape::of`] determines the shape from the keys. The submodules:
//! `dialogue` reads turns, `pair` reads prompts with answers, `instances` reads LMFlow's files,
//! `rounds` reads XTuner's rows, `harmony` reads messages with channels, `foreign` names the shapes that
//! are not read, and `origin` finds a place in the dataset's value.

mod dialogue;
mod foreign;
mod harmony;
mod instances;
mod origin;
mod pair;
mod rounds;

use std::fmt;
use std::str::FromStr;

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::spelling::near_miss;
use rolecall_conversation::{Json, Place, Problem};
use rolecall_openai::{Error, Request};

use self::origin::{FieldOrigin, Origins};

/// The shape in which a dataset writes a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shape {
    /// `messages`, as in OpenAI's API and its fine-tuning files.
    OpenAi,
    /// `messages` with channels and recipients, as in harmony's own JSON.
    Harmony,
    /// `conversations` of `from` and `value`.
    ShareGpt,
    /// `instruction`, `input` and `output`.
    Alpaca,
    /// `prompt` and `completion`.
    Completion,
    /// `chosen` and `rejected`, or OpenAI's `preferred_output` and `non_preferred_output`.
    Preference,
    /// LMFlow's `instances`.
    Instances,
    /// XTuner's `conversation` of `input` and `output`.
    Rounds,
}

/// One of the two answers of a preference pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The better answer.
    Chosen,
    /// The other answer.
    Rejected,
}

/// One conversation of a dataset.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// The conversation, as a request.
    pub request: Request,
    /// For a preference pair, the answer that the conversation ends with.
    pub side: Option<Side>,
    origins: Origins,
}

/// A conversation that is not yet parsed: the object of a request, and where it comes from.
#[derive(Default)]
struct Draft {
    object: Object,
    side: Option<Side>,
    origins: Origins,
}

impl Shape {
    /// All shapes, the most common first.
    pub const ALL: [Shape; 8] = [
        Shape::OpenAi,
        Shape::Harmony,
        Shape::ShareGpt,
        Shape::Alpaca,
        Shape::Completion,
        Shape::Preference,
        Shape::Instances,
        Shape::Rounds,
    ];

    /// Returns the shape of an object, determined from its keys and those of its messages, or `None`
    /// if they match no shape.
    pub fn of(object: &Object) -> Option<Shape> {
        let has = |key: &str| object.get(key).is_some();
        Some(match () {
            () if has("instances") && !has("messages") => Shape::Instances,
            () if has("chosen") && has("rejected") => Shape::Preference,
            () if has("preferred_output") && has("non_preferred_output") => Shape::Preference,
            () if object.get("messages").and_then(Json::as_array).is_some_and(harmony::is_harmony) => Shape::Harmony,
            () if has("messages") => Shape::OpenAi,
            () if has("conversations") => Shape::ShareGpt,
            () if object.get("conversation").and_then(Json::as_array).is_some_and(rounds::is_rounds) => Shape::Rounds,
            () if has("instruction") && has("output") => Shape::Alpaca,
            () if has("prompt") && has("completion") => Shape::Completion,
            () => return None,
        })
    }

    /// Returns a short name: `openai`, `harmony`, `sharegpt`, `alpaca`, `completion`, `preference`,
    /// `instances` or `xtuner`.
    pub fn name(self) -> &'static str {
        match self {
            Shape::OpenAi => "openai",
            Shape::Harmony => "harmony",
            Shape::ShareGpt => "sharegpt",
            Shape::Alpaca => "alpaca",
            Shape::Completion => "completion",
            Shape::Preference => "preference",
            Shape::Instances => "instances",
            Shape::Rounds => "xtuner",
        }
    }

    /// Returns the keys that are specific to the shape.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Shape::OpenAi | Shape::Harmony => &[],
            Shape::ShareGpt => &["conversations", "system", "tools"],
            Shape::Alpaca => &["instruction", "input", "output", "system", "history", "tools"],
            Shape::Completion => &["prompt", "completion", "tools"],
            Shape::Preference => &[
                "prompt",
                "instruction",
                "chosen",
                "rejected",
                "conversations",
                "system",
                "tools",
                "input",
                "preferred_output",
                "non_preferred_output",
            ],
            Shape::Instances => &["instances", "type"],
            Shape::Rounds => &["conversation", "tools"],
        }
    }

    fn drafts(self, object: Object) -> Result<Vec<Draft>, Error> {
        // A request's own keys are checked when it is read.
        if !matches!(self, Shape::OpenAi | Shape::Harmony) {
            self.check_keys(&object)?;
        }
        Ok(match self {
            Shape::OpenAi => vec![Draft { object, ..Draft::default() }],
            Shape::Harmony => vec![harmony::read(object)?],
            Shape::ShareGpt => vec![dialogue::read(object)?],
            Shape::Alpaca => vec![dialogue::of_instruction(object)?],
            Shape::Completion => vec![pair::completion(object)?],
            Shape::Preference => pair::preference(object)?,
            Shape::Instances => instances::read(object)?,
            Shape::Rounds => vec![rounds::read(object)?],
        })
    }

    /// Refuses a conversation that is written twice, and keys that look like misspelt ones of the shape.
    fn check_keys(self, object: &Object) -> Result<(), Error> {
        if object.get("messages").is_some_and(|messages| !messages.is_null()) {
            let one = self.keys().iter().find(|key| object.get(key).is_some()).unwrap_or(&"messages");
            return Err(Error::TwoWays { one: (*one).to_owned(), other: "messages".to_owned() });
        }
        for (key, _) in object.iter().filter(|(key, _)| !self.keys().contains(key)) {
            let missing = self.keys().iter().copied().filter(|known| object.get(known).is_none());
            if let Some(near) = near_miss(key, missing) {
                return Err(Error::MisspeltKey { key: key.to_owned(), near, message: None });
            }
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = ();

    fn from_str(name: &str) -> Result<Shape, ()> {
        Shape::ALL.into_iter().find(|shape| shape.name() == name).ok_or(())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::OpenAi => "OpenAI's messages",
            Shape::Harmony => "harmony's messages",
            Shape::ShareGpt => "ShareGPT",
            Shape::Alpaca => "Alpaca",
            Shape::Completion => "prompt and completion",
            Shape::Preference => "a preference pair",
            Shape::Instances => "LMFlow's instances",
            Shape::Rounds => "XTuner's conversation",
        })
    }
}

impl Side {
    /// Returns `chosen` or `rejected`.
    pub fn name(self) -> &'static str {
        match self {
            Side::Chosen => "chosen",
            Side::Rejected => "rejected",
        }
    }
}

/// The types of LMFlow's files that hold conversations.
pub const KINDS: [&str; 2] = ["conversation", "text2text"];

/// Returns the id of a record that cannot be parsed otherwise, so that the answer can name it.
pub fn id_of(text: &str) -> Option<Json> {
    id_in(&json::parse(text).ok()?)
}

/// Returns the id of a record, as [`id_of`] does.
pub fn id_in(record: &Json) -> Option<Json> {
    let object = record.as_object()?;
    let named = |object: &Object| object.get("id").filter(|id| !id.is_null()).cloned();
    let of_instance = || match object.get("instances")?.as_array()? {
        [Json::Object(only)] => named(only).or_else(|| only.get("conversation_id").cloned()),
        _ => None,
    };
    named(object).or_else(of_instance)
}

/// Parses a JSON text in a given shape, or in the shape that its keys determine, and returns the
/// shape and the samples.
///
/// A value without the keys of any shape is parsed as a request.
///
/// ```
/// use rolecall::dataset::{Shape, read};
/// let text = r#"{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]}"#;
/// let (shape, samples) = read(text, None)?;
/// assert_eq!((shape, samples.len()), (Shape::ShareGpt, 1));
/// let messages = &samples[0].request.conversation.messages;
/// assert_eq!((messages[1].role().name(), messages[1].text()), ("assistant", Some("Hello!".to_owned())));
/// # Ok::<(), rolecall::request::Error>(())
/// ```
pub fn read(text: &str, shape: Option<Shape>) -> Result<(Shape, Vec<Sample>), Error> {
    from_json(json::parse_unique(text)?, shape)
}

/// Reads a JSON value as [`read`] does a text.
pub fn from_json(value: Json, shape: Option<Shape>) -> Result<(Shape, Vec<Sample>), Error> {
    let is_free = shape.is_none();
    let object = match value {
        Json::Object(object) => object,
        Json::Array(messages)
            if shape.map_or_else(|| harmony::is_harmony(&messages), |shape| shape == Shape::Harmony) =>
        {
            [("messages".to_owned(), Json::Array(messages))].into_iter().collect()
        }
        // A list of messages, or a value that is not a conversation.
        other => {
            if is_free && let Json::Array(messages) = &other {
                foreign::check_messages(messages)?;
            }
            let request = Request::from_json(other)?;
            return Ok((Shape::OpenAi, vec![Sample { request, side: None, origins: Origins::default() }]));
        }
    };
    let shape = shape.or_else(|| Shape::of(&object)).unwrap_or(Shape::OpenAi);
    if is_free && shape == Shape::OpenAi {
        foreign::check(&object)?;
    }
    let samples = shape.drafts(object)?.into_iter().map(Draft::read).collect::<Result<_, _>>()?;
    Ok((shape, samples))
}

/// Translates a place in the request of a text to a place in the text itself.
///
/// Returns `None` if the place is the same, or if the text holds several requests.
pub fn place_in(text: &str, place: &Place) -> Option<Place> {
    // Most texts are requests; they are not parsed again.
    let is_request = || place.message.is_none() || json::span(text, &[json::Step::Key("messages")]).is_some();
    if !harmony::may_be(text) && is_request() {
        return None;
    }
    let object = match json::parse(text) {
        Ok(Json::Object(object)) => object,
        Ok(messages @ Json::Array(_)) => [("messages".to_owned(), messages)].into_iter().collect(),
        _ => return None,
    };
    let drafts = Shape::of(&object)?.drafts(object).ok()?;
    let [draft] = drafts.as_slice() else { return None };
    Some(draft.origins.original(place)).filter(|found| found != place)
}

impl Sample {
    /// Translates a place in the sample's request to a place in the dataset's value.
    pub fn original(&self, place: &Place) -> Place {
        self.origins.original(place)
    }
}

impl Draft {
    fn read(self) -> Result<Sample, Error> {
        let Draft { object, side, origins } = self;
        match Request::from_json(Json::Object(object)) {
            Ok(request) => Ok(Sample { request, side, origins }),
            Err(Error::Conversation(mut error)) => {
                error.place = origins.original(&error.place);
                Err(error.into())
            }
            Err(error) => Err(error),
        }
    }
}

fn wrong_type(field: impl Into<String>, expected: &'static str, found: &Json) -> Error {
    let problem = Problem::WrongType { expected, found: found.kind() };
    rolecall_conversation::Error { place: Place::field(field.into()), problem }.into()
}

fn missing(field: impl Into<String>) -> Error {
    rolecall_conversation::Error { place: Place::field(field.into()), problem: Problem::Missing }.into()
}

/// Removes a text that may be missing. An empty text counts as missing.
fn take_text(object: &mut Object, key: &str) -> Result<Option<String>, Error> {
    match object.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(other) => Err(wrong_type(key, "a string", &other)),
    }
}

/// Returns a message with a role and a text.
fn message(role: &str, content: impl Into<Json>) -> Json {
    Json::Object(rolecall_conversation::object! { "role" => role, "content" => content.into() })
}
