//! Conversations as datasets have them, brought into the shape of requests.
//!
//! In: a JSON value of one of the shapes that trainers know. Out: its [`Sample`]s, each a [`Request`].
//! Between: [`Shape::of`] tells the shape by its keys; `dialogue` reads turns, `pair` prompts with answers, `instances` LMFlow's files.
//! Start reading at [`read`].

mod dialogue;
mod instances;
mod pair;

use std::fmt;
use std::str::FromStr;

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::spelling::near_miss;
use rolecall_conversation::{Json, Place, Problem};
use rolecall_openai::{Error, Request};

/// How a dataset writes a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shape {
    /// `messages`, as in OpenAI's API and its files for fine-tuning.
    OpenAi,
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
}

/// Which answer of a preference pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The better one.
    Chosen,
    /// The other one.
    Rejected,
}

/// One conversation of a dataset.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// What it says.
    pub request: Request,
    /// Of a preference pair, which answer it ends with.
    pub side: Option<Side>,
    /// Where each message stands in the dataset's value, as a path.
    paths: Vec<String>,
}

/// A conversation before it is read: a request's object, and where its messages come from.
struct Draft {
    object: Object,
    side: Option<Side>,
    paths: Vec<String>,
}

impl Shape {
    /// Every shape, the most common first.
    pub const ALL: [Shape; 6] =
        [Shape::OpenAi, Shape::ShareGpt, Shape::Alpaca, Shape::Completion, Shape::Preference, Shape::Instances];

    /// The shape of an object, by its keys; none if they are those of no shape.
    pub fn of(object: &Object) -> Option<Shape> {
        let has = |key: &str| object.get(key).is_some();
        Some(match () {
            () if has("instances") && !has("messages") => Shape::Instances,
            () if has("chosen") && has("rejected") => Shape::Preference,
            () if has("preferred_output") && has("non_preferred_output") => Shape::Preference,
            () if has("messages") => Shape::OpenAi,
            () if has("conversations") => Shape::ShareGpt,
            () if has("instruction") && has("output") => Shape::Alpaca,
            () if has("prompt") && has("completion") => Shape::Completion,
            () => return None,
        })
    }

    /// A short name: `openai`, `sharegpt`, `alpaca`, `completion`, `preference` or `instances`.
    pub fn name(self) -> &'static str {
        match self {
            Shape::OpenAi => "openai",
            Shape::ShareGpt => "sharegpt",
            Shape::Alpaca => "alpaca",
            Shape::Completion => "completion",
            Shape::Preference => "preference",
            Shape::Instances => "instances",
        }
    }

    /// The keys that it has of its own.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Shape::OpenAi => &[],
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
        }
    }

    fn drafts(self, object: Object) -> Result<Vec<Draft>, Error> {
        // A request's own keys are checked when it is read.
        if self != Shape::OpenAi {
            self.check_keys(&object)?;
        }
        Ok(match self {
            Shape::OpenAi => vec![Draft { object, side: None, paths: Vec::new() }],
            Shape::ShareGpt => vec![dialogue::read(object)?],
            Shape::Alpaca => vec![dialogue::of_instruction(object)?],
            Shape::Completion => vec![pair::completion(object)?],
            Shape::Preference => pair::preference(object)?,
            Shape::Instances => instances::read(object)?,
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
            Shape::ShareGpt => "ShareGPT",
            Shape::Alpaca => "Alpaca",
            Shape::Completion => "prompt and completion",
            Shape::Preference => "a preference pair",
            Shape::Instances => "LMFlow's instances",
        })
    }
}

impl Side {
    /// `chosen` or `rejected`.
    pub fn name(self) -> &'static str {
        match self {
            Side::Chosen => "chosen",
            Side::Rejected => "rejected",
        }
    }
}

/// The types of LMFlow's files that hold conversations.
pub const KINDS: [&str; 2] = ["conversation", "text2text"];

/// The name of a record that cannot be read otherwise, for the answer to it.
pub fn id_of(text: &str) -> Option<Json> {
    let Ok(Json::Object(object)) = json::parse(text) else { return None };
    let named = |object: &Object| object.get("id").filter(|id| !id.is_null()).cloned();
    let of_instance = || match object.get("instances")?.as_array()? {
        [Json::Object(only)] => named(only).or_else(|| only.get("conversation_id").cloned()),
        _ => None,
    };
    named(&object).or_else(of_instance)
}

/// Reads a JSON text in a shape, or in the one that its keys tell, and says which. What has no shape's keys is read as a request.
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
    let object = match json::parse_unique(text)? {
        Json::Object(object) => object,
        // A list of messages, or what is no conversation.
        other => {
            let request = Request::from_json(other)?;
            return Ok((Shape::OpenAi, vec![Sample { request, side: None, paths: Vec::new() }]));
        }
    };
    let shape = shape.or_else(|| Shape::of(&object)).unwrap_or(Shape::OpenAi);
    let samples = shape.drafts(object)?.into_iter().map(Draft::read).collect::<Result<_, _>>()?;
    Ok((shape, samples))
}

/// A place of the request that a text holds, as a place of the text itself; none where that is the same, or where the text holds
/// several requests.
pub fn place_in(text: &str, place: &Place) -> Option<Place> {
    // Most texts are requests, and are not read once more.
    if place.message.is_none() || json::span(text, &[json::Step::Key("messages")]).is_some() {
        return None;
    }
    let Ok(Json::Object(object)) = json::parse(text) else { return None };
    let drafts = Shape::of(&object)?.drafts(object).ok()?;
    let [draft] = drafts.as_slice() else { return None };
    Some(original(&draft.paths, place)).filter(|found| found != place)
}

impl Sample {
    /// A place of its request as a place of the dataset's value.
    pub fn original(&self, place: &Place) -> Place {
        original(&self.paths, place)
    }
}

impl Draft {
    fn read(self) -> Result<Sample, Error> {
        let Draft { object, side, paths } = self;
        match Request::from_json(Json::Object(object)) {
            Ok(request) => Ok(Sample { request, side, paths }),
            Err(Error::Conversation(mut error)) => {
                error.place = original(&paths, &error.place);
                Err(error.into())
            }
            Err(error) => Err(error),
        }
    }
}

fn original(paths: &[String], place: &Place) -> Place {
    let Some(path) = place.message.and_then(|message| paths.get(message)) else { return place.clone() };
    // A path that ends in a turn has fields below it; any other is the text itself.
    let is_turn = path.ends_with(']');
    let below = match place.field.as_str() {
        "" => "",
        _ if !is_turn => "",
        "role" if path.starts_with("conversations") => "from",
        "content" if path.starts_with("conversations") => "value",
        field => field,
    };
    Place::field(if below.is_empty() { path.clone() } else { format!("{path}.{below}") })
}

fn wrong_type(field: impl Into<String>, expected: &'static str, found: &Json) -> Error {
    let problem = Problem::WrongType { expected, found: found.kind() };
    rolecall_conversation::Error { place: Place::field(field), problem }.into()
}

fn missing(field: impl Into<String>) -> Error {
    rolecall_conversation::Error { place: Place::field(field), problem: Problem::Missing }.into()
}

/// Takes a text that may be missing; an empty one says nothing.
fn take_text(object: &mut Object, key: &str) -> Result<Option<String>, Error> {
    match object.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(other) => Err(wrong_type(key, "a string", &other)),
    }
}

/// A message of a role that says one text.
fn message(role: &str, content: impl Into<Json>) -> Json {
    Json::Object(rolecall_conversation::object! { "role" => role, "content" => content.into() })
}
