//! Planning of a prompt: the layouts that a conversation needs, their order, and the content of
//! each.

mod calls;
mod pairs;
mod places;
mod raw;
mod systems;
mod texts;

use rolecall_conversation::{Conversation, Message, Part, Place, Role, Tool};
use rolecall_format::{EndingRule, Field, Format, Layout, Slot, SystemRule, ToolsPlace, TurnsRule};

use calls::Calls;

use crate::options::Chosen;
use crate::order::refuse_system;
use crate::role::Speakers;
use crate::{Dropped, Error, RuleMode};

/// The turns of a prompt in order, and the content that has no place in it.
pub(crate) struct Plan<'a> {
    pub messages: &'a [Message],
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
    pub tools: Printed,
}

/// The tools that a turn prints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Printed {
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
    /// Tool results.
    Results(&'a [Message], usize),
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
            | What::Results(_, index)
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
        Place { message: self.message, field: format!("tools[{tool}]") }
    }
}

pub(crate) fn plan_turns<'a>(
    conversation: &'a Conversation,
    format: &'a Format,
    rules: RuleMode,
    speakers: Speakers<'a>,
    chosen: &Chosen<'_>,
) -> Result<Plan<'a>, Error> {
    let mut planner = Planner::new(conversation, format, rules, speakers, chosen);
    if planner.add_text_alone(conversation, chosen)? {
        planner.check_rest(conversation)?;
        if conversation.continue_final_message {
            planner.cut(conversation)?;
        }
        return Ok(planner.plan);
    }
    if format.rules.turns == TurnsRule::Answered {
        planner.add_pairs(conversation)?;
        planner.close(conversation)?;
        return Ok(planner.plan);
    }
    planner.bare(Slot::Begin);
    if format.rules.tools == ToolsPlace::BeforeSystem {
        planner.add_tool_turns();
    }
    let first = planner.add_systems(conversation, chosen)?;
    // If no system message came that the tool turns would follow, they go here.
    planner.add_tool_turns();
    planner.add_messages(conversation, first)?;
    planner.close(conversation)?;
    Ok(planner.plan)
}

struct Planner<'a> {
    format: &'a Format,
    strict: bool,
    speakers: Speakers<'a>,
    plan: Plan<'a>,
    round: usize,
    /// Whether the conversation's tools are still to be printed.
    offers: bool,
    folded: Option<SystemText<'a>>,
    /// A system message that the format refuses. This is an error only if any turn is written.
    refused: Option<usize>,
    /// The system message that the tool prompt replaces.
    replaced: Option<usize>,
    /// Whether an added system message announces the code interpreter.
    says_interpreter: bool,
    /// Whether the turns that offer tools have been written.
    offered: bool,
    /// Whether content is raw model output in messages that have `function_call`.
    raw_calls: bool,
}

impl<'a> Planner<'a> {
    fn new(
        conversation: &'a Conversation,
        format: &'a Format,
        rules: RuleMode,
        speakers: Speakers<'a>,
        chosen: &Chosen<'_>,
    ) -> Planner<'a> {
        let tools = conversation.tools.as_deref().unwrap_or_default();
        let functions = tools.iter().any(|tool| matches!(tool, Tool::Function { .. }));
        Planner {
            format,
            strict: rules == RuleMode::Enforce,
            speakers,
            plan: Plan {
                messages: &conversation.messages,
                tools,
                asked: Vec::new(),
                folded: None,
                gap: None,
                cut: None,
                turns: Vec::with_capacity(conversation.messages.len() + 4),
                dropped: Vec::new(),
                interpreter: tools.contains(&Tool::CodeInterpreter),
                readings: Vec::new(),
                bytes: 0,
                open: false,
            },
            round: 0,
            offers: functions,
            folded: None,
            refused: None,
            replaced: None,
            says_interpreter: false,
            offered: false,
            raw_calls: chosen.value(format, "function-call") == Some("raw"),
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
        if self.format.layout(Slot::Tools).is_some() && std::mem::take(&mut self.offers) {
            self.plan.bytes += 400 * self.plan.tools.len();
            self.bare(Slot::Tools);
            if let Some(turn) = self.plan.turns.last_mut() {
                turn.tools = Printed::OfConversation;
            }
        }
    }

    fn add_messages(&mut self, conversation: &'a Conversation, first: usize) -> Result<(), Error> {
        let messages = &conversation.messages[..self.answered(conversation, first)];
        if let Some(index) = self.refused {
            return Err(refuse_system(index, self.format));
        }
        let mut users = 0;
        let mut calls = Calls::default();
        let mut index = first;
        loop {
            if users > 0 {
                index += self.add_plain(messages, index);
            }
            let Some(message) = messages.get(index) else { break };
            match self.speakers.of(index, message) {
                Role::System if self.is_replaced(index) || self.is_blank(index, message) => {}
                Role::System if self.format.rules.system == SystemRule::Refused => {
                    return Err(refuse_system(index, self.format));
                }
                Role::System => self.message(Slot::System, Slot::System, index, message)?,
                Role::Assistant
                    if self.raw_calls
                        && message.as_object().get("function_call").is_some_and(|call| !call.is_null()) =>
                {
                    self.raw_output(index, message)?;
                }
                Role::User => {
                    self.round += 1;
                    users += 1;
                    let slot = if users == 1 { Slot::UserFirst } else { Slot::User };
                    self.user(slot, index, message)?;
                }
                Role::Assistant => {
                    if !message.is_plain() {
                        calls.remember(message);
                    }
                    let with_calls =
                        message.calls().len() > 0 && self.format.layout(Slot::AssistantWithCalls).is_some();
                    let last = index + 1 == messages.len() && self.format.layout(Slot::AssistantLast).is_some();
                    let slot = match (with_calls, last) {
                        (true, _) => Slot::AssistantWithCalls,
                        (false, true) => Slot::AssistantLast,
                        (false, false) => Slot::Assistant,
                    };
                    self.message(slot, Slot::Assistant, index, message)?;
                    self.bare(Slot::AssistantAfter);
                }
                Role::Tool if self.format.layout(Slot::ToolGroup).is_some() => {
                    let results = messages[index..]
                        .iter()
                        .take_while(|message| *self.speakers.roles.of(message) == Role::Tool)
                        .count();
                    let group = &messages[index..index + results];
                    for (at, message) in group.iter().enumerate() {
                        self.check_message(Slot::Tool, index + at, message)?;
                    }
                    let bytes = group.iter().map(size_of_content).sum();
                    self.turn(Slot::ToolGroup, Slot::ToolGroup, What::Results(group, index), bytes);
                    index += results;
                    continue;
                }
                Role::Tool => {
                    let slot = if calls.is_from_interpreter(message) { Slot::ToolInterpreter } else { Slot::Tool };
                    self.message(slot, Slot::Tool, index, message)?;
                }
                // `order` has already refused it.
                Role::Other(_) => {}
            }
            index += 1;
        }
        Ok(())
    }

    /// Adds the turns of the next user and assistant messages, for as long as only their texts can
    /// be part of the turns, and returns the number of messages. Most of a long conversation
    /// consists of such messages.
    #[inline(never)]
    fn add_plain(&mut self, messages: &'a [Message], first: usize) -> usize {
        let has = |slot| self.format.layout(slot).is_some();
        // The format treats the last assistant message differently, or adds a turn of its own.
        let by_place = has(Slot::AssistantLast) || has(Slot::AssistantAfter);
        if by_place || self.offers || self.folded.is_some() {
            return 0;
        }
        let is_plain = |layout: &&Layout| layout.plain().is_some();
        let user = self.format.layout(Slot::User).filter(is_plain);
        let assistant = self.format.layout(Slot::Assistant).filter(is_plain);
        for (at, message) in messages[first..].iter().enumerate() {
            let (slot, layout) = match self.speakers.of(first + at, message) {
                Role::User => (Slot::User, user),
                Role::Assistant => (Slot::Assistant, assistant),
                _ => return at,
            };
            let (Some(layout), Some(text)) = (layout, message.plain_text()) else { return at };
            self.round += usize::from(slot == Slot::User);
            self.plain_turn(layout, slot, first + at, text);
        }
        messages.len() - first
    }

    /// Returns the number of messages to write: all of them, or only those that are followed by an
    /// answer.
    fn answered(&mut self, conversation: &Conversation, first: usize) -> usize {
        let messages = &conversation.messages;
        let all = messages.len();
        if self.format.rules.turns != TurnsRule::Paired {
            return all;
        }
        let named_user = |message: &Message| *self.speakers.roles.of(message) == Role::User;
        let (answered, why) = match self.speakers.are_by_place() {
            true if !messages.get(first).is_some_and(named_user) => (first, "the first message is not a user message"),
            true => (all - (all - first) % 2, "no answer follows it"),
            false if !messages.get(first).is_some_and(named_user) => (first, "the first message is not a user message"),
            false => {
                let open = messages[first..].iter().rev().take_while(|message| named_user(message)).count();
                (all - open, "no answer follows it")
            }
        };
        let mut left_out = answered..all;
        if answered == first {
            // Without a complete pair, nothing is written.
            self.plan.turns.clear();
            self.folded = None;
            self.refused = None;
            self.offers = false;
            left_out.start = 0;
            let offered = conversation.tools.iter().flatten().next().map(|_| Place::field("tools"));
            self.plan.dropped.extend(offered.map(|place| Dropped { place, why, by_design: false }));
        }
        self.plan.dropped.extend(left_out.map(|index| Dropped {
            place: Place::message(index, ""),
            why,
            by_design: false,
        }));
        answered
    }

    fn user(&mut self, slot: Slot, index: usize, message: &'a Message) -> Result<(), Error> {
        if message.plain_text().is_some() {
            return self.message(slot, Slot::User, index, message);
        }
        let files = message.parts().any(|part| matches!(part, Part::File(_)));
        let own_turn = self.format.layout(Slot::File).is_some();
        let has_more = message.parts().any(|part| !matches!(part, Part::File(_)));
        if !(files && own_turn) || has_more {
            self.message(slot, Slot::User, index, message)?;
        }
        if files && own_turn {
            if !has_more && let Some(layout) = self.format.layout(Slot::File) {
                self.note_fields(index, message, |field| layout.prints(field), "the format has no place for it");
            }
            self.turn(Slot::File, Slot::File, What::Files(index, message), 80);
        }
        Ok(())
    }

    /// Checks that a turn announces the code interpreter. Otherwise, refuses it, or records that
    /// another text took the place of the announcement.
    fn check_interpreter(&mut self, conversation: &Conversation) -> Result<(), Error> {
        if !self.plan.interpreter {
            return Ok(());
        }
        let said = self.says_interpreter || self.plan.turns.iter().any(|turn| turn.layout.prints(Field::Interpreter));
        if said && self.format.defaults.interpreter.is_some() {
            return Ok(());
        }
        let tools = conversation.tools.iter().flatten();
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

    fn close(&mut self, conversation: &'a Conversation) -> Result<(), Error> {
        self.check_rest(conversation)?;
        if conversation.continue_final_message || self.stays_open(conversation) {
            self.plan.open = true;
            return self.cut(conversation);
        }
        self.plan.open = self.speakers.generates(conversation);
        self.bare(if self.plan.open { Slot::Generate } else { Slot::End });
        Ok(())
    }

    /// Checks the rest of the conversation outside its messages that no turn has written.
    fn check_rest(&mut self, conversation: &'a Conversation) -> Result<(), Error> {
        self.check_interpreter(conversation)?;
        if self.offers {
            let help = "remove the tools, or use a format that has a place for them";
            self.no_place(Place::field("tools"), "tools", help)?;
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
            if !self.format.choices.iter().any(|choice| choice.name == name) {
                let place = Place::field(format!("chat_template_kwargs.{name}"));
                self.plan.dropped.push(Dropped { place, why: "the format has no such option", by_design: false });
            }
        }
        Ok(())
    }

    /// Reports whether the assistant's last turn stays open for the model.
    fn stays_open(&self, conversation: &Conversation) -> bool {
        self.format.rules.ending == EndingRule::Open
            && conversation.add_generation_prompt.is_none()
            && self.speakers.ends_with_assistant(conversation)
    }

    /// Ends the prompt after the last message's content.
    fn cut(&mut self, conversation: &'a Conversation) -> Result<(), Error> {
        let index = conversation.messages.len().saturating_sub(1);
        let nothing = |what| Err(Error::NothingToContinue { message: index, what });
        let Some(message) = conversation.messages.last() else { return nothing("there is no message") };
        if *self.speakers.roles.of(message) != Role::Assistant {
            return nothing("the last message is not an assistant message");
        }
        let calls = message.calls().len() > 0;
        if calls && conversation.continue_final_message {
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
        let mut tools = Printed::Nothing;
        if self.offers && (layout.prints(Field::Tools) || layout.prints(Field::Functions)) {
            self.offers = false;
            self.plan.bytes += 400 * self.plan.tools.len();
            tools = Printed::OfConversation;
        }
        self.plan.bytes += bytes + layout.constant_bytes();
        self.plan.turns.push(Turn { layout, slot: fallback, what, round: self.round, folds: false, tools });
    }

    /// Adds a turn that consists of a layout and a message's text.
    #[inline]
    fn plain_turn(&mut self, layout: &'a Layout, slot: Slot, index: usize, text: &'a str) {
        self.plan.bytes += text.len() + layout.constant_bytes();
        let (what, round) = (What::Plain(index, text), self.round);
        self.plan.turns.push(Turn { layout, slot, what, round, folds: false, tools: Printed::Nothing });
    }

    /// Adds a message's turn, by a shortcut if only the message's text can be part of it.
    #[inline]
    fn message(&mut self, slot: Slot, fallback: Slot, index: usize, message: &'a Message) -> Result<(), Error> {
        let layout = self.format.layout(slot).or_else(|| self.format.layout(fallback));
        match (layout, message.plain_text()) {
            (Some(layout), Some(text)) if layout.plain().is_some() && !self.offers && self.folded.is_none() => {
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
            self.offers |= turn.tools == Printed::OfConversation;
            turn.tools = Printed::OfMessage;
        }
        Ok(())
    }
}

fn size_of_content(message: &Message) -> usize {
    if let Some(text) = message.plain_text() {
        return text.len();
    }
    message.parts().map(|part| if let Part::Text(text) = part { text.len() } else { 40 }).sum::<usize>()
        + 100 * message.calls().len()
}
