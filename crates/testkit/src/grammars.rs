//! Replies that a grammar accepts and replies that it rejects: a format's own, from a seed, and the
//! same with a mistake.
//!
//! The input is a [`Subject`] and a seed, the output a [`Trial`]. The tools' schemas are made
//! first, then arguments that fit them, then the mistakes.

use fastrand::Rng;
use rolecall::conversation::json::{Number, Object};
use rolecall::conversation::{Json, Tool, object};
use rolecall::format::{Field, Format, Op, Slot};
use rolecall::grammar;
use rolecall::grammar::{Grammar, Note, Options, Reasoning, Token, ToolChoice};

use crate::outputs::{Said, Subject};

/// A grammar and the texts to try on it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The format and the seed.
    pub label: String,
    /// The options of the request.
    pub options: Options,
    /// The grammar.
    pub grammar: Grammar,
    /// The texts that a model which follows the format writes. One of them lacks the end of the
    /// turn, where the engine stops.
    pub accepts: Vec<String>,
    /// The mistakes and the texts with them.
    pub refuses: Vec<(&'static str, String)>,
}

/// A call: the number of its tool, and the arguments.
type Made = (usize, Object);

/// The request of a trial and the reply to it.
struct Exchange {
    tools: Vec<Json>,
    options: Options,
    /// The reply, without its calls.
    message: Object,
    calls: Vec<Made>,
}

/// Makes the trial of a seed. Returns `None` if the format cannot write the message of the seed.
pub fn trial(subject: &Subject, seed: u64, tokens: &[&str]) -> Result<Option<Trial>, String> {
    let mut rng = Rng::with_seed(seed);
    let mut exchange = Exchange::new(subject, tokens, &mut rng);
    let grammar = match grammar::grammar(&subject.format, &exchange.options) {
        Ok(grammar) => grammar,
        Err(error) => return Err(format!("{} {seed}: {error}", subject.label)),
    };
    let calls = exchange.calls.len();
    if grammar.notes.iter().any(|note| matches!(note, Note::NoContentBeforeCalls { .. })) && calls > 0 {
        exchange.message.insert("content", "".into());
    }
    if grammar.notes.contains(&Note::OneCall) && calls > 1 {
        return Ok(None);
    }
    let reply = exchange.said(&exchange.message, &exchange.calls);
    let Some(accepts) = sampled_reply(subject, &reply) else { return Ok(None) };
    let mut refuses = exchange.mistakes(subject, &mut rng);
    if calls == 1 && !exchange.is_free() {
        refuses.extend(broken_ends(accepts.last().map_or("", String::as_str), &mut rng));
    }
    refuses.retain(|(_, text)| !accepts.contains(text));
    let label = format!("{} {seed}", subject.label);
    Ok(Some(Trial { label, options: exchange.options, grammar, accepts, refuses }))
}

impl Exchange {
    /// Makes the tools first, then calls that fit them, the options and the message.
    fn new(subject: &Subject, tokens: &[&str], rng: &mut Rng) -> Exchange {
        let places = &subject.places;
        let functions = places.calls > 0 && places.functions;
        let tools: Vec<Json> = match functions {
            true => (0..rng.usize(1..=3)).map(|at| tool(at, rng)).collect(),
            false => Vec::new(),
        };
        let count = match rng.u8(..4) {
            0 => 0,
            _ if !functions => 0,
            _ => rng.usize(1..=places.calls.min(3)),
        };
        let mut calls: Vec<Made> = Vec::new();
        for _ in 0..count {
            let at = rng.usize(..tools.len());
            calls.push((at, arguments(&tools[at], quote_of(&subject.format), rng)));
        }
        let choice = match (count, rng.u8(..4)) {
            (0, 0) => ToolChoice::None,
            (0, _) | (_, 0 | 1) => ToolChoice::Auto,
            (1, 2) => ToolChoice::Named(name_of(&tools[calls[0].0]).to_owned()),
            _ => ToolChoice::Required,
        };
        let options = Options {
            tools: tools.iter().filter_map(|tool| Tool::from_json(tool.clone()).ok()).collect(),
            choice,
            one_call: count < 2 && rng.bool(),
            tokens: tokens.iter().map(|text| Token { text: (*text).to_owned(), id: None }).collect(),
            ..Options::default()
        };
        let message = object! { "role" => "assistant", "content" => "" };
        let mut exchange = Exchange { tools, options, message, calls };
        let (content, reasoning) = match count {
            0 => (places.content, places.reasoning),
            _ => (places.content_with_calls && exchange.is_free(), places.reasoning_with_calls),
        };
        if content && (count == 0 || rng.bool()) {
            exchange.message.insert("content", text(None, rng).into());
        }
        if reasoning && rng.bool() {
            exchange.message.insert("reasoning_content", text(None, rng).into());
            exchange.options.reasoning = Reasoning::Optional;
        }
        exchange
    }

    /// Reports whether the tool choice leaves room for text.
    fn is_free(&self) -> bool {
        matches!(self.options.choice, ToolChoice::Auto | ToolChoice::None)
    }

    /// Returns a message with calls, as a reply to this request.
    fn said(&self, message: &Object, made: &[Made]) -> Said {
        let mut message = message.clone();
        let calls = made
            .iter()
            .enumerate()
            .map(|(number, (at, arguments))| call(number, self.tools.get(*at).map_or("nobody", name_of), arguments));
        if !made.is_empty() {
            message.insert("tool_calls", Json::Array(calls.collect()));
        }
        Said { message, tools: self.tools.clone() }
    }

    /// Returns replies with one mistake each, and the mistakes.
    fn mistakes(&self, subject: &Subject, rng: &mut Rng) -> Vec<(&'static str, String)> {
        let mut refuses = Vec::new();
        let mut wrong = |what, said: Said| {
            refuses.extend(sampled_reply(subject, &said).into_iter().flatten().map(|text| (what, text)));
        };
        for (at, (tool, arguments)) in self.calls.iter().enumerate() {
            let with = |other: Made| {
                let mut made = self.calls.clone();
                made[at] = other;
                self.said(&self.message, &made)
            };
            wrong("the name is not offered", with((usize::MAX, Object::new())));
            for (key, schema) in properties(&self.tools[*tool]).iter() {
                let mut less = arguments.clone();
                if is_needed(&self.tools[*tool], key) && less.remove(key).is_some() {
                    wrong("a required argument is missing", with((*tool, less)));
                }
                let mut other = arguments.clone();
                if let (Some(_), Some(value)) = (arguments.get(key), misfit(schema)) {
                    other.insert(key, value);
                    wrong("an argument has another type", with((*tool, other)));
                }
            }
            let mut more = arguments.clone();
            more.insert("zz_unlisted", Json::Bool(true));
            wrong("an argument is not listed", with((*tool, more)));
        }
        if self.calls.len() == 1 && self.options.one_call && subject.places.calls > 1 {
            let twice = [self.calls[0].clone(), self.calls[0].clone()];
            wrong("there is a second call", self.said(&self.message, &twice));
        }
        if self.calls.is_empty() && !self.tools.is_empty() && self.options.choice == ToolChoice::None {
            let arguments = arguments(&self.tools[0], quote_of(&subject.format), rng);
            let message = object! { "role" => "assistant", "content" => "" };
            wrong("there is a call although calls are off", self.said(&message, &[(0, arguments)]));
        }
        refuses
    }
}

/// Returns copies of a text that are cut off at the wrong place.
fn broken_ends(whole: &str, rng: &mut Rng) -> Vec<(&'static str, String)> {
    let borders: Vec<usize> = whole.char_indices().map(|(at, _)| at).collect();
    let mut broken = Vec::new();
    for _ in 0..3 {
        broken.push(("the text ends early", whole[..borders[rng.usize(..borders.len())]].to_owned()));
    }
    broken.push(("the text continues", format!("{whole}x")));
    broken
}

/// Returns the texts that the engine may sample for a reply, or `None` if the format cannot write
/// it.
fn sampled_reply(subject: &Subject, said: &Said) -> Option<Vec<String>> {
    Some(sampled(&subject.format, &behind_prompt(subject, said)?))
}

/// Returns the text that a format writes after the generation prompt.
fn behind_prompt(subject: &Subject, said: &Said) -> Option<String> {
    let written = subject.write(said).ok()?;
    let mut generate = String::new();
    for op in subject.format.layout(Slot::Generate).map_or(&[][..], |layout| layout.ops()) {
        match op {
            Op::Literal(text) => generate.push_str(text),
            Op::Control(id) => generate.push_str(&subject.format.control(*id).text),
            Op::Seam | Op::Own(_) => {}
            Op::Hole { field: Field::Option(at), .. } => generate.push_str(&subject.format.choices[*at].default),
            Op::Hole { .. } | Op::Group(_) => return None,
        }
    }
    // Some formats also train on the opening of the turn, which the prompt contains here.
    let mut from = written.prompt_tail.len().saturating_sub(generate.len());
    let whole = written.prompt_tail.clone() + &written.text();
    while !whole.is_char_boundary(from) {
        from += 1;
    }
    let at = from + whole[from..].find(&generate)? + generate.len();
    Some(whole[at..].to_owned())
}

/// Returns the texts that the engine may sample for a turn, without the stop text at its end.
/// Without a stop text, the white space at the end may belong to the next turn.
fn sampled(format: &Format, text: &str) -> Vec<String> {
    let mut stops = format.stops();
    stops.extend(format.controls.iter().filter(|control| control.ends_turn).map(|control| control.text.as_str()));
    let ends = stops.iter().filter_map(|stop| {
        let stop = stop.trim();
        let before = text.trim_end().strip_suffix(stop).filter(|_| !stop.is_empty())?;
        Some(before.to_owned())
    });
    match ends.min_by_key(String::len) {
        Some(text) => vec![text],
        None => vec![text.to_owned(), text.trim_end().to_owned()],
    }
}

fn call(number: usize, name: &str, arguments: &Object) -> Json {
    let function = object! { "name" => name, "arguments" => arguments.clone() };
    object! { "id" => format!("call0000{number}"), "type" => "function", "function" => function }.into()
}

fn function(tool: &Json) -> Option<&Object> {
    tool.as_object()?.get("function")?.as_object()
}

fn name_of(tool: &Json) -> &str {
    function(tool).and_then(|function| function.get("name")).and_then(Json::as_str).unwrap_or_default()
}

fn parameters(tool: &Json) -> Object {
    let parameters = function(tool).and_then(|function| function.get("parameters")).and_then(Json::as_object);
    parameters.cloned().unwrap_or_default()
}

fn properties(tool: &Json) -> Object {
    parameters(tool).get("properties").and_then(Json::as_object).cloned().unwrap_or_default()
}

fn is_needed(tool: &Json, key: &str) -> bool {
    let parameters = parameters(tool);
    let needed = parameters.get("required").and_then(Json::as_array).unwrap_or_default();
    needed.iter().any(|name| name.as_str() == Some(key))
}

const KEYS: [&str; 8] = ["city", "days", "x", "a_b", "Unit2", "query", "limit", "path"];

/// Makes a tool. Keys are in alphabetical order, because some syntaxes write them so.
fn tool(at: usize, rng: &mut Rng) -> Json {
    let name = format!("{}_{at}", ["get_weather", "f", "search", "saveNote"][rng.usize(..4)]);
    let mut schema = object_schema(rng, 2);
    if rng.u8(..6) == 0 {
        schema.insert("properties", Json::Object(Object::new()));
        schema.remove("required");
    }
    let function = object! { "name" => name, "description" => "a tool", "parameters" => schema };
    object! { "type" => "function", "function" => function }.into()
}

fn object_schema(rng: &mut Rng, depth: usize) -> Object {
    let mut keys: Vec<&str> = (0..rng.usize(1..5)).map(|_| KEYS[rng.usize(..KEYS.len())]).collect();
    keys.sort_by_key(|key| key.to_lowercase());
    keys.dedup();
    let listed: Object = keys.iter().map(|key| ((*key).to_owned(), Json::Object(schema(rng, depth)))).collect();
    let needed: Vec<Json> = keys.iter().filter(|_| rng.bool()).map(|key| Json::from(*key)).collect();
    object! { "type" => "object", "properties" => listed, "required" => needed }
}

fn schema(rng: &mut Rng, depth: usize) -> Object {
    let number = |value: i64| Json::Number(Number::from(value));
    match rng.u8(..if depth == 0 { 7 } else { 10 }) {
        0..=2 => object! { "type" => "string" },
        3 => object! { "type" => "string", "enum" => vec![Json::from("low"), Json::from("high up")] },
        4 => object! { "type" => "integer", "minimum" => number(-5), "maximum" => number(120) },
        5 => object! { "type" => "number" },
        6 => object! { "type" => "boolean" },
        7 | 8 => {
            object! { "type" => "array", "items" => schema(rng, depth - 1), "maxItems" => number(3) }
        }
        _ => object_schema(rng, depth - 1),
    }
}

/// Makes arguments that fit a tool.
fn arguments(tool: &Json, quote: Option<char>, rng: &mut Rng) -> Object {
    fitting(&parameters(tool), quote, rng)
}

fn fitting(schema: &Object, quote: Option<char>, rng: &mut Rng) -> Object {
    let listed = schema.get("properties").and_then(Json::as_object).cloned().unwrap_or_default();
    let needed = schema.get("required").and_then(Json::as_array).unwrap_or_default().to_vec();
    let is_needed = |key: &str| needed.iter().any(|name| name.as_str() == Some(key));
    let mut object = Object::new();
    for (key, schema) in listed.iter() {
        if let (true, Some(schema)) = (is_needed(key) || rng.bool(), schema.as_object()) {
            object.insert(key, value(schema, quote, rng));
        }
    }
    object
}

fn value(schema: &Object, quote: Option<char>, rng: &mut Rng) -> Json {
    let spelled = |spelling: &str| Json::Number(Number::from_spelling(spelling).expect("each is a JSON number"));
    match schema.get("type").and_then(Json::as_str) {
        Some("string") => match schema.get("enum").and_then(Json::as_array) {
            Some(values) => values[rng.usize(..values.len())].clone(),
            None => Json::String(text(quote, rng)),
        },
        Some("integer") => spelled(["-5", "0", "7", "99", "120"][rng.usize(..5)]),
        Some("number") => spelled(["0", "-1.5", "3.25", "1000000"][rng.usize(..4)]),
        Some("boolean") => Json::Bool(rng.bool()),
        Some("array") => {
            let items = schema.get("items").and_then(Json::as_object).cloned().unwrap_or_default();
            Json::Array((0..rng.usize(..4)).map(|_| value(&items, quote, rng)).collect())
        }
        _ => Json::Object(fitting(schema, quote, rng)),
    }
}

/// Returns a value that does not fit in any spelling, or `None` if any text fits.
fn misfit(schema: &Json) -> Option<Json> {
    let schema = schema.as_object()?;
    match schema.get("type")?.as_str()? {
        "string" if schema.get("enum").is_none() => None,
        "integer" => Some(Json::Number(Number::from(121))),
        "array" => Some(Json::from("not a list")),
        "object" => Some(Json::Bool(false)),
        _ => Some(Json::from("neither")),
    }
}

/// Makes a text that contains no marker of any format.
fn text(quote: Option<char>, rng: &mut Rng) -> String {
    let words = [
        "Oslo",
        "a b",
        "größer",
        "日本語",
        "x > y",
        "line\nbreak",
        "tab\tbed",
        "\"q\"",
        "back\\slash",
        "it's",
        "{}",
        "a,b",
        "1 < 2",
        "</p>",
        "e\u{301}",
        "👍🏽",
        "(x)",
        "=",
        "end.",
    ];
    let mut text = String::from("w");
    for _ in 0..rng.usize(1..5) {
        text.push_str(words[rng.usize(..words.len())]);
        text.push_str(["", " "][rng.usize(..2)]);
    }
    text.push('w');
    text.retain(|c| Some(c) != quote);
    text
}

/// Returns the quote that closes a string which is written without escapes.
fn quote_of(format: &Format) -> Option<char> {
    let ops = format.layout(Slot::ArgumentString)?.ops();
    let at = ops.iter().position(|op| matches!(op, Op::Hole { field: Field::Value, .. }))?;
    match ops.get(at + 1)? {
        Op::Literal(text) => text.chars().next().filter(|c| matches!(c, '\'' | '"')),
        _ => None,
    }
}
