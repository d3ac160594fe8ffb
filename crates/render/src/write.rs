//! Filling of a plan's layouts, with an origin for every byte.

mod calls;
mod files;
mod messages;
mod scene;
mod tools;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use rolecall_conversation::{Call, Content, Json, Message, Part, Place, json};
use rolecall_format::codec::{JsonStyle, attribute, is_python_space};
use rolecall_format::{Codec, ControlId, Field, Format, Generation, Op, Slot, Step, sources};
use rolecall_text::{Source, Text};

use scene::Scene;

use crate::account::LazyAccount;
use crate::call_ids::{IdState, RenamedIds};
use crate::options::OptionValues;
use crate::origin::Origins;
use crate::plan::{Offer, Plan, Turn, What};
use crate::task::Task;
use crate::window::Window;
use crate::{Bos, Error, Origin, Prompt, prompt};

/// The maximum number of bytes of line breaks and spaces that indent JSON in one prompt. Lists
/// nested 200 deep need a thousand of them per byte of input.
const MOST_INDENTATION: usize = 16 << 20;

/// What writing knows of the text before the turns to write.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteState {
    /// The number of bytes.
    pub bytes: usize,
    /// The bytes of indentation among them.
    indentation: usize,
    /// The number of calls in the messages that have been written.
    calls: usize,
    /// The ids of these calls, if any of them got a new one.
    ids: Option<Arc<IdState>>,
}

impl WriteState {
    /// Reports whether a message has an id that was generated for the call of an earlier one.
    pub fn meets(&self, message: &Message) -> bool {
        self.ids.as_ref().is_some_and(|ids| ids.meets(message))
    }
}

/// Writes the turns of a plan after the text that `earlier` describes. If messages and their turns
/// are settled, given by where they end, `later` becomes the state after them.
pub(crate) fn write_prompt(
    plan: &mut Plan<'_>,
    task: &Task<'_>,
    chosen: &OptionValues<'_>,
    settled: Option<(usize, usize)>,
    earlier: Option<&WriteState>,
    later: &mut Option<WriteState>,
) -> Result<Prompt, Error> {
    let (format, bos, dropped) = (task.format, task.options.bos, std::mem::take(&mut plan.dropped));
    let plan = &*plan;
    let nothing = WriteState::default();
    let written = earlier.unwrap_or(&nothing);
    let mut ids = written.ids.clone();
    let renamed =
        RenamedIds::of(plan.messages, &format.rules.call_ids, &mut ids, settled.map(|(messages, _)| messages));
    let mut writer = PromptWriter {
        format,
        bos,
        usual: bos == Bos::Write && chosen.spelling.is_none(),
        begins: written.bytes == 0,
        chosen,
        interpreter: plan.interpreter,
        offered: plan.prints_tools,
        origins: Origins::with_capacity(plan.turns.len() + 8),
        readings: &plan.readings,
        messages: plan.messages,
        asked: &plan.asked,
        renamed,
        counted: (plan.messages.start(), written.calls),
        earlier_calls: written.calls,
        turns: Vec::with_capacity(plan.turns.len()),
        indentation: written.indentation,
        names_as_tokens: Vec::new(),
        refused: None,
    };
    let mut text = Text::with_capacity(plan.bytes + 16, plan.turns.len() * 6);
    let (all, mut next) = (plan.turns.len(), 0);
    if let Some((message, turns)) = settled {
        next = turns.min(all);
        if writer.turns(plan, 0, next, &mut text).is_continue() {
            let calls = writer.calls_before(message);
            *later =
                Some(WriteState { bytes: written.bytes + text.len(), indentation: writer.indentation, calls, ids });
        }
    }
    // A turn that stops is the last one.
    let _ = writer.turns(plan, next, all, &mut text);
    if let Some(error) = writer.refused {
        return Err(error);
    }
    writer.drop_empty(text.len());
    writer.names_as_tokens.sort_unstable();
    let generation = match plan.gap.is_some() {
        true => Arc::new(Generation { stop: format.generation.infill_stop.clone(), ..(*format.generation).clone() }),
        false => Arc::clone(&format.generation),
    };
    Ok(Prompt {
        template: None,
        turns: writer.turns,
        text,
        origins: writer.origins,
        controls: Arc::clone(&format.controls),
        generation,
        dropped,
        names_as_tokens: writer.names_as_tokens,
        account: LazyAccount::default(),
        unusual: chosen.unusual(format),
        open: plan.open,
        generated: Vec::new(),
    })
}

struct PromptWriter<'a> {
    format: &'a Format,
    bos: Bos,
    /// Whether the opening tokens are written and all tokens have the usual spelling, so that
    /// precomputed constants apply.
    usual: bool,
    /// Whether no text precedes that of the first turn.
    begins: bool,
    chosen: &'a OptionValues<'a>,
    /// Whether any turn prints the tools.
    offered: bool,
    /// Whether the conversation offers the code interpreter.
    interpreter: bool,
    origins: Origins,
    readings: &'a [Vec<(Field, &'a str)>],
    messages: Window<'a>,
    asked: &'a [Vec<usize>],
    /// The new ids of calls whose ids do not follow the format's rule.
    renamed: RenamedIds,
    /// A message, and the number of calls before it.
    counted: (usize, usize),
    /// The number of calls in messages that were written before.
    earlier_calls: usize,
    turns: Vec<prompt::Turn>,
    /// The bytes of indentation written so far.
    indentation: usize,
    /// The messages whose name is written as a control token.
    names_as_tokens: Vec<usize>,
    /// The error of a value that cannot be printed.
    refused: Option<Error>,
}

impl<'a> PromptWriter<'a> {
    /// Writes turns of the plan. Stops after the content of a turn that is to be continued.
    fn turns(&mut self, plan: &Plan<'_>, from: usize, to: usize, text: &mut Text) -> ControlFlow<()> {
        let uncut = to.min(plan.turns.len() - usize::from(plan.cut.is_some()));
        let mut at = from;
        loop {
            at += self.plain_turns(plan.turns.get(at..uncut).unwrap_or_default(), text);
            let Some(turn) = plan.turns.get(at).filter(|_| at < to) else { return ControlFlow::Continue(()) };
            at += 1;
            let cut = plan.cut.filter(|_| at == plan.turns.len());
            self.begin(turn.slot, turn.what.message(), text.len());
            let scene = Scene::of_turn(plan, turn, cut);
            self.steps(turn.layout.steps(), &scene, text)?;
        }
    }

    /// Returns the number of calls in the messages before one.
    fn calls_before(&mut self, message: usize) -> usize {
        // Turns are written in the order of their messages.
        if message < self.counted.0 {
            self.counted = (self.messages.start(), self.earlier_calls);
        }
        let (counted, calls) = self.counted;
        self.counted = (message, calls + self.messages.count_calls(counted, message));
        self.counted.1
    }

    /// Writes into a text of its own, before which there is none.
    fn apart(&mut self, write: impl FnOnce(&mut Self, &mut Text)) -> Text {
        let mut text = Text::new();
        let begins = std::mem::replace(&mut self.begins, true);
        write(self, &mut text);
        self.begins = begins;
        text
    }

    /// Counts the indentation of a value, and reports whether the total stays within the limit.
    fn may_indent(&mut self, style: &JsonStyle, value: &Json, levels: usize, place: impl FnOnce() -> Place) -> bool {
        self.indentation = self.indentation.saturating_add(style.indentation(value, levels));
        let may = self.indentation <= MOST_INDENTATION;
        if !may && self.refused.is_none() {
            self.refused = Some(Error::Indentation { place: place(), most: MOST_INDENTATION });
        }
        may
    }

    /// Records that a turn begins at this byte.
    #[inline]
    fn begin(&mut self, slot: Slot, message: Option<usize>, start: usize) {
        self.drop_empty(start);
        self.turns.push(prompt::Turn { start, slot, message });
    }

    /// Removes the last turn if it wrote nothing before this byte, unless it is a reply.
    #[inline]
    fn drop_empty(&mut self, end: usize) {
        if self.turns.last().is_some_and(|last| last.start == end && !last.is_reply()) {
            self.turns.pop();
        }
    }

    /// Writes consecutive turns of the most common kind: constants around the text of a message
    /// that has nothing else. Returns the number of turns.
    #[inline(never)]
    fn plain_turns(&mut self, turns: &[Turn<'_>], out: &mut Text) -> usize {
        if !self.usual {
            return 0;
        }
        for (at, turn) in turns.iter().enumerate() {
            let What::Plain(index, text) = turn.what else { return at };
            let Some(plain) = turn.layout.plain() else { return at };
            self.begin(turn.slot, Some(index), out.len());
            let text = if plain.trims { text.trim_matches(is_python_space) } else { text };
            out.append_joining(&plain.before, sources::FORMAT);
            out.push(text, self.content_source(index));
            out.append_joining(&plain.after, sources::FORMAT);
        }
        turns.len()
    }

    /// Writes steps in order. Stops after the content of a turn that is to be continued.
    fn steps(&mut self, steps: &[Step], scene: &Scene<'_>, out: &mut Text) -> ControlFlow<()> {
        for step in steps {
            match step {
                Step::Constant { text, .. } if self.usual => out.append_joining(text, sources::FORMAT),
                Step::Constant { ops, .. } => self.constants(ops, out),
                Step::Group { holes, steps } => {
                    if holes.iter().all(|(field, codec)| self.has(*field, codec, scene)) {
                        self.steps(steps, scene, out)?;
                    }
                }
                Step::Hole { field, codec } => {
                    self.hole(*field, codec, scene, out);
                    let cut = scene.cut == Some(*field);
                    // The layout around the calls is written to its end.
                    if cut && !scene.around_calls {
                        return ControlFlow::Break(());
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Writes constants one by one if BOS is omitted or a token has an unusual spelling.
    fn constants(&self, ops: &[Op], out: &mut Text) {
        for op in ops {
            match op {
                Op::Literal(text) => out.push(text, sources::FORMAT),
                // A tokenizer that adds the opening tokens adds them before everything else.
                Op::Control(id)
                    if self.bos == Bos::LeaveToTokenizer
                        && self.begins
                        && out.is_empty()
                        && self.format.control(*id).bos => {}
                Op::Control(id) => self.control(*id, out),
                Op::Seam => out.push_apart("", sources::SEAM),
                Op::Hole { .. } | Op::Group(_) | Op::Own(_) => {}
            }
        }
    }

    fn control(&self, id: ControlId, out: &mut Text) {
        out.push_apart(self.format.control(id).spelling(self.chosen.spelling), sources::control(id));
    }

    /// Reports whether a hole has a value. The manual defines this for each hole.
    fn has(&self, field: Field, codec: &Codec, scene: &Scene<'_>) -> bool {
        let message = scene.message().map(|(_, message)| message);
        let filled = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
        if let Some((_, reading)) = scene.raw() {
            return filled(self.raw_value(reading, field));
        }
        match field {
            Field::Content => match scene.turn.what {
                What::Added(text) => !text.is_empty(),
                What::Template(_) => true,
                What::Chosen(at) => self.has(Field::Option(at), codec, scene),
                What::Asked(number, _) => {
                    self.messages.those(&self.asked[number]).any(|(_, message)| has_text(message))
                }
                _ => message.is_some_and(has_text),
            },
            Field::Name if scene.call.is_some() || scene.tool_name.is_some() => true,
            Field::Name if matches!(codec, Codec::Enumerated) => {
                let name = message.and_then(Message::name);
                self.format.control_names.iter().any(|(known, _)| Some(known.as_str()) == name)
            }
            Field::Name => filled(message.and_then(Message::name)),
            Field::Reasoning => filled(message.and_then(Message::reasoning_content)),
            Field::Calls => message.is_some_and(|message| message.calls().len() > 0),
            Field::System => scene.folded().is_some(),
            Field::Tools | Field::Functions if matches!(codec, Codec::Present) => self.offered,
            Field::Tools | Field::Functions => scene.offer().is_some(),
            Field::Id => match scene.call {
                Some((at, call)) => self.call_id(scene, at, call).is_some(),
                None => filled(message.and_then(Message::tool_call_id)),
            },
            Field::Path => matches!(scene.part, Some((_, _, Part::File(file))) if file.path().is_some()),
            Field::Size => matches!(scene.part, Some((_, _, Part::File(file))) if file.size().is_some()),
            Field::Option(at) => self.chosen.values.get(at).is_some_and(|(value, _)| !value.is_empty()),
            Field::Extra(at) => filled(message.and_then(|message| message.text_field(&self.format.fields[at].0))),
            Field::Interpreter if !self.interpreter => false,
            Field::Interpreter => match self.format.defaults.interpreter_option {
                Some(at) => self.has(Field::Option(at), codec, scene),
                None => self.format.defaults.interpreter.is_some(),
            },
            Field::Description => scene.description.is_some(),
            // Arguments written one by one are present only if there are any. Arguments written as
            // one value are always present.
            Field::Arguments if matches!(codec, Codec::Text) => {
                scene.call.is_some_and(|(_, call)| calls::has_arguments(call))
            }
            Field::Prefix | Field::Suffix => matches!(scene.turn.what, What::Gap(_)),
            Field::Round
            | Field::Index
            | Field::Tool
            | Field::Function
            | Field::Call
            | Field::Arguments
            | Field::Key
            | Field::Value
            | Field::Type
            | Field::Code
            | Field::Results
            | Field::Folded
            | Field::Files => true,
        }
    }

    fn hole(&mut self, field: Field, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        if let Some((message, reading)) = scene.raw() {
            if let Some(text) = self.raw_value(reading, field) {
                let source = self.content_source(message);
                out.push(text, source);
            }
            return;
        }
        match field {
            _ if matches!(codec, Codec::Present) => {}
            Field::Content => self.content(codec, scene, out),
            Field::Name => self.name(codec, scene, out),
            Field::Reasoning => self.message_text(scene, "reasoning_content", Message::reasoning_content, codec, out),
            Field::Round => out.push(&scene.turn.round.to_string(), sources::FORMAT),
            Field::Calls => self.calls(scene, out),
            Field::System => self.system(scene, out),
            Field::Tools | Field::Functions => self.tools(field, codec, scene, out),
            Field::Tool | Field::Function => self.tool(field, codec, scene, out),
            Field::Interpreter => match self.format.defaults.interpreter_option {
                Some(at) => self.hole(Field::Option(at), codec, scene, out),
                None => out.push(self.format.defaults.interpreter.as_deref().unwrap_or_default(), sources::FORMAT),
            },
            Field::Call => self.call(codec, scene, out),
            Field::Arguments => self.arguments(codec, scene, out),
            Field::Key => self.key(codec, scene, out),
            Field::Value => self.value(codec, scene, out),
            Field::Type => self.kind(codec, scene, out),
            Field::Code => {
                if let Some((at, Call::CodeInterpreter { code, .. })) = scene.call {
                    let source = self.call_source(scene, at, "code_interpreter.input");
                    out.push(&calls::code_by(code, codec), source);
                }
            }
            Field::Id => self.id(codec, scene, out),
            Field::Index => {
                let index = scene.call.map(|(at, _)| at).or(scene.tool.map(|(at, _)| at)).unwrap_or(0);
                out.push(&(index + self.first_index(codec, scene)).to_string(), sources::FORMAT);
            }
            Field::Results => self.results(scene, out),
            Field::Folded => {
                if let Some(layout) = self.format.layout(Slot::Folded) {
                    let folded = self.apart(|writer, folded| {
                        let _ = writer.steps(layout.steps(), scene, folded);
                    });
                    out.append(&trimmed(folded, codec));
                }
            }
            Field::Files => self.files(scene, out),
            Field::Path | Field::Size => self.file_field(field, scene, out),
            Field::Description => out.push(scene.description.unwrap_or_default(), sources::FORMAT),
            Field::Prefix | Field::Suffix => {
                if let (What::Gap(index), Some((prefix, suffix))) = (scene.turn.what, scene.plan.gap) {
                    let source = self.content_source(index);
                    out.push(if field == Field::Prefix { prefix } else { suffix }, source);
                }
            }
            Field::Option(at) => {
                if let Some((value, given)) = self.chosen.values.get(at) {
                    let source = match given {
                        true => self.source(Origin::Option { name: self.format.choices[at].name.clone() }),
                        false => sources::FORMAT,
                    };
                    out.push(option_by(value, codec), source);
                }
            }
            Field::Extra(at) => {
                let name = self.format.fields[at].0.clone();
                if let Some((index, message)) = scene.message()
                    && let Some(text) = message.text_field(&name)
                {
                    let source = self.message_source(index, Cow::Owned(name));
                    out.push(text_by(text, codec), source);
                }
            }
        }
    }

    /// Writes the id of a call, or that of the call to which a message answers.
    fn id(&mut self, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        match scene.call {
            Some((at, call)) => {
                let source = self.call_source(scene, at, "id");
                out.push(self.call_id(scene, at, call).unwrap_or_default(), source);
            }
            None => match scene.message().and_then(|(index, _)| Some((index, self.renamed.answer(index)?))) {
                Some((index, id)) => {
                    let id = id.to_owned();
                    let source = self.message_source(index, Cow::Borrowed("tool_call_id"));
                    out.push(&id, source);
                }
                None => self.message_text(scene, "tool_call_id", Message::tool_call_id, codec, out),
            },
        }
    }

    /// Returns a call's id, in the form that the format requires.
    fn call_id<'s>(&'s self, scene: &Scene<'s>, at: usize, call: Call<'s>) -> Option<&'s str> {
        let message = scene.message().map_or(0, |(index, _)| index);
        self.renamed.call(message, at).or(call.id())
    }

    fn raw_value(&self, reading: usize, field: Field) -> Option<&'a str> {
        let values = self.readings.get(reading)?;
        values.iter().find(|(known, _)| *known == field).map(|(_, text)| *text)
    }

    fn results(&mut self, scene: &Scene<'_>, out: &mut Text) {
        let What::Results(first, count) = scene.turn.what else { return };
        let Some(layout) = self.format.layout(Slot::Tool) else { return };
        for (message, index) in scene.plan.messages.between(first, first + count).zip(first..) {
            // The first result began with the text around the whole group.
            if index > first {
                self.begin(Slot::Tool, Some(index), out.len());
            }
            let scene = Scene { result: Some((index, message)), ..*scene };
            let _ = self.steps(layout.steps(), &scene, out);
        }
    }

    fn source(&mut self, origin: Origin) -> Source {
        sources::beyond(self.format.controls.len(), self.origins.add(origin))
    }

    #[inline]
    fn content_source(&mut self, message: usize) -> Source {
        sources::beyond(self.format.controls.len(), self.origins.add_content(message))
    }

    fn message_source(&mut self, message: usize, field: Cow<'static, str>) -> Source {
        self.source(Origin::Message { message, field })
    }

    fn call_source(&mut self, scene: &Scene<'_>, at: usize, field: &str) -> Source {
        let message = scene.message().map_or(0, |(index, _)| index);
        self.message_source(message, Cow::Owned(format!("tool_calls[{at}].{field}")))
    }

    fn tool_source(&mut self, offer: Offer<'_>, at: usize) -> Source {
        match offer.message {
            Some(message) => self.message_source(message, Cow::Owned(format!("tools[{at}]"))),
            None => self.source(Origin::Tool { tool: at }),
        }
    }
}

/// Returns the part of an option's text before or after a name in braces. If the text does not
/// contain the name, all of it counts as before.
fn option_by<'t>(value: &'t str, codec: &Codec) -> &'t str {
    let split = |name: &str| {
        let mark = format!("{{{name}}}");
        value.find(&mark).map(|at| (&value[..at], &value[at + mark.len()..]))
    };
    match codec {
        Codec::Before(name) => split(name).map_or(value, |(before, _)| before),
        Codec::Behind(name) => split(name).map_or("", |(_, behind)| behind),
        codec => text_by(value, codec),
    }
}

fn has_text(message: &Message) -> bool {
    match message.content() {
        Content::None => false,
        Content::Text(text) => !text.is_empty(),
        Content::Parts(_) => message.parts().any(|part| part != Part::Text("")),
    }
}

fn text_by<'t>(text: &'t str, codec: &Codec) -> &'t str {
    match codec {
        Codec::Trim => text.trim_matches(is_python_space),
        Codec::Stem => text.split('.').next().unwrap_or_default(),
        _ => text,
    }
}

fn quoted_by<'t>(text: &'t str, codec: &Codec) -> Cow<'t, str> {
    match codec {
        Codec::Json(style) => {
            let mut quoted = String::new();
            json::write_string(&mut quoted, text, style.ascii);
            Cow::Owned(quoted)
        }
        Codec::Attribute => attribute::escape(text),
        _ => Cow::Borrowed(text),
    }
}

fn trimmed(text: Text, codec: &Codec) -> Text {
    match codec {
        Codec::Trim => text.trim_matches(is_python_space),
        _ => text,
    }
}
