//! Planning of a prompt: the layouts that a conversation needs, their order, and the content of
//! each.

mod calls;
mod extent;
mod in_order;
mod pairs;
mod places;
mod raw;
mod state;
mod systems;
mod texts;

use rolecall_conversation::{Message, Part, Place, Role, Tool};
use rolecall_format::{Field, Format, Layout, Slot, ToolTexts, ToolsPlace, TurnsRule};

use calls::Calls;
use pairs::OpenQuestion;

pub(crate) use extent::Extent;
pub(crate) use state::{PlanState, Progress, Replacement};

use crate::error::TOOL_TEXT_HELP;
use crate::options::{OptionValues, SPELLING};
use crate::role::Speakers;
use crate::task::Task;
use crate::window::Window;
use crate::{Dropped, Error, RuleMode};

/// The turns of a prompt in order, and the content that has no place in it.
pub(crate) struct Plan<'a> {
    pub messages: Window<'a>,
    /// The tools that the conversation offers.
    pub tools: &'a [Tool],
    pub turns: Vec<Turn<'a>>,
    pub dropped: Vec<Dropped>,
    /// Whether the conversation offers the code interpreter.
    pub interpreter: bool,
    /// The raw model outputs of the history, each parsed into the fields of the assistant's layout.
    pub readings: Vec<Vec<(Field, &'a str)>>,
    /// The user messages that precede each answer and are joined into one turn.
    pub asked: Vec<Vec<usize>>,
    /// The system text that is folded into the turn whose `folds` is set.
    pub folded: Option<SystemText<'a>>,
    /// The texts before and after the gap, if the model is to fill one.
    pub gap: Option<(&'a str, &'a str)>,
    /// The hole of the last turn after which the prompt ends.
    pub cut: Option<Field>,
    /// The approximate size of the prompt in bytes.
    pub bytes: usize,
    /// Whether the model is to continue the prompt.
    pub open: bool,
    /// Whether any turn of the prompt prints tools.
    pub prints_tools: bool,
    /// The number of turns that belong to the settled messages, and the state after them, if a
    /// longer conversation can be planned from it.
    pub settled: Option<(usize, PlanState)>,
}

impl<'a> Plan<'a> {
    /// Creates a plan without turns.
    pub fn new(task: &Task<'a>) -> Plan<'a> {
        let tools = task.frame.tools.as_deref().unwrap_or_default();
        Plan {
            messages: task.messages,
            tools,
            asked: Vec::new(),
            folded: None,
            gap: None,
            cut: None,
            turns: Vec::with_capacity(task.messages.len() + 4),
            dropped: Vec::new(),
            interpreter: tools.contains(&Tool::CodeInterpreter),
            readings: Vec::new(),
            bytes: 0,
            open: false,
            prints_tools: false,
            settled: None,
        }
    }
}

/// A layout with the content that fills it. A conversation has many turns and each is read once, so
/// whatever only a few of them need is in the plan.
pub(crate) struct Turn<'a> {
    pub layout: &'a Layout,
    pub slot: Slot,
    pub what: What<'a>,
    /// The number of user turns so far.
    pub round: usize,
    /// Whether the plan's system text is folded into the turn.
    pub folds: bool,
    /// The tools that this turn prints.
    pub tools: PrintedTools,
}

/// The tools that a turn prints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrintedTools {
    Nothing,
    /// The tools that the conversation offers.
    OfConversation,
    /// The tools that the turn's own message offers.
    OfMessage,
}

/// The content of a turn.
#[derive(Clone, Copy)]
pub(crate) enum What<'a> {
    /// A message.
    Message(usize, &'a Message),
    /// A message that has only a role and this text.
    Plain(usize, &'a str),
    /// A system text that the format adds.
    Added(&'a str),
    /// The text of the option with this index, as a system text.
    Chosen(usize),
    /// The format's system template with this index.
    Template(usize),
    /// Several user messages as one turn: their index in the plan's `asked`, and the first of them.
    Asked(usize, Option<usize>),
    /// The text of a message, with the plan's gap in it.
    Gap(usize),
    /// A message's raw model output: the index of the message, and its index in the plan's
    /// `readings`.
    Raw(usize, usize),
    /// Tool results: the index of the first message, and their number.
    Results(usize, usize),
    /// Files of a user message.
    Files(usize, &'a Message),
    /// No content other than the tools that the conversation offers.
    Nothing,
}

impl What<'_> {
    /// Returns the index of the message that the turn belongs to.
    #[inline]
    pub fn message(&self) -> Option<usize> {
        match self {
            What::Message(index, _)
            | What::Plain(index, _)
            | What::Raw(index, _)
            | What::Results(index, _)
            | What::Files(index, _)
            | What::Gap(index) => Some(*index),
            What::Asked(_, first) => *first,
            What::Added(_) | What::Chosen(_) | What::Template(_) | What::Nothing => None,
        }
    }
}

/// A system text that is folded into the first user turn.
#[derive(Clone, Copy)]
pub(crate) enum SystemText<'a> {
    /// The text of a message.
    Message(usize, &'a Message),
    /// A text that the format adds.
    Added(&'a str),
}

/// Tools and the message that offers them, or `None` if the conversation itself offers them.
#[derive(Clone, Copy)]
pub(crate) struct Offer<'a> {
    pub tools: &'a [Tool],
    pub message: Option<usize>,
}

impl Offer<'_> {
    /// Returns the position of one of the tools.
    pub fn place(&self, tool: usize) -> Place {
        Place { message: self.message, field: format!("tools[{tool}]").into() }
    }
}

/// Adds to a plan the turns of a conversation, or of the rest of one whose first messages have been
/// planned.
pub(crate) fn plan_turns<'a>(
    task: &Task<'a>,
    extent: &Extent,
    speakers: Speakers<'a>,
    chosen: &OptionValues<'_>,
    planned: Option<&PlanState>,
    plan: &mut Plan<'a>,
) -> Result<(), Error> {
    let mut planner = Planner::new(task, speakers, chosen, plan);
    match planned {
        Some(state) => planner.resume(state),
        None => {
            if planner.add_text_alone(chosen)? {
                planner.check_rest()?;
                if task.frame.continue_final_message {
                    planner.cut()?;
                }
                return Ok(());
            }
            planner.open(extent, chosen)?;
        }
    }
    planner.leave_out_unanswered(extent);
    if let Some(settled) = extent.settled {
        planner.add_messages(settled, extent.written)?;
        planner.plan.settled = planner.state().map(|state| (planner.plan.turns.len(), state));
    }
    planner.add_messages(extent.written, extent.written)?;
    planner.close()?;
    planner.plan.prints_tools = planner.prints_tools();
    Ok(())
}

struct Planner<'p, 'a> {
    task: &'p Task<'a>,
    format: &'a Format,
    strict: bool,
    speakers: Speakers<'a>,
    plan: &'p mut Plan<'a>,
    /// The index of the next message to plan.
    next: usize,
    progress: Progress,
    /// The calls so far, if the format tells the interpreter's results apart.
    calls: Option<Box<Calls<'a>>>,
    /// The messages since the last answer, if only pairs are written.
    asked: OpenQuestion<'a>,
    folded: Option<SystemText<'a>>,
    /// A system message that the format refuses. This is an error only if any turn is written.
    refused: Option<usize>,
    /// Whether the turns that offer tools have been written.
    offered: bool,
    /// Whether content is raw model output in messages that have `function_call`.
    raw_calls: bool,
}

impl<'p, 'a> Planner<'p, 'a> {
    fn new(
        task: &'p Task<'a>,
        speakers: Speakers<'a>,
        chosen: &OptionValues<'_>,
        plan: &'p mut Plan<'a>,
    ) -> Planner<'p, 'a> {
        // Of a format that writes no tools, the tools are refused together.
        let texts = || task.format.rules.tool_texts == ToolTexts::Written || !writes_tools(task.format);
        let offers = plan.tools.iter().any(|tool| match tool {
            Tool::Function { .. } => true,
            Tool::Text(_) => texts(),
            Tool::CodeInterpreter => false,
        });
        Planner {
            task,
            format: task.format,
            strict: task.options.rules == RuleMode::Enforce,
            speakers,
            plan,
            next: task.messages.start(),
            progress: Progress { offers, ..Progress::default() },
            calls: None,
            asked: OpenQuestion::default(),
            folded: None,
            refused: None,
            offered: false,
            raw_calls: chosen.value(task.format, "function-call") == Some("raw"),
        }
    }

    /// Adds what comes before the first message that does not open the conversation.
    fn open(&mut self, extent: &Extent, chosen: &OptionValues<'_>) -> Result<(), Error> {
        if self.format.rules.turns == TurnsRule::Answered {
            return Ok(());
        }
        self.bare(Slot::Begin);
        if self.format.rules.tools == ToolsPlace::BeforeSystem {
            self.add_tool_turns();
        }
        self.add_systems(extent, chosen)?;
        // If no system message came that the tool turns would follow, they go here.
        self.add_tool_turns();
        self.next = extent.first;
        Ok(())
    }

    /// Adds the turns of the messages up to one with this index. Of all messages, those up to
    /// `written` are written.
    fn add_messages(&mut self, end: usize, written: usize) -> Result<(), Error> {
        match self.format.rules.turns {
            TurnsRule::Answered => self.add_pairs(end),
            _ => self.add_in_order(end, written),
        }
    }

    /// Adds the turns that offer the code interpreter and the tools, unless already added.
    fn add_tool_turns(&mut self) {
        if std::mem::replace(&mut self.offered, true) {
            return;
        }
        if self.plan.interpreter && self.format.defaults.interpreter.is_some() {
            self.bare(Slot::ToolsInterpreter);
        }
        if self.format.layout(Slot::Tools).is_some() && std::mem::take(&mut self.progress.offers) {
            self.plan.bytes += 400 * self.plan.tools.len();
            self.bare(Slot::Tools);
            if let Some(turn) = self.plan.turns.last_mut() {
                turn.tools = PrintedTools::OfConversation;
            }
        }
    }

    /// Checks that a turn announces the code interpreter. Otherwise, refuses it, or records that
    /// another text took the place of the announcement.
    fn check_interpreter(&mut self) -> Result<(), Error> {
        if !self.plan.interpreter {
            return Ok(());
        }
        let said = self.progress.says_interpreter || self.announces();
        if said && self.format.defaults.interpreter.is_some() {
            return Ok(());
        }
        let tools = self.task.frame.tools.iter().flatten();
        let index = tools.take_while(|tool| **tool != Tool::CodeInterpreter).count();
        let place = Place::field(format!("tools[{index}]"));
        if self.format.defaults.interpreter.is_none() {
            return self.no_place(place, "a code interpreter", "remove the tool, or use a format that has one");
        }
        self.plan.dropped.push(Dropped {
            place,
            why: "the system message takes the place of its announcement",
            by_design: false,
        });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        self.leave_out_asked();
        self.check_rest()?;
        if self.speakers.stop_inside(self.task) {
            self.plan.open = true;
            return self.cut();
        }
        self.plan.open = self.speakers.generates(self.task);
        self.bare(if self.plan.open { Slot::Generate } else { Slot::End });
        Ok(())
    }

    /// Checks the rest of the conversation outside its messages that no turn has written.
    fn check_rest(&mut self) -> Result<(), Error> {
        let conversation = self.task.frame;
        self.check_interpreter()?;
        if self.progress.offers {
            let help = "remove the tools, or use a format that has a place for them";
            self.no_place(Place::field("tools"), "tools", help)?;
        } else if self.format.rules.tool_texts == ToolTexts::Refused {
            let texts = self.plan.tools.iter().enumerate().filter(|(_, tool)| matches!(tool, Tool::Text(_)));
            for (index, _) in texts {
                self.no_place(Place::field(format!("tools[{index}]")), "a tool that is a text", TOOL_TEXT_HELP)?;
            }
        }
        if self.folded.is_some() {
            let help = "add a user message: the system text is written inside it";
            self.no_place(Place::message(0, "content"), "a system message without a user message", help)?;
        }
        if conversation.documents.as_ref().is_some_and(|documents| !documents.is_empty()) {
            let help = "put the documents' text into a message";
            self.no_place(Place::field("documents"), "documents", help)?;
        }
        for (name, _) in conversation.template_kwargs.iter() {
            let is_spelling = name == SPELLING && !self.format.spellings().is_empty();
            if !is_spelling && !self.format.choices.iter().any(|choice| choice.name == name) {
                let place = Place::field(format!("chat_template_kwargs.{name}"));
                self.plan.dropped.push(Dropped { place, why: "the format has no such option", by_design: false });
            }
        }
        Ok(())
    }

    /// Ends the prompt after the last message's content.
    fn cut(&mut self) -> Result<(), Error> {
        let index = self.task.messages.end().saturating_sub(1);
        let nothing = |what| Err(Error::NothingToContinue { message: index, what });
        let Some(message) = self.task.messages.last() else { return nothing("there is no message") };
        if *self.speakers.roles.of(message) != Role::Assistant {
            return nothing("the last message is not an assistant message");
        }
        let calls = message.calls().len() > 0;
        if calls && self.task.frame.continue_final_message {
            return nothing("its calls are complete");
        }
        if self.plan.turns.last().is_some_and(|turn| turn.slot == Slot::AssistantAfter) {
            self.plan.turns.pop();
        }
        if !calls && self.plan.turns.last().is_some_and(|turn| self.says_more(turn.layout, message)) {
            return nothing("the part after its text is complete");
        }
        match self.plan.turns.last() {
            Some(turn) if calls && turn.layout.prints(Field::Calls) => self.plan.cut = Some(Field::Calls),
            Some(turn) if turn.layout.prints(Field::Content) => self.plan.cut = Some(Field::Content),
            _ => return nothing("the format does not print its text"),
        }
        Ok(())
    }

    fn bare(&mut self, slot: Slot) {
        self.turn(slot, slot, What::Nothing, 0);
    }

    /// Adds a turn with the layout of `slot`, or else of `fallback`. If the format has neither,
    /// adds nothing.
    fn turn(&mut self, slot: Slot, fallback: Slot, what: What<'a>, bytes: usize) {
        let layout = self.format.layout(slot).or_else(|| self.format.layout(fallback));
        let Some(layout) = layout else { return };
        let mut tools = PrintedTools::Nothing;
        if self.progress.offers && (layout.prints(Field::Tools) || layout.prints(Field::Functions)) {
            self.progress.offers = false;
            self.plan.bytes += 400 * self.plan.tools.len();
            tools = PrintedTools::OfConversation;
        }
        self.plan.bytes += bytes + layout.constant_bytes();
        self.plan.turns.push(Turn { layout, slot: fallback, what, round: self.progress.round, folds: false, tools });
    }

    /// Adds a turn that consists of a layout and a message's text.
    #[inline]
    fn plain_turn(&mut self, layout: &'a Layout, slot: Slot, index: usize, text: &'a str) {
        self.plan.bytes += text.len() + layout.constant_bytes();
        let (what, round) = (What::Plain(index, text), self.progress.round);
        self.plan.turns.push(Turn { layout, slot, what, round, folds: false, tools: PrintedTools::Nothing });
    }

    /// Adds a message's turn, by a shortcut if only the message's text can be part of it.
    #[inline]
    fn message(&mut self, slot: Slot, fallback: Slot, index: usize, message: &'a Message) -> Result<(), Error> {
        let layout = self.format.layout(slot).or_else(|| self.format.layout(fallback));
        match (layout, message.plain_text()) {
            (Some(layout), Some(text))
                if layout.plain().is_some() && !self.progress.offers && self.folded.is_none() =>
            {
                self.plain_turn(layout, fallback, index, text);
                return Ok(());
            }
            _ => {}
        }
        self.any_message(slot, fallback, index, message)
    }

    fn any_message(&mut self, slot: Slot, fallback: Slot, index: usize, message: &'a Message) -> Result<(), Error> {
        let Some(layout) = self.format.layout(slot).or_else(|| self.format.layout(fallback)) else {
            let what = match self.speakers.roles.of(message) {
                Role::Tool => "results of tools",
                _ => "messages of this role",
            };
            return self.no_place(
                Place::message(index, "role"),
                what,
                "remove the message, or use a format that has a place for it",
            );
        };
        self.check_layout(layout, Field::Content, index, message)?;
        let folded = match fallback {
            Slot::User => self.folded.take(),
            _ => None,
        };
        self.turn(slot, fallback, What::Message(index, message), size_of_content(message));
        let Some(turn) = self.plan.turns.last_mut() else { return Ok(()) };
        if folded.is_some() {
            turn.folds = true;
            self.plan.folded = folded;
        }
        if message.tools().is_some() && (layout.prints(Field::Tools) || layout.prints(Field::Functions)) {
            self.progress.offers |= turn.tools == PrintedTools::OfConversation;
            turn.tools = PrintedTools::OfMessage;
        }
        Ok(())
    }
}

/// Reports whether a format has a place for tools.
fn writes_tools(format: &Format) -> bool {
    Slot::ALL
        .into_iter()
        .filter_map(|slot| format.layout(slot))
        .any(|layout| layout.prints(Field::Tools) || layout.prints(Field::Functions))
}

fn size_of_content(message: &Message) -> usize {
    if let Some(text) = message.plain_text() {
        return text.len();
    }
    message.parts().map(|part| if let Part::Text(text) = part { text.len() } else { 40 }).sum::<usize>()
        + 100 * message.calls().len()
}
