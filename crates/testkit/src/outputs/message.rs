use fastrand::Rng;
use rolecall::conversation::json::{Number, Object};
use rolecall::conversation::{Json, Tool, object};
use rolecall::format::{CallIds, Field, Format, Slot, codec};

use crate::generate;

/// An assistant's message and the tools offered to it.
#[derive(Clone, Debug)]
pub struct Said {
    /// The message, in the shape of OpenAI's API. Its format can write all of it.
    pub message: Object,
    /// The tools, whose schemas fit the calls.
    pub tools: Vec<Json>,
}

/// The kind of texts in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taste {
    /// Words, lines, quotes, brackets and other scripts, but nothing that the format itself writes.
    Honest,
    /// The format's own markers, whole and cut, next to quotes and braces.
    Hostile,
}

/// The parts of an assistant's turn for which a format has a place.
#[derive(Clone, Debug)]
pub struct Places {
    /// Text in a turn without calls.
    pub content: bool,
    /// Text in a turn with calls.
    pub content_with_calls: bool,
    /// Reasoning in a turn without calls.
    pub reasoning: bool,
    /// Reasoning in a turn with calls.
    pub reasoning_with_calls: bool,
    /// The maximum number of calls.
    pub calls: usize,
    /// Calls of functions.
    pub functions: bool,
    /// Calls of the code interpreter.
    pub code: bool,
    /// The ids of calls.
    pub ids: bool,
    /// The ids of the format's calls.
    pub call_ids: CallIds,
    /// Whether only the id names the called function.
    pub names_in_ids: bool,
    /// Keys and names that are not identifiers of a programming language.
    pub free_names: bool,
}

impl Places {
    /// Returns the places of a format.
    pub fn of(format: &Format) -> Places {
        let plain = format.layout(Slot::Assistant);
        let calling = format.layout(Slot::AssistantWithCalls).or(plain);
        let prints =
            |layout: Option<&rolecall::format::Layout>, field| layout.is_some_and(|layout| layout.prints(field));
        let is_there = |slot| format.layout(slot).is_some();
        let calls = match prints(calling, Field::Calls) {
            true => format.rules.max_calls.unwrap_or(4).min(4),
            false => 0,
        };
        Places {
            content: prints(plain, Field::Content),
            content_with_calls: prints(calling, Field::Content),
            reasoning: prints(plain, Field::Reasoning),
            reasoning_with_calls: prints(calling, Field::Reasoning),
            calls,
            functions: is_there(Slot::Call),
            code: is_there(Slot::CallInterpreter),
            ids: prints(format.layout(Slot::Call), Field::Id),
            call_ids: format.rules.call_ids.clone(),
            names_in_ids: is_there(Slot::Call)
                && ![Field::Name, Field::Call].into_iter().any(|field| prints(format.layout(Slot::Call), field)),
            free_names: !is_there(Slot::Argument) && format.layout(Slot::Call).is_some_and(is_json),
        }
    }
}

/// Reports whether a layout writes arguments as JSON.
fn is_json(layout: &rolecall::format::Layout) -> bool {
    use rolecall::format::{Codec, Op};
    fn among(ops: &[Op]) -> bool {
        ops.iter().any(|op| match op {
            Op::Hole { codec, .. } => matches!(codec, Codec::Json { .. } | Codec::Call(_) | Codec::JsonString),
            Op::Group(inner) => among(inner),
            Op::Literal(_) | Op::Control(_) | Op::Seam | Op::Own(_) => false,
        })
    }
    among(layout.ops())
}

/// Makes a message for a format with these markers.
pub fn said(places: &Places, marks: &[String], taste: Taste, rng: &mut Rng) -> Said {
    let mut maker = Maker { places, marks, taste, rng };
    let calls = if places.calls > 0 && maker.rng.u8(..4) > 0 { maker.rng.usize(1..=places.calls) } else { 0 };
    let mut message = object! { "role" => "assistant" };
    let (content, reasoning) = match calls {
        0 => (places.content, places.reasoning),
        _ => (places.content_with_calls, places.reasoning_with_calls),
    };
    // A turn without calls has content; a turn with calls may have none.
    let content = match content && (calls == 0 || maker.rng.bool()) {
        true => maker.text(),
        false => String::new(),
    };
    message.insert("content", content.into());
    if reasoning && maker.rng.bool() {
        let text = maker.text();
        message.insert("reasoning_content", text.into());
    }
    let mut tools = Vec::new();
    if calls > 0 {
        let made: Vec<Json> = (0..calls).map(|at| maker.call(at, &mut tools)).collect();
        message.insert("tool_calls", Json::Array(made));
    }
    Said { message, tools }
}

impl Said {
    /// Returns the tools as the parser takes them.
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.iter().filter_map(|tool| Tool::from_json(tool.clone()).ok()).collect()
    }
}

struct Maker<'a> {
    places: &'a Places,
    marks: &'a [String],
    taste: Taste,
    rng: &'a mut Rng,
}

impl Maker<'_> {
    fn call(&mut self, at: usize, tools: &mut Vec<Json>) -> Json {
        if self.places.code && (!self.places.functions || self.rng.bool()) {
            let code = self.text();
            let id = self.id("", at);
            return object! { "id" => id, "type" => "code_interpreter", "code_interpreter" => object! { "input" => code } }
                .into();
        }
        let name = self.name(at);
        let id = self.id(&name, at);
        let mut arguments = Object::new();
        let mut properties = Object::new();
        for _ in 0..[0, 1, 1, 2, 2, 3, 5][self.rng.usize(..7)] {
            let key = self.key();
            let value = self.value(3);
            properties.insert(key.as_str(), object! { "type" => type_of(&value) }.into());
            arguments.insert(key, value);
        }
        let parameters = object! { "type" => "object", "properties" => properties };
        let function = object! { "name" => name.as_str(), "description" => "a tool", "parameters" => parameters };
        tools.push(object! { "type" => "function", "function" => function }.into());
        let function = object! { "name" => name, "arguments" => arguments };
        object! { "id" => id, "type" => "function", "function" => function }.into()
    }

    /// Makes an id as the family writes it.
    fn id(&mut self, name: &str, at: usize) -> String {
        if let Some(id) = self.places.call_ids.id_of(name, at) {
            return id;
        }
        if self.places.names_in_ids {
            return format!("functions.{name}:{at}");
        }
        (0..9).map(|_| self.rng.alphanumeric()).collect()
    }

    /// Makes a function's name. Calls have different names because their tools differ.
    fn name(&mut self, at: usize) -> String {
        let words = ["get_weather", "f", "search", "saveNote", "run_2", "ping", "Add", "look_up_everything_there_is"];
        let mut name = words[self.rng.usize(..words.len())].to_owned();
        if at > 0 {
            name.push_str(&format!("_{at}"));
        }
        name
    }

    fn key(&mut self) -> String {
        let words = ["city", "days", "x", "a_b", "unit2", "Path", "query", "_private", "name", "arguments", "id"];
        let free = ["a key", "k-1", "ключ", "a.b", "\"", "", "0"];
        match self.places.free_names && self.rng.u8(..4) == 0 {
            true => free[self.rng.usize(..free.len())].to_owned(),
            false => words[self.rng.usize(..words.len())].to_owned(),
        }
    }

    fn value(&mut self, depth: usize) -> Json {
        match self.rng.u8(..if depth == 0 { 9 } else { 12 }) {
            0 => Json::Null,
            1 => Json::Bool(self.rng.bool()),
            2 | 3 => {
                let spellings = ["0", "7", "-3", "42", "1.5", "-0.25", "12345678901234567890123", "1000000.0"];
                Json::Number(
                    Number::from_spelling(spellings[self.rng.usize(..spellings.len())]).expect("each is a JSON number"),
                )
            }
            4 => Json::from(["", "true", "None", "12", "{}", "[1]", "null", "\"q\"", "1.0"][self.rng.usize(..9)]),
            5..=8 => Json::String(self.text()),
            9 | 10 => Json::Object((0..self.rng.usize(..4)).map(|_| (self.key(), self.value(depth - 1))).collect()),
            _ => Json::Array((0..self.rng.usize(..4)).map(|_| self.value(depth - 1)).collect()),
        }
    }

    /// Makes a text without white space at its ends, which several families remove.
    fn text(&mut self) -> String {
        for _ in 0..20 {
            let text = match self.taste {
                Taste::Hostile => generate::hostile(self.marks, self.rng),
                Taste::Honest => self.words(),
            };
            let text = text.trim_matches(codec::is_python_space).to_owned();
            if !text.is_empty() && (self.taste == Taste::Hostile || !self.spells_a_mark(&text)) {
                return text;
            }
        }
        "plain words".to_owned()
    }

    fn words(&mut self) -> String {
        let words = [
            "Hello",
            "the",
            "answer",
            "is 7",
            "a < b",
            "x > y && z",
            "<b>",
            "</p>",
            "{}",
            "x[0]",
            "it's",
            "\"quoted\"",
            "back\\slash",
            "C:\\new",
            "line\nbreak",
            "para\n\ngraph",
            "tab\tbed",
            "größer",
            "日本語",
            "👍🏽",
            "e\u{301}",
            "|",
            "<|",
            "|>",
            "<",
            "</",
            "f(x=1)",
            "key: value",
            "100%",
            "`code`",
            "```",
            "$5",
            "#",
            "a,b",
            "#!",
            "'",
            "\"",
            "null",
            "-",
            "=",
            "\u{a0}",
            "\u{200b}",
            "end.",
        ];
        let mut text = String::new();
        for at in 0..self.rng.usize(1..7) {
            let word = words[self.rng.usize(..words.len())];
            // At the start, a bracket could open a call if calls have no opening marker.
            if at == 0 && !word.starts_with(char::is_alphabetic) {
                text.push('w');
            }
            text.push_str(word);
            text.push_str([" ", " ", " ", "", "\n"][self.rng.usize(..5)]);
        }
        text
    }

    fn spells_a_mark(&self, text: &str) -> bool {
        self.marks.iter().filter(|mark| is_telling(mark)).any(|mark| text.contains(mark.as_str()))
    }
}

/// Reports whether a marker is more than brackets, quotes and commas, which any text may contain.
fn is_telling(mark: &str) -> bool {
    mark.len() > 2 && !mark.chars().all(|c| "{}[]()\"':,= \n".contains(c))
}

/// Returns the schema type of a value.
fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.spelling().contains(['.', 'e', 'E']) => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}
