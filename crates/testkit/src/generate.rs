//! Conversations for property tests: everything that a format allows, from a seed, with texts from
//! the caller.
//!
//! The input is a format, a seed and a function that returns the text for each [`Spot`]. The output
//! is a request in OpenAI's JSON, and options. [`hostile`] makes texts that spell control tokens,
//! [`harmless`] makes a text of the same shape without them, and [`shrink`] finds the smallest
//! request that still fails.

use std::borrow::Cow;

use fastrand::Rng;
use rolecall::Origin;
use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Number, Object};
use rolecall::conversation::{Conversation, Json, Message, object};
use rolecall::format::{Choice, Codec, Field, Format, Op, Registry, Slot};
use rolecall::render::{Options, RuleMode, render};

/// The option that asks for something other than a chat, and the layout for each of its values.
const CAPABILITY: &str = "capability";
const CAPABILITIES: [(&str, Slot); 3] =
    [("completion", Slot::Completion), ("python", Slot::Python), ("infilling", Slot::Infill)];

/// A place for a text in a generated conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// The origin that the text must have in a prompt.
    pub origin: Origin,
    /// Whether formats may drop the text without a note, such as ids that nothing prints.
    pub silent: bool,
}

/// A generated conversation.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The request, in the shape of OpenAI's API.
    pub request: Json,
    /// How to render it.
    pub options: Options,
}

/// Makes a conversation for a format. The same seed makes the same conversation if `text` returns
/// the same texts.
///
/// With [`RuleMode::Enforce`], the conversation keeps the format's rules and contains nothing that
/// the format refuses. With [`RuleMode::Reference`], any role may follow any other, and parts,
/// calls and tools occur even if the format has no place for them.
pub fn conversation(format: &Format, seed: u64, rules: RuleMode, text: &mut dyn FnMut(&Spot) -> String) -> Generated {
    let rng = Rng::with_seed(seed);
    let mut maker = Maker {
        format,
        rng,
        rules,
        text,
        alone: None,
        offered: false,
        messages: Vec::new(),
        ids: Vec::new(),
        ends_open: false,
    };
    maker.alone = maker.text_alone();
    let mut request = maker.offers();
    match (maker.alone, rules) {
        (Some(slot), _) => maker.one_text(slot),
        (None, RuleMode::Enforce) => maker.keep_the_rules(),
        (None, RuleMode::Reference) => maker.break_the_rules(),
    }
    let messages = std::mem::take(&mut maker.messages).into_iter().map(Json::Object).collect();
    request.insert("messages", Json::Array(messages));
    maker.close(&mut request);
    let options = maker.options();
    Generated { request: Json::Object(request), options }
}

/// Returns every format, and its training variant where it has one.
pub fn variants(registry: &Registry) -> Vec<&Format> {
    registry.iter().flat_map(|format| std::iter::once(format).chain(format.training.as_deref())).collect()
}

/// Returns the label of a format in failures.
pub fn label(format: &Format) -> String {
    match format.rules.turns.key() {
        "answered" | "paired" => format!("{} (training)", format.name),
        _ if format.rules.learned => format!("{} (training)", format.name),
        _ => format.name.clone(),
    }
}

/// Makes a hostile text from a format's [`marks`]: whole, cut, doubled, in upper case, next to
/// quotes and line breaks.
pub fn hostile(marks: &[String], rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(1..4) {
        let plain = ["a", " ", "\n", "\"", "\\", "'", "{", "}}", "é", "👍🏽", "\u{a0}", "```", "null", "\t"];
        let mark = match marks.is_empty() {
            true => "<|im_end|>",
            false => marks[rng.usize(..marks.len())].as_str(),
        };
        let borders: Vec<usize> = mark.char_indices().map(|(at, _)| at).chain([mark.len()]).collect();
        let cut = borders[rng.usize(..borders.len())];
        match rng.u8(..10) {
            0..=3 => text.push_str(mark),
            4 => text.push_str(&mark[..cut]),
            5 => text.push_str(&mark[cut..]),
            6 => text.push_str(&mark.repeat(2)),
            7 => text.push_str(&mark.to_uppercase()),
            8 => text.extend([&mark[..cut], mark, &mark[cut..]]),
            _ => text.push_str(plain[rng.usize(..plain.len())]),
        }
        if rng.u8(..4) == 0 {
            text.push_str(plain[rng.usize(..plain.len())]);
        }
    }
    text
}

/// Replaces all characters except digits and white space with the letter h, so that the text spells
/// nothing.
pub fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c) || c.is_ascii_digit() { c } else { 'h' })
        .collect()
}

/// Returns the texts that could pass for the format's own: control tokens in every spelling, plain
/// markers, literal text.
pub fn marks(format: &Format) -> Vec<String> {
    let mut marks: Vec<String> =
        format.controls.iter().flat_map(|control| control.texts().map(str::to_owned)).collect();
    marks.extend(format.plain_marks.iter().cloned());
    for slot in Slot::ALL {
        collect_literals(format.layout(slot).map_or(&[], |layout| layout.ops()), &mut marks);
    }
    marks.sort();
    marks.dedup();
    marks
}

fn collect_literals(ops: &[Op], marks: &mut Vec<String>) {
    for op in ops {
        match op {
            Op::Literal(text) => {
                marks.extend(Some(text.trim().to_owned()).filter(|text| !text.is_empty() && text.len() < 60))
            }
            Op::Group(inner) => collect_literals(inner, marks),
            Op::Control(_) | Op::Hole { .. } | Op::Seam | Op::Own(_) => {}
        }
    }
}

/// Makes a JSON value of any kind. `text` supplies its strings and keys.
pub fn value(rng: &mut Rng, depth: usize, text: &mut dyn FnMut(&mut Rng) -> String) -> Json {
    match rng.u8(..if depth == 0 { 6 } else { 9 }) {
        0 => Json::Null,
        1 => Json::Bool(rng.bool()),
        2 | 3 => Json::Number(number(rng)),
        4 | 5 => Json::String(text(rng)),
        6 | 7 => Json::Object((0..rng.usize(..4)).map(|_| (text(rng), value(rng, depth - 1, text))).collect()),
        _ => Json::Array((0..rng.usize(..4)).map(|_| value(rng, depth - 1, text)).collect()),
    }
}

/// Returns a number in one of many spellings.
pub fn number(rng: &mut Rng) -> Number {
    let spellings = ["0", "-0", "1.0", "1e5", "1E+05", "-0.5e-3", "12345678901234567890123", "3.1400", "0.0", "7"];
    let spelling = spellings[rng.usize(..spellings.len())];
    Number::from_spelling(spelling).expect("each is a JSON number")
}

/// Removes everything from a failing value that it still fails without. The value must fail to
/// begin with.
pub fn shrink(failing: &Json, fails: impl Fn(&Json) -> bool) -> Json {
    let mut smallest = failing.clone();
    let mut tries = 3_000;
    loop {
        let mut smaller = false;
        let mut number = 0;
        while let Some(candidate) = without(&smallest, &mut number.clone()) {
            tries -= 1;
            if tries == 0 {
                return smallest;
            }
            match fails(&candidate) {
                true => {
                    smallest = candidate;
                    smaller = true;
                }
                false => number += 1,
            }
        }
        if !smaller {
            return smallest;
        }
    }
}

/// Returns the value without its n-th element or key, counted through all levels, or `None` past
/// the last one.
fn without(value: &Json, n: &mut usize) -> Option<Json> {
    match value {
        Json::Array(items) => {
            for at in 0..items.len() {
                if *n == 0 {
                    let mut items = items.clone();
                    items.remove(at);
                    return Some(Json::Array(items));
                }
                *n -= 1;
                if let Some(smaller) = without(&items[at], n) {
                    let mut items = items.clone();
                    items[at] = smaller;
                    return Some(Json::Array(items));
                }
            }
            None
        }
        Json::Object(object) => {
            for (key, inner) in object.iter() {
                if *n == 0 {
                    let mut object = object.clone();
                    object.remove(key);
                    return Some(Json::Object(object));
                }
                *n -= 1;
                if let Some(smaller) = without(inner, n) {
                    let mut object = object.clone();
                    object.insert(key, smaller);
                    return Some(Json::Object(object));
                }
            }
            None
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

/// The content that a message should have.
#[derive(Clone, Copy)]
enum Wanted {
    /// Any form, or none.
    Any,
    /// A list of parts.
    Parts,
    /// Nothing that would be printed.
    Nothing,
}

struct Maker<'a> {
    format: &'a Format,
    rng: Rng,
    rules: RuleMode,
    text: &'a mut dyn FnMut(&Spot) -> String,
    /// The layout of a single text, if no conversation is wanted.
    alone: Option<Slot>,
    /// Whether the request offers tools.
    offered: bool,
    messages: Vec<Object>,
    /// The ids of the last message's calls, if they have any.
    ids: Vec<Option<String>>,
    /// Whether the last message can be continued.
    ends_open: bool,
}

impl Maker<'_> {
    /// Chooses one of the format's layouts for a single text, or `None` to make a conversation.
    fn text_alone(&mut self) -> Option<Slot> {
        let has_layout = |slot: &Slot| self.format.layout(*slot).is_some();
        let slots: Vec<Slot> =
            CAPABILITIES.iter().map(|(_, slot)| *slot).filter(|slot| has_layout(slot) && self.may_ask(*slot)).collect();
        (!slots.is_empty() && self.chance(4)).then(|| slots[self.rng.usize(..slots.len())])
    }

    /// Reports whether the option `capability` may ask for this layout.
    fn may_ask(&self, slot: Slot) -> bool {
        let choice = self.format.choices.iter().find(|choice| choice.name == CAPABILITY);
        let word = capability_of(slot);
        choice.is_some_and(|choice| choice.values.is_empty() || choice.values.iter().any(|value| value == word))
    }

    /// Adds a user message of one text, or of one text on each side of a gap.
    fn one_text(&mut self, slot: Slot) {
        let mut content = self.in_message("content", false);
        if let Some(gap) = self.format.defaults.gap.as_ref().filter(|_| slot == Slot::Infill) {
            content.push_str(gap);
            content.push_str(&self.in_message("content", false));
        }
        let mut message = object! { "role" => "user", "content" => content };
        if self.chance(4) {
            let name = self.in_message("name", false);
            message.insert("name", name.into());
        }
        self.messages.push(message);
    }

    fn keep_the_rules(&mut self) {
        let rules = &self.format.rules;
        let (system, turns, users) = (rules.system.key(), rules.turns.key(), rules.users.key());
        let required = rules.answers.key() == "required";
        let (blank, answered) = (rules.blank_system.key(), turns == "answered");
        let written = [Slot::System, Slot::Folded].into_iter().any(|slot| self.format.layout(slot).is_some());
        let system = if written { system } else { "none" };
        let systems = match system {
            "none" | "refused" => 0,
            "first" | "fold" => self.rng.usize(..2),
            _ => self.rng.usize(..3),
        };
        for _ in 0..systems {
            self.system();
        }
        if systems == 0 && blank != "keep" && self.chance(3) {
            self.blank_system(if blank == "skip-spaces" { "  " } else { "" });
        }
        if answered && self.chance(4) {
            // Before any user message.
            self.assistant(false);
        }
        let rounds = self.rng.usize(1..4);
        for round in 1..=rounds {
            if system == "anywhere" && round > 1 && self.chance(4) {
                self.system();
            }
            self.user();
            if (turns == "any" || answered) && users == "any" && self.chance(5) {
                if answered && system == "anywhere" && self.rng.bool() {
                    self.system();
                }
                self.user();
            }
            if round == rounds && self.chance(3) {
                return;
            }
            let calls = self.can_call() && self.chance(2);
            self.assistant(calls);
            if calls {
                let answered = self.ids.len();
                let answered = if required { answered } else { self.rng.usize(..=answered) };
                self.results(answered);
                if answered > 0 && self.chance(2) {
                    self.assistant(false);
                }
            } else if answered && self.chance(5) {
                self.assistant(false);
            }
        }
    }

    fn break_the_rules(&mut self) {
        let speaks = |usual| !own_roles(self.format, usual).is_empty();
        let [system, assistant, tool] = ["system", "assistant", "tool"].map(speaks);
        let system = system && self.format.rules.system.key() != "refused";
        for _ in 0..self.rng.usize(1..6) {
            match self.rng.u8(..4) {
                0 if system => self.system(),
                2 if assistant => {
                    let calls = self.rng.bool();
                    self.assistant(calls);
                }
                3 if tool => self.results(1),
                _ => self.user(),
            }
        }
        self.ends_open = false;
    }

    fn system(&mut self) {
        let slots =
            if self.messages.is_empty() { [Slot::SystemFirst, Slot::System] } else { [Slot::System, Slot::System] };
        let slot = self.first_of(&slots);
        let mut message = self.message("system", &["developer"], slot, Wanted::Any);
        if self.chance(3) {
            let known = self.format.control_names.len();
            let name = match self.chance(2) && known > 0 {
                true => self.format.control_names[self.rng.usize(..known)].0.clone(),
                false => self.in_message("name", false),
            };
            message.insert("name", name.into());
        }
        let prints = ["tools", "functions"].into_iter().any(|hole| self.prints(slot, hole));
        if (prints && !self.offered || self.rules == RuleMode::Reference) && self.chance(4) {
            let tools = (0..self.rng.usize(1..3)).map(|at| {
                self.tool(&Origin::Message { message: self.messages.len(), field: Cow::Owned(format!("tools[{at}]")) })
            });
            let tools: Vec<Json> = tools.collect();
            message.insert("tools", Json::Array(tools));
        }
        self.messages.push(message);
        self.ends_open = false;
    }

    /// Adds a system message that counts as absent.
    fn blank_system(&mut self, content: &str) {
        let mut message = object! { "role" => "system", "content" => content };
        if self.chance(3) {
            let name = self.in_message("name", false);
            message.insert("name", name.into());
        }
        self.messages.push(message);
    }

    fn user(&mut self) {
        let files = [Slot::File, Slot::PartFile].into_iter().any(|slot| self.format.layout(slot).is_some());
        let files = (files || self.rules == RuleMode::Reference) && self.chance(3);
        let mut message = self.message("user", &[], Slot::User, if files { Wanted::Parts } else { Wanted::Any });
        if self.chance(3) {
            let name = self.in_message("name", false);
            message.insert("name", name.into());
        }
        if files {
            let mut parts = match message.remove("content") {
                Some(Json::Array(parts)) => parts,
                _ => Vec::new(),
            };
            for _ in 0..self.rng.usize(1..3) {
                let part = self.file(parts.len());
                parts.push(part);
            }
            message.insert("content", Json::Array(parts));
        }
        self.messages.push(message);
        self.ends_open = false;
    }

    fn assistant(&mut self, calls: bool) {
        let slot = match calls {
            true => self.first_of(&[Slot::AssistantWithCalls, Slot::Assistant]),
            false => Slot::Assistant,
        };
        let silent = calls && !self.prints(slot, "content") && self.rules == RuleMode::Enforce;
        let mut message = self.message("assistant", &[], slot, if silent { Wanted::Nothing } else { Wanted::Any });
        self.ids.clear();
        if calls {
            let most = self.format.rules.max_calls.filter(|_| self.rules == RuleMode::Enforce).unwrap_or(3);
            let calls = (0..self.rng.usize(1..=most)).map(|at| self.call(at)).collect();
            message.insert("tool_calls", Json::Array(calls));
        }
        for field in ["name", "reasoning_content"] {
            if self.chance(5) {
                let text = self.in_message(field, false);
                message.insert(field, text.into());
            }
        }
        self.ends_open = !calls && !says_more(self.format, slot, &message);
        self.messages.push(message);
    }

    fn results(&mut self, count: usize) {
        for at in 0..count {
            let mut message =
                self.message("tool", &["environment", "observation", "function", "ipython"], Slot::Tool, Wanted::Any);
            if let Some(Some(id)) = self.ids.get(at).cloned()
                && self.rng.bool()
            {
                message.insert("tool_call_id", id.into());
            }
            if self.chance(3) {
                let name = match self.rng.u8(..3) {
                    0 => "interpreter".to_owned(),
                    1 => "code_interpreter".to_owned(),
                    _ => self.in_message("name", true),
                };
                message.insert("name", name.into());
            }
            self.messages.push(message);
        }
        self.ends_open &= count == 0;
    }

    /// Makes a message with a role, content and the family's own fields.
    fn message(&mut self, usual: &str, aliases: &[&str], slot: Slot, wanted: Wanted) -> Object {
        let names: Vec<String> = match self.rules {
            RuleMode::Enforce => {
                let names = aliases.iter().copied().chain([usual]);
                names.filter(|name| !self.is_anothers(name, usual)).map(str::to_owned).collect()
            }
            RuleMode::Reference => own_roles(self.format, usual),
        };
        let role = names[self.rng.usize(..names.len())].as_str();
        let mut message = object! { "role" => role };
        if let Some(content) = self.content(slot, wanted) {
            message.insert("content", content);
        }
        for at in 0..self.format.fields.len() {
            if self.chance(3) {
                let name = self.format.fields[at].0.clone();
                let text = self.in_header(&name);
                message.insert(name, text.into());
            }
        }
        message
    }

    /// Returns a text for a message's header, in one line if the format's rules require it.
    fn in_header(&mut self, field: &str) -> String {
        let text = self.in_message(field, false);
        match self.rules == RuleMode::Enforce && self.format.rules.header.key() == "one-line" {
            true => text.replace(['\n', '\r'], " "),
            false => text,
        }
    }

    /// Reports whether the maker's own code uses this name for another role.
    fn is_anothers(&self, name: &str, usual: &str) -> bool {
        self.format.roles.iter().any(|(known, own)| known != usual && own.iter().any(|own| own == name))
    }

    fn content(&mut self, slot: Slot, wanted: Wanted) -> Option<Json> {
        let kind = match wanted {
            Wanted::Any => self.rng.u8(..12),
            Wanted::Parts => 3,
            Wanted::Nothing => self.rng.u8(..3),
        };
        match kind {
            0 => None,
            1 => Some(Json::Null),
            2 => Some(Json::from("")),
            3..=5 => {
                let quoted = self.quotes_content(slot);
                let mut parts = Vec::new();
                for at in 0..self.rng.usize(..4) {
                    let field = if quoted { "content".to_owned() } else { format!("content[{at}]") };
                    let text = self.in_message(&field, false);
                    parts.push(match self.rng.u8(..4) {
                        0 => Json::from(text),
                        1 if self.rules == RuleMode::Reference => self.file(at),
                        2 if self.rules == RuleMode::Reference => {
                            object! { "type" => "image_url", "image_url" => object! { "url" => text } }.into()
                        }
                        _ => object! { "type" => "text", "text" => text }.into(),
                    });
                }
                Some(Json::Array(parts))
            }
            _ => Some(self.in_message("content", false).into()),
        }
    }

    fn file(&mut self, at: usize) -> Json {
        let field = format!("content[{at}]");
        let mut file = object! { "path" => self.in_message(&field, false) };
        match self.rng.u8(..3) {
            0 => file.insert("size", Json::from(self.rng.i64(1..9_000))),
            1 => {
                let size = self.in_message(&field, false);
                file.insert("size", size.into());
            }
            _ => {}
        }
        object! { "type" => "file", "file" => file }.into()
    }

    fn call(&mut self, at: usize) -> Json {
        let mut call = Object::new();
        let id = self.rng.bool().then(|| self.in_message(&format!("tool_calls[{at}].id"), true));
        if let Some(id) = &id {
            call.insert("id", id.as_str().into());
        }
        self.ids.push(id);
        let interpreter = self.format.layout(Slot::CallInterpreter).is_some() || self.rules == RuleMode::Reference;
        let functions = self.format.layout(Slot::Call).is_some() || self.rules == RuleMode::Reference;
        if interpreter && (!functions || self.chance(3)) {
            let code = self.in_message(&format!("tool_calls[{at}].code_interpreter.input"), false);
            call.insert("type", "code_interpreter".into());
            call.insert("code_interpreter", object! { "input" => code }.into());
            return call.into();
        }
        let mut function = object! { "name" => self.in_header(&format!("tool_calls[{at}].function.name")) };
        match self.rng.u8(..8) {
            0 => {}
            1 => function.insert("arguments", Json::Null),
            2 => function.insert("arguments", "".into()),
            3..=4 => {
                let layout = if self.rng.bool() { Layout::compact() } else { Layout::indented(2) };
                let arguments = self.arguments(at);
                function.insert("arguments", json::write(&arguments, &layout).into());
            }
            _ => {
                let arguments = self.arguments(at);
                function.insert("arguments", arguments);
            }
        }
        if self.chance(3) {
            // Without the wrapper `function`.
            call.insert("name", function.get("name").cloned().unwrap_or(Json::Null));
            if let Some(arguments) = function.remove("arguments") {
                call.insert("arguments", arguments);
            }
            return call.into();
        }
        call.insert("type", "function".into());
        call.insert("function", function.into());
        call.into()
    }

    fn arguments(&mut self, call: usize) -> Json {
        let field = format!("tool_calls[{call}].function.arguments");
        let mut rng = self.rng.fork();
        let entries = (0..rng.usize(..4)).map(|_| {
            let key = self.in_message(&field, false);
            (key, value(&mut rng, 2, &mut |_| self.in_message(&field, false)))
        });
        Json::Object(entries.collect())
    }

    fn tool(&mut self, origin: &Origin) -> Json {
        let mut text = || (self.text)(&Spot { origin: origin.clone(), silent: false });
        let property = object! {
            "type" => "string", "description" => text(), "enum" => vec![Json::from(text()), Json::from(text())],
        };
        let key = text();
        let mut properties = Object::new();
        properties.insert(key.as_str(), property.into());
        let mut parameters = object! { "type" => "object", "properties" => properties };
        parameters.insert(text(), Json::Number(number(&mut self.rng.fork())));
        let mut function = object! { "name" => text(), "description" => text(), "parameters" => parameters };
        let other = text();
        function.insert("strict", self.rng.bool().into());
        function.insert("note", other.into());
        match self.rng.u8(..3) {
            0 => function.into(),
            _ => object! { "type" => "function", "function" => function }.into(),
        }
    }

    /// Makes a request with tools and documents but no messages.
    fn offers(&mut self) -> Object {
        let mut request = Object::new();
        let free = self.rules == RuleMode::Reference;
        if self.alone.is_some() && !free {
            return request;
        }
        let mut tools = Vec::new();
        let printed =
            Slot::ALL.into_iter().any(|slot| ["tools", "functions"].into_iter().any(|hole| self.prints(slot, hole)));
        if (printed || free) && self.chance(2) {
            for at in 0..self.rng.usize(1..3) {
                tools.push(self.tool(&Origin::Tool { tool: at }));
            }
            self.offered = true;
        }
        if (self.format.defaults.interpreter.is_some() || free) && self.chance(3) {
            // The interpreter may be the only thing to call; then nothing here may call a function.
            if tools.is_empty() && !free && self.format.rules.interpreter_field.is_some() {
                tools.push(self.tool(&Origin::Tool { tool: 0 }));
                self.offered = true;
            }
            tools.push(object! { "type" => "code_interpreter" }.into());
        }
        if !tools.is_empty() || self.chance(8) {
            request.insert("tools", Json::Array(tools));
        }
        if free && self.chance(4) {
            let text = (self.text)(&Spot { origin: Origin::Format, silent: true });
            request.insert("documents", Json::Array(vec![object! { "title" => text.as_str(), "text" => text }.into()]));
        }
        request
    }

    /// Sets the end of the prompt and the switches.
    fn close(&mut self, request: &mut Object) {
        match self.rng.u8(..4) {
            0 => request.insert("add_generation_prompt", self.rng.bool().into()),
            1 if self.ends_open => request.insert("continue_final_message", true.into()),
            _ => {}
        }
        let mut switches = Object::new();
        for choice in &self.format.choices {
            if self.rng.u8(..4) == 0 {
                let value = self.choose(choice);
                switches.insert(choice.name.as_str(), value.into());
            }
        }
        if self.chance(4) {
            let mut text = || (self.text)(&Spot { origin: Origin::Format, silent: true });
            let key = text();
            switches.insert(key, text().into());
        }
        if !switches.is_empty() {
            request.insert("chat_template_kwargs", switches.into());
        }
    }

    fn options(&mut self) -> Options {
        let mut options = Options { rules: self.rules, ..Options::default() };
        for choice in &self.format.choices {
            let is_asked = choice.name == CAPABILITY && self.alone.is_some();
            if is_asked || self.rng.u8(..4) == 0 {
                let value = self.choose(choice);
                options.choices.push((choice.name.clone(), value));
            }
        }
        let spellings = self.format.spellings();
        if !spellings.is_empty() && self.rng.bool() {
            options.choices.push(("spelling".to_owned(), spellings[self.rng.usize(..spellings.len())].to_owned()));
        }
        options
    }

    fn choose(&mut self, choice: &Choice) -> String {
        // If a switch and an option have the same name, the option wins and the switch is not
        // printed.
        let mut text = || (self.text)(&Spot { origin: Origin::Option { name: choice.name.clone() }, silent: true });
        if choice.name == CAPABILITY {
            return match self.alone {
                Some(slot) => capability_of(slot).to_owned(),
                // If the option takes any value, every unknown value asks for a chat.
                None if choice.values.is_empty() && self.rng.bool() => text(),
                None => "chat".to_owned(),
            };
        }
        match choice.values.as_slice() {
            [] => match split_mark(self.format, choice).filter(|_| self.rng.bool()) {
                Some(mark) => [text(), mark, text()].concat(),
                None => text(),
            },
            values => values[self.rng.usize(..values.len())].clone(),
        }
    }

    /// Returns a text for the message under construction.
    fn in_message(&mut self, field: &str, silent: bool) -> String {
        let origin = Origin::Message { message: self.messages.len(), field: Cow::Owned(field.to_owned()) };
        (self.text)(&Spot { origin, silent })
    }

    fn chance(&mut self, one_in: u8) -> bool {
        self.rng.u8(..one_in) == 0
    }

    fn can_call(&self) -> bool {
        self.format.layout(Slot::Call).is_some() || self.format.layout(Slot::CallInterpreter).is_some()
    }

    fn first_of(&self, slots: &[Slot]) -> Slot {
        let there = slots.iter().find(|slot| self.format.layout(**slot).is_some());
        there.or(slots.last()).copied().unwrap_or(Slot::User)
    }

    fn prints(&self, slot: Slot, hole: &str) -> bool {
        self.format.layout(slot).is_some_and(|layout| has_hole(layout.ops(), hole, &|codec| *codec != Codec::Present))
    }

    fn quotes_content(&self, slot: Slot) -> bool {
        let quotes = |codec: &Codec| matches!(codec, Codec::Json(_));
        self.format.layout(slot).is_some_and(|layout| has_hole(layout.ops(), "content", &quotes))
    }
}

/// Returns the marker that splits an option's text in two, if some layout writes the two parts
/// separately.
pub fn split_mark(format: &Format, choice: &Choice) -> Option<String> {
    let at = format.choices.iter().position(|known| known == choice)?;
    fn among(ops: &[Op], at: usize) -> Option<String> {
        ops.iter().find_map(|op| match op {
            Op::Hole { field: Field::Option(number), codec: Codec::Before(name), .. } if *number == at => {
                Some(format!("{{{name}}}"))
            }
            Op::Group(inner) => among(inner, at),
            _ => None,
        })
    }
    Slot::ALL.into_iter().find_map(|slot| among(format.layout(slot)?.ops(), at))
}

/// Reports whether a message has a field of the family's own after its text. Such a message is
/// complete.
pub fn says_more(format: &Format, slot: Slot, message: &Object) -> bool {
    let behind = format.layout(slot).map_or(Vec::new(), |layout| fields_behind(layout.ops()));
    behind.iter().any(|field| match field {
        Field::Extra(at) => message.get(&format.fields[*at].0).is_some(),
        _ => false,
    })
}

/// Returns the holes after a message's text.
fn fields_behind(ops: &[Op]) -> Vec<Field> {
    fn collect(ops: &[Op], fields: &mut Vec<Field>) {
        for op in ops {
            match op {
                Op::Hole { field, .. } => fields.push(*field),
                Op::Group(inner) => collect(inner, fields),
                Op::Literal(_) | Op::Control(_) | Op::Seam | Op::Own(_) => {}
            }
        }
    }
    let mut fields = Vec::new();
    collect(ops, &mut fields);
    let content = fields.iter().position(|field| *field == Field::Content);
    content.map_or(Vec::new(), |content| fields.split_off(content + 1))
}

/// Returns the option's value that asks for this layout.
fn capability_of(slot: Slot) -> &'static str {
    CAPABILITIES.iter().find(|(_, known)| *known == slot).map_or("chat", |(word, _)| word)
}

/// Returns the maker's names of a role that are accepted under reference rules.
fn own_roles(format: &Format, usual: &str) -> Vec<String> {
    let options = Options { rules: RuleMode::Reference, ..Options::default() };
    let accepted = |name: &&str| {
        let message = Message::from_object(object! { "role" => *name, "content" => "" }).expect("a role and a content");
        !matches!(render(&Conversation::new(vec![message]), format, &options), Err(error) if error.code() == "unknown_role")
    };
    format.role_names(usual).into_iter().filter(accepted).map(str::to_owned).collect()
}

fn has_hole(ops: &[Op], name: &str, good: &dyn Fn(&Codec) -> bool) -> bool {
    ops.iter().any(|op| match op {
        Op::Hole { field, codec, .. } => field.name() == name && good(codec),
        Op::Group(inner) => has_hole(inner, name, good),
        Op::Literal(_) | Op::Control(_) | Op::Seam | Op::Own(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_failing_value_is_found() {
        let value = json::parse(r#"{"a": [1, {"b": "x", "c": [2, 3]}], "d": null}"#).unwrap();
        let fails = |value: &Json| json::write(value, &Layout::compact()).contains('3');
        let smallest = shrink(&value, fails);
        assert_eq!(json::write(&smallest, &Layout::compact()), r#"{"a":[{"c":[3]}]}"#);
    }

    #[test]
    fn harmless_texts_have_the_same_shape() {
        assert_eq!(harmless(" <|im_end|>7\né"), " hhhhhhhhhh7\nh");
    }
}
