//! Renders short conversations through a template and cuts out the assistant's turn.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::{Conversation, Json, Message, Tool, object};
use rolecall_render::{
    ChatTemplate, DateTime, Error, Forms, IdForm, Origin, ProbeBudget, Prompt, TemplateOptions, WantedCalls, Writer,
};
use rolecall_text::common_prefix;

use crate::Limits;
use crate::marker;
use crate::said::{ASKED, IDS, KEYS, NAMES, ProbeMessage};
use crate::sequence::{Cuts, items};

/// An arbitrary day, for templates that write the date.
const NOON: DateTime = DateTime { year: 2024, month: 7, day: 26, hour: 12, minute: 0, second: 0, microsecond: 0 };

/// The surroundings of the assistant's turn in a probe.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stage {
    pub tools: Tools,
    pub switches: Object,
    /// The value of the content if there is none.
    pub no_content: NoContent,
    /// Whether tool results follow the calls, for templates that require them.
    pub results: bool,
    /// Whether contents are lists of parts, for templates that accept nothing else.
    pub parts: bool,
    /// Whether there is a document to answer from, for templates that require one.
    pub documents: bool,
}

impl Stage {
    /// Returns the same surroundings without the tools, or with tools if there were none.
    pub fn with_other_tools(&self) -> Stage {
        Stage { tools: self.tools.other(), ..self.clone() }
    }

    /// Returns the same surroundings with a single tool, if there are tools.
    pub fn with_one_tool(&self) -> Stage {
        let tools = if self.tools == Tools::None { Tools::None } else { Tools::One };
        Stage { tools, ..self.clone() }
    }
}

/// The tools that are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tools {
    #[default]
    None,
    /// The first one.
    One,
    All,
}

impl Tools {
    /// Returns none if there are some, and all otherwise.
    pub fn other(self) -> Tools {
        if self == Tools::None { Tools::All } else { Tools::None }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NoContent {
    #[default]
    Empty,
    Null,
}

/// The usual name of the reasoning of a message. Templates that read `thinking` get it too.
const REASONING_KEY: &str = "reasoning_content";

pub(crate) struct Probe<'t> {
    template: &'t ChatTemplate,
    writer: Writer,
    limits: Limits,
    budget: ProbeBudget,
    rendered: Cell<usize>,
    pub wanted: WantedCalls,
    before: RefCell<HashMap<String, Result<Rc<String>, Refusal>>>,
    /// The name under which the template reads the reasoning of a message.
    reasoning_key: RefCell<String>,
}

/// The assistant's turn as a template writes it.
#[derive(Clone, Debug)]
pub(crate) struct ProbeTurn {
    pub text: String,
    /// The end of each piece in bytes, and whether the template itself wrote it.
    own: Vec<(usize, bool)>,
}

/// A model's output as a server gets it: what follows a prompt that ends with a generation prompt.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub prompt: Rc<String>,
    pub text: String,
}

/// The reason why a probe failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub words: String,
    pub line: Option<u32>,
    /// The error, if a limit was exceeded, as opposed to the template's own refusal.
    pub limit: Option<Box<Error>>,
}

impl<'t> Probe<'t> {
    pub fn new(template: &'t ChatTemplate, limits: Limits) -> Probe<'t> {
        let mut options = TemplateOptions { now: Some(NOON), forms: Forms::AsWanted, ..TemplateOptions::default() };
        options.limits.instructions = options.limits.instructions.min(limits.instructions);
        options.limits.output_bytes = options.limits.output_bytes.min(limits.output_bytes);
        let budget = ProbeBudget::new(limits.steps);
        // If this exceeds the budget, no budget is left for anything else.
        let wanted = template.wanted_calls_within(&budget).unwrap_or_default();
        Probe {
            template,
            writer: Writer::template(template.clone(), options),
            limits,
            budget,
            rendered: Cell::new(0),
            wanted,
            before: RefCell::default(),
            reasoning_key: RefCell::new(REASONING_KEY.to_owned()),
        }
    }

    /// Sets the name under which the template reads the reasoning of a message.
    pub fn name_reasoning(&self, key: &str) {
        key.clone_into(&mut self.reasoning_key.borrow_mut());
    }

    pub fn template(&self) -> &ChatTemplate {
        self.template
    }

    /// Returns the template's line that contains the first word of a text, if there is exactly one
    /// such line.
    pub fn line_of(&self, text: &str) -> Option<u32> {
        let words: Vec<char> = text.trim_start().chars().take_while(|c| !c.is_whitespace()).take(24).collect();
        let source = self.template.source();
        let at = (4..=words.len()).rev().find_map(|length| {
            let start: String = words[..length].iter().collect();
            let mut found = source.match_indices(start.as_str());
            found.next().filter(|_| found.next().is_none()).map(|(at, _)| at)
        });
        u32::try_from(source[..at?].matches('\n').count() + 1).ok()
    }

    /// Returns the id of a probe's call, in the form that the template expects.
    pub fn id(&self, at: usize, name: &str) -> String {
        match self.wanted.ids {
            Some(IdForm::FunctionAndNumber) => format!("functions.{name}:{at}"),
            _ => IDS[at % IDS.len()].to_owned(),
        }
    }

    /// Returns the message as the template reads it.
    fn template_message(&self, said: &ProbeMessage, stage: &Stage) -> Object {
        let key = self.reasoning_key.borrow();
        let own = |message: Object| {
            let renamed = message.iter().map(|(name, value)| {
                (if name == REASONING_KEY { key.to_string() } else { name.to_owned() }, value.clone())
            });
            renamed.collect()
        };
        let message = self.message(said, stage);
        if *key == REASONING_KEY { message } else { own(message) }
    }

    /// Returns the message as JSON.
    pub fn message(&self, said: &ProbeMessage, stage: &Stage) -> Object {
        let content = match (&said.content, stage.no_content) {
            (Some(text), _) => content(text, stage),
            (None, NoContent::Empty) => Json::from(""),
            (None, NoContent::Null) => Json::Null,
        };
        let mut message = object! { "role" => "assistant", "content" => content };
        if let Some(reasoning) = &said.reasoning {
            message.insert(REASONING_KEY, Json::from(reasoning.as_str()));
        }
        if !said.calls.is_empty() {
            let calls = said.calls.iter().enumerate().map(|(at, call)| {
                Json::Object(object! {
                    "id" => self.id(at, call.name),
                    "type" => "function",
                    "function" => Json::Object(object! {
                        "name" => call.name,
                        "arguments" => Json::Object(call.arguments.clone())
                    })
                })
            });
            message.insert("tool_calls", Json::Array(calls.collect()));
        }
        message
    }

    /// Renders the assistant's turn after a user's turn.
    pub fn turn(&self, said: &ProbeMessage, stage: &Stage) -> Result<ProbeTurn, Refusal> {
        self.turn_and_output(said, stage).map(|(turn, _)| turn)
    }

    /// Renders the assistant's turn after a user's turn. Returns the output that it stands for, too, if it continues
    /// the prompt and does not repeat it.
    pub fn turn_and_output(&self, said: &ProbeMessage, stage: &Stage) -> Result<(ProbeTurn, Option<Output>), Refusal> {
        let before = self.before(stage, false)?;
        let mut messages = vec![user(ASKED, stage), self.template_message(said, stage)];
        if stage.results {
            messages.extend(self.results(said));
        }
        let prompt = self.render(messages, stage, false)?;
        let text = prompt.text();
        let start = start_behind(text, &before);
        let end = match stage.results {
            true => {
                let result = prompt.turns().iter().find(|turn| turn.message == Some(2));
                result.map_or(text.len(), |turn| turn.start.max(start))
            }
            false => text.len(),
        };
        let output = self.before(stage, true).ok().and_then(|opened| {
            let output = text[..end].strip_prefix(opened.as_str())?;
            let repeats = output.contains(ASKED) || output.contains(DESCRIPTION);
            (!repeats).then(|| Output { prompt: opened, text: output.to_owned() })
        });
        Ok((self.cut(&prompt, start..end, 1)?, output))
    }

    /// Renders the assistant's turn after an earlier turn of the assistant, the results of its
    /// calls and another user's turn.
    pub fn later(&self, earlier: &ProbeMessage, said: &ProbeMessage, stage: &Stage) -> Result<ProbeTurn, Refusal> {
        let mut messages = vec![user(ASKED, stage), self.message(earlier, stage)];
        messages.extend(self.results(earlier));
        messages.push(user(ASKED, stage));
        let before = self.render(messages.clone(), stage, false)?.into_text();
        messages.push(self.message(said, stage));
        let number = messages.len() - 1;
        let prompt = self.render(messages, stage, false)?;
        let start = start_behind(prompt.text(), &before);
        self.cut(&prompt, start..prompt.text().len(), number)
    }

    fn results(&self, said: &ProbeMessage) -> impl Iterator<Item = Object> {
        said.calls.iter().enumerate().map(|(at, call)| {
            object! { "role" => "tool", "tool_call_id" => self.id(at, call.name), "name" => call.name, "content" => "Fimpo." }
        })
    }

    /// Cuts out the turn of the message with this number.
    fn cut(&self, prompt: &Prompt, range: Range<usize>, number: usize) -> Result<ProbeTurn, Refusal> {
        if range.len() > self.limits.turn_bytes {
            return Err(Refusal::new("the turn is too long"));
        }
        let start = range.start;
        let own = prompt.segments_in(range.clone()).map(|segment| {
            let is_own = match segment.origin {
                Origin::Message { message, .. } => message != number,
                _ => !segment.is_made,
            };
            (segment.start.max(start) + segment.text.len() - start, is_own)
        });
        let own = own.collect();
        Ok(ProbeTurn { text: prompt.text()[range].to_owned(), own })
    }

    /// Returns the text that ends a prompt with a generation prompt, and is missing in a prompt
    /// without one.
    pub fn opening(&self, stage: &Stage) -> Option<String> {
        let (closed, open) = (self.before(stage, false).ok()?, self.before(stage, true).ok()?);
        open.get(start_behind(&open, &closed)..).map(str::to_owned)
    }

    /// Returns the text that the template writes between the end of a turn and what follows: a user
    /// message, or a tool result.
    pub fn behind(&self, said: &ProbeMessage, last: &str, stage: &Stage) -> Option<String> {
        const NEXT: &str = "Kelmo zant?";
        let mut messages = vec![user(ASKED, stage), self.template_message(said, stage)];
        match said.calls.first() {
            None => messages.push(user(NEXT, stage)),
            Some(call) => messages.push(object! {
                "role" => "tool", "tool_call_id" => self.id(0, call.name), "name" => call.name, "content" => NEXT
            }),
        }
        let prompt = self.render(messages, stage, false).ok()?;
        let text = prompt.text();
        let start = text.rfind(last)? + last.len();
        let end = start + text.get(start..)?.find(NEXT)?;
        text.get(start..end).map(str::to_owned)
    }

    /// Reports whether the template writes the tools that are offered.
    pub fn offers_tools(&self, stage: &Stage) -> bool {
        let stage = Stage { tools: Tools::All, ..stage.clone() };
        self.before(&stage, true).is_ok_and(|text| text.contains(NAMES[0]))
    }

    /// Returns a prompt in which a user's turn follows the assistant's turn.
    pub fn earlier(&self, said: &ProbeMessage, stage: &Stage) -> Option<String> {
        let messages = vec![user(ASKED, stage), self.template_message(said, stage), user("Kelmo zant?", stage)];
        self.render(messages, stage, false).ok().map(Prompt::into_text)
    }

    /// Returns the prompt without the assistant's turn.
    fn before(&self, stage: &Stage, opened: bool) -> Result<Rc<String>, Refusal> {
        let switches = json::write(&Json::Object(stage.switches.clone()), &json::Layout::default());
        let Stage { tools, parts, documents, .. } = stage;
        let key = format!("{tools:?} {parts} {documents} {opened} {switches}");
        if let Some(known) = self.before.borrow().get(&key) {
            return known.clone();
        }
        let text = self.render(vec![user(ASKED, stage)], stage, opened).map(|prompt| Rc::new(prompt.into_text()));
        self.before.borrow_mut().insert(key, text.clone());
        text
    }

    fn render(&self, messages: Vec<Object>, stage: &Stage, opened: bool) -> Result<Prompt, Refusal> {
        self.rendered.set(self.rendered.get() + 1);
        let messages: Result<Vec<Message>, _> = messages.into_iter().map(Message::from_object).collect();
        let messages = messages.map_err(|error| Refusal::new(&error.to_string()))?;
        let mut conversation = Conversation::new(messages);
        conversation.add_generation_prompt = Some(opened);
        conversation.template_kwargs = stage.switches.clone();
        if stage.documents {
            let document = object! { "title" => "Obrik", "text" => "Tamsel und.", "doc_id" => 1 };
            conversation.documents = Some(vec![Json::Object(document)]);
        }
        let offered = match stage.tools {
            Tools::None => &[][..],
            Tools::One => &NAMES[..1],
            Tools::All => &NAMES[..],
        };
        if !offered.is_empty() {
            conversation.tools = Some(offered.iter().filter_map(|name| tool(name, &[])).collect());
        }
        let prompt = self.writer.probe(&conversation, &self.budget);
        prompt.map_err(|error| {
            let (words, line) = match &error {
                Error::Template { error, .. } => (error.message().to_owned(), Some(error.place().line)),
                other => (other.to_string(), None),
            };
            Refusal { words, line, limit: error.code().starts_with("limit-").then(|| Box::new(error)) }
        })
    }

    /// Returns the budget that all probes share.
    pub fn budget(&self) -> &ProbeBudget {
        &self.budget
    }

    pub fn renders(&self) -> usize {
        self.rendered.get()
    }
}

impl Refusal {
    pub fn new(words: &str) -> Refusal {
        Refusal { words: words.to_owned(), line: None, limit: None }
    }
}

impl ProbeTurn {
    /// Reports whether this range contains only the template's own text.
    pub fn is_own(&self, range: &Range<usize>) -> bool {
        // The pieces are in order. Check those from the first that ends after the range's start to
        // the last that begins before its end.
        let first = self.own.partition_point(|(end, _)| *end <= range.start);
        let mut start = first.checked_sub(1).map_or(0, |before| self.own[before].0);
        for (end, is_own) in &self.own[first..] {
            if start >= range.end {
                break;
            }
            if !is_own {
                return false;
            }
            start = *end;
        }
        true
    }

    /// Returns every position of a text that is not part of the template's own text.
    pub fn places(&self, text: &str) -> Vec<Range<usize>> {
        let found = self.text.match_indices(text).map(|(at, found)| at..at + found.len());
        found.filter(|range| !range.is_empty() && !self.is_own(range)).collect()
    }
}

fn user(text: &str, stage: &Stage) -> Object {
    object! { "role" => "user", "content" => content(text, stage) }
}

fn content(text: &str, stage: &Stage) -> Json {
    match stage.parts {
        true => Json::Array(vec![Json::Object(object! { "type" => "text", "text" => text })]),
        false => Json::from(text),
    }
}

/// What a tool of a probe does.
const DESCRIPTION: &str = "Does it.";

/// Builds a tool with these parameters, given by name and type, or with those of all probes if
/// there are none.
pub(crate) fn tool(name: &str, parameters: &[(&str, &str)]) -> Option<Tool> {
    let usual = KEYS.map(|key| (key, "string"));
    let parameters = if parameters.is_empty() { &usual[..] } else { parameters };
    let property = |kind: &str| Json::Object(object! { "type" => kind, "description" => "It." });
    let properties: Object = parameters.iter().map(|(key, kind)| ((*key).to_owned(), property(kind))).collect();
    let parameters =
        object! { "type" => "object", "properties" => Json::Object(properties), "required" => Json::Array(Vec::new()) };
    let function = object! { "name" => name, "description" => DESCRIPTION, "parameters" => Json::Object(parameters) };
    let wrapped = object! { "type" => "function", "function" => Json::Object(function) };
    Tool::from_json(Json::Object(wrapped)).ok()
}

/// Returns where the prompt continues after the user's turn, which is the end of `before`. The text
/// before the user's turn may differ, because some templates put a system text into the last turn.
fn start_behind(text: &str, before: &str) -> usize {
    match (text.rfind(ASKED), before.rfind(ASKED)) {
        (Some(at), Some(before_at)) => {
            let asked = at + ASKED.len();
            let (rest, rest_before) = (&text[asked..], &before[before_at + ASKED.len()..]);
            asked + start_of(rest, rest_before).max(user_end(&text[..at], rest))
        }
        _ => start_of(text, before),
    }
}

/// Returns the length of the closing marker that follows the user's text, if the marker that it
/// closes directly precedes the text. Some templates close the last turn differently.
fn user_end(before: &str, behind: &str) -> usize {
    let open = marker::last(before).filter(|open| before.trim_end().ends_with(open));
    let Some(close) = open.and_then(marker::closing) else { return 0 };
    let spaces = behind.len() - behind.trim_start().len();
    if behind[spaces..].starts_with(&close) { spaces + close.len() } else { 0 }
}

/// Returns the end of the common prefix of a prompt and another one, but not inside a marker.
fn start_of(text: &str, before: &str) -> usize {
    if text.starts_with(before) {
        return before.len();
    }
    let common = common_prefix(text, before);
    // The last line is enough to determine whether this is inside a marker.
    let line = text[..common].rfind('\n').map_or(0, |at| at + 1);
    let rest: String = text[line..].chars().take(400).collect();
    let within = text[line..common].chars().count();
    let cut = Cuts::of(&items(&rest)).at_most(within);
    line + text[line..].chars().take(cut).map(char::len_utf8).sum::<usize>()
}
