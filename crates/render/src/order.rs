//! A format's rules for the order of messages.

use std::ops::Range;

use rolecall_conversation::{Call, Message, Role, Tool};
use rolecall_format::{AnswersRule, AssistantRule, Format, HeaderRule, SystemRule, ToolRule, TurnsRule, UsersRule};

use crate::role::{Roles, Speakers, is_blank};
use crate::task::Task;
use crate::{Error, RuleMode};

/// Refuses roles that the format does not know and, if rules are enforced, orders that it does not
/// allow. Continues a check that earlier messages have passed. Returns its state before the message
/// with the index `keep`, or at the end.
pub(crate) fn check(
    task: &Task<'_>,
    speakers: Speakers<'_>,
    passed: Option<OrderState>,
    keep: Option<usize>,
) -> Result<OrderState, Error> {
    let (format, mode) = (task.format, task.options.rules);
    let state = passed.unwrap_or_else(|| OrderState::new(task, speakers.roles));
    let mut checker = Checker { format, roles: speakers.roles, state };
    let (start, end) = (task.messages.start(), task.messages.end());
    let keep = keep.unwrap_or(end);
    checker.take_all(task, start..keep, speakers)?;
    let kept = checker.state;
    if keep < end {
        checker.take_all(task, keep..end, speakers)?;
    }
    if mode == RuleMode::Enforce && speakers.generates(task) {
        checker.need_answers(None)?;
    }
    Ok(kept)
}

fn check_role(index: usize, message: &Message, roles: Roles<'_>, format: &Format, mode: RuleMode) -> Result<(), Error> {
    let known = match (roles.of(message), mode) {
        (Role::Other(_), _) => false,
        (_, RuleMode::Enforce) => true,
        (role, RuleMode::Reference) => format.role_names(role.name()).contains(&message.role_as_spelled()),
    };
    if known {
        return Ok(());
    }
    let spelled = message.role_as_spelled();
    let usual = ["system", "user", "assistant", "tool"];
    let names = usual.iter().flat_map(|usual| match mode {
        RuleMode::Enforce => vec![*usual],
        RuleMode::Reference => format.role_names(usual),
    });
    let known: Vec<String> = names.map(str::to_owned).collect();
    let aliases = match mode {
        RuleMode::Enforce => aliases_of(format).filter(|alias| !known.contains(alias)).collect(),
        // The maker's own code accepts only the maker's names.
        RuleMode::Reference => Vec::new(),
    };
    Err(Error::UnknownRole { message: index, role: spelled.to_owned(), known, aliases })
}

/// Returns all other names of roles: first the maker's, then the common aliases.
fn aliases_of(format: &Format) -> impl Iterator<Item = String> {
    let own = format.roles.iter().flat_map(|(_, own)| own.clone());
    let usual = [Role::System, Role::User, Role::Assistant, Role::Tool].into_iter().flat_map(|role| role.aliases());
    let mut aliases: Vec<String> = own.collect();
    for alias in usual {
        if !aliases.iter().any(|known| known == alias) {
            aliases.push((*alias).to_owned());
        }
    }
    aliases.into_iter()
}

/// Builds the error for a system message in a model family that has none.
pub(crate) fn refuse_system(index: usize, format: &Format) -> Error {
    let help = "put the text into the first user message".to_owned();
    let what = format!("`{}` has no system message", format.name);
    Error::Rule { message: index, rule: "system", what, help }
}

/// What the rules know of the messages that passed them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderState {
    /// Whether the code interpreter is the only tool, so that the family's own fields have only one
    /// possible value.
    interprets: bool,
    seen_user: bool,
    /// Whether only system messages have been seen so far.
    leading: bool,
    previous: Option<Previous>,
    /// The message whose calls still lack answers, and the number of missing answers.
    unanswered: Option<(usize, usize)>,
    /// Whether a user message is next, if turns alternate.
    users_turn: bool,
}

/// The previous message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Previous {
    User,
    Assistant {
        /// Whether it makes calls.
        calls: bool,
    },
    Tool,
    Other,
}

impl OrderState {
    fn new(task: &Task<'_>, roles: Roles<'_>) -> OrderState {
        OrderState {
            interprets: interprets(task, roles),
            seen_user: false,
            leading: true,
            previous: None,
            unanswered: None,
            users_turn: true,
        }
    }
}

struct Checker<'a> {
    format: &'a Format,
    roles: Roles<'a>,
    state: OrderState,
}

impl Checker<'_> {
    /// Takes the messages of a range of indices.
    fn take_all(&mut self, task: &Task<'_>, messages: Range<usize>, speakers: Speakers<'_>) -> Result<(), Error> {
        let mode = task.options.rules;
        let (mut index, end) = (messages.start, messages.end);
        while index < end {
            if mode == RuleMode::Enforce {
                index += self.skip_plain(task.messages.between(index, end));
            }
            let Some(message) = task.messages.get(index).filter(|_| index < end) else { break };
            if !speakers.are_by_place() {
                check_role(index, message, speakers.roles, self.format, mode)?;
            }
            if mode == RuleMode::Enforce {
                self.take(index, message)?;
            }
            index += 1;
        }
        Ok(())
    }

    /// Takes the next messages that no rule can refuse because they only have text, and returns
    /// their number. Most of a long conversation consists of such messages.
    fn skip_plain<'m>(&mut self, messages: impl Iterator<Item = &'m Message>) -> usize {
        let state = &mut self.state;
        if state.unanswered.is_some() || self.format.rules.users == UsersRule::Apart || alternates(self.format) {
            return 0;
        }
        let follows_user = state.seen_user || self.format.rules.assistant != AssistantRule::AfterUser;
        let is_free = |message: &Message| match self.roles.of(message) {
            Role::User => message.is_plain(),
            Role::Assistant => message.is_plain() && follows_user,
            _ => false,
        };
        let free = messages.take_while(|message| is_free(message));
        let (count, last) = free.fold((0, None), |(count, _), message| (count + 1, Some(message)));
        let Some(last) = last else { return 0 };
        let role = self.roles.of(last);
        // With rules that allow an assistant message first, nothing depends on an earlier user
        // message.
        state.seen_user |= *role == Role::User;
        state.users_turn = *role == Role::Assistant;
        state.leading = false;
        state.previous = Some(Previous::of(role, false));
        count
    }

    fn take(&mut self, index: usize, message: &Message) -> Result<(), Error> {
        let role = self.roles.of(message);
        if *role != Role::Tool {
            self.need_answers(Some(index))?;
        }
        // A message that has only a role and a text has nothing to write into a header.
        if !message.is_plain() {
            self.header(index, message, role)?;
        }
        match role {
            // A system message without text is ignored.
            Role::System if is_blank(message, self.format) => {}
            // A conversation written as pairs keeps only system messages that belong to an answer.
            Role::System if self.format.rules.turns == TurnsRule::Answered => {}
            Role::System => self.system(index)?,
            Role::User => self.user(index)?,
            Role::Assistant => self.assistant(index, message)?,
            Role::Tool => self.tool(index)?,
            Role::Other(_) => {}
        }
        self.state.leading &= *role == Role::System;
        let has_calls = || message.calls().len() > 0 || has_own_field(message, self.format);
        let calls = *role == Role::Assistant && self.format.rules.tool == ToolRule::AfterCall && has_calls();
        self.state.previous = Some(Previous::of(role, calls));
        Ok(())
    }

    /// Checks the message's header: the family's own fields, and the names of calls.
    fn header(&self, index: usize, message: &Message, role: &Role) -> Result<(), Error> {
        let breaks = |text: &str| text.contains(['\n', '\r']);
        if self.format.rules.header == HeaderRule::OneLine {
            let mut fields = self.format.fields.iter().map(|(name, _)| name);
            if let Some(name) = fields.find(|name| message.text_field(name).is_some_and(breaks)) {
                let what = format!("a line break in `{name}`, which is part of the header line");
                return Err(self.broken(index, "header", &what, "put the text after the first line into the content"));
            }
            if names(message).any(breaks) {
                let what = "a line break in the name of a call, which is part of the header line";
                return Err(self.broken(index, "header", what, "use the function's name from the list of tools"));
            }
        }
        let only = self.format.rules.interpreter_field.as_deref();
        let Some(only) = only.filter(|_| self.state.interprets && *role == Role::Assistant) else {
            return Ok(());
        };
        let odd = |(name, _): &&(String, String)| {
            message.text_field(name).is_some_and(|text| !text.is_empty() && text != only)
        };
        let what = match (self.format.fields.iter().find(odd), names(message).next()) {
            (Some((name, _)), _) => format!("`{name}` is not `{only}`, but only the code interpreter is offered"),
            (None, Some(name)) => format!("a call to `{name}`, but only the code interpreter is offered"),
            (None, None) => return Ok(()),
        };
        Err(self.broken(
            index,
            "interpreter-field",
            &what,
            "offer the function as a tool, or send the code to the interpreter",
        ))
    }

    fn system(&self, index: usize) -> Result<(), Error> {
        let rule = self.format.rules.system;
        let (what, help) = match rule {
            SystemRule::Anywhere => return Ok(()),
            SystemRule::Leading if self.state.leading => return Ok(()),
            SystemRule::First | SystemRule::Fold if index == 0 => return Ok(()),
            SystemRule::Leading => ("a system message comes after others", "move it before the first user message"),
            SystemRule::First | SystemRule::Fold => {
                ("a system message is not the first message", "merge all system texts into one first message")
            }
            SystemRule::None | SystemRule::Refused => {
                ("this model family has no system message", "put the text into the first user message")
            }
        };
        Err(self.broken(index, "system", what, help))
    }

    fn user(&mut self, index: usize) -> Result<(), Error> {
        let follows_user = || self.state.previous == Some(Previous::User);
        if self.format.rules.users == UsersRule::Apart && follows_user() {
            let (what, help) =
                ("a second user message in a row", "merge the two, or put an assistant message between them");
            return Err(self.broken(index, "users", what, help));
        }
        if alternates(self.format) && !self.state.users_turn {
            let what = "expected an assistant message, found a user message";
            return Err(self.broken(
                index,
                "turns",
                what,
                "merge it into the previous message, or put an assistant message between them",
            ));
        }
        self.state.seen_user = true;
        self.state.users_turn = false;
        Ok(())
    }

    fn assistant(&mut self, index: usize, message: &Message) -> Result<(), Error> {
        if self.format.rules.assistant == AssistantRule::AfterUser && !self.state.seen_user {
            let what = "an assistant message before any user message";
            return Err(self.broken(index, "assistant", what, "begin with a user message"));
        }
        let goes_on = || self.state.previous == Some(Previous::Tool);
        if alternates(self.format) && self.state.users_turn && !goes_on() {
            let what = "expected a user message, found an assistant message";
            return Err(self.broken(
                index,
                "turns",
                what,
                "put a user message before it, or merge it into the previous message",
            ));
        }
        self.state.users_turn = true;
        let calls = message.calls().len();
        if let Some(max) = self.format.rules.max_calls
            && calls > max
        {
            let what = format!("found {calls} calls in one message, expected at most {max}");
            return Err(self.broken(
                index,
                "max-calls",
                &what,
                "make one call per message, each followed by its result",
            ));
        }
        if self.format.rules.answers == AnswersRule::Required && calls > 0 {
            self.state.unanswered = Some((index, calls));
        }
        Ok(())
    }

    fn tool(&mut self, index: usize) -> Result<(), Error> {
        let good = match (self.format.rules.tool, self.state.previous) {
            (ToolRule::Any, _) | (_, Some(Previous::Tool)) => true,
            (ToolRule::AfterAssistant, Some(Previous::Assistant { .. })) => true,
            (ToolRule::AfterCall, Some(Previous::Assistant { calls })) => calls,
            _ => false,
        };
        if !good {
            let what = "a tool result without a preceding call";
            return Err(self.broken(index, "tool", what, "put the assistant message with the call right before it"));
        }
        self.state.unanswered = self.state.unanswered.and_then(|(call, left)| (left > 1).then(|| (call, left - 1)));
        Ok(())
    }

    /// Requires that every call is answered before this message, or before the model speaks.
    #[inline]
    fn need_answers(&self, next: Option<usize>) -> Result<(), Error> {
        self.state.unanswered.map_or(Ok(()), |(call, left)| Err(self.unanswered_call(call, left, next)))
    }

    #[cold]
    fn unanswered_call(&self, call: usize, left: usize, next: Option<usize>) -> Error {
        let next = next.map_or("the model speaks".to_owned(), |index| format!("message {index}"));
        let what = format!("{left} call{} without an answer before {next}", if left == 1 { "" } else { "s" });
        let help = "add a message with role `tool` and the result after it";
        self.broken(call, "answers", &what, help)
    }

    fn broken(&self, message: usize, rule: &'static str, what: &str, help: &str) -> Error {
        Error::Rule { message, rule, what: what.to_owned(), help: help.to_owned() }
    }
}

impl Previous {
    fn of(role: &Role, calls: bool) -> Previous {
        match role {
            Role::User => Previous::User,
            Role::Assistant => Previous::Assistant { calls },
            Role::Tool => Previous::Tool,
            Role::System | Role::Other(_) => Previous::Other,
        }
    }
}

/// Returns the names of the functions that a message calls.
fn names(message: &Message) -> impl Iterator<Item = &str> {
    message.calls().filter_map(|call| match call {
        Call::Function { name, .. } => Some(name),
        Call::CodeInterpreter { .. } => None,
    })
}

/// Reports whether nothing but the code interpreter can be called, in a family whose own fields
/// then have only one possible value. This is the case if only the interpreter is offered, or if no
/// tools are offered and the system text is the one that announces it.
fn interprets(task: &Task<'_>, roles: Roles<'_>) -> bool {
    if task.format.rules.interpreter_field.is_none() {
        return false;
    }
    let offered = task.frame.tools.iter().flatten();
    let own = task.messages.iter().filter_map(Message::tools).flatten();
    let tools: Vec<&Tool> = offered.chain(own).collect();
    let announced = || {
        let text = task.format.defaults.interpreter.as_deref();
        let first = task.messages.first().filter(|first| *roles.of(first) == Role::System);
        text.is_some() && first.and_then(Message::text).as_deref() == text
    };
    if tools.is_empty() { announced() } else { tools.iter().all(|tool| **tool == Tool::CodeInterpreter) }
}

fn alternates(format: &Format) -> bool {
    matches!(format.rules.turns, TurnsRule::Alternate | TurnsRule::Paired)
}

/// Reports whether a message has one of the family's own header fields, which are the native form
/// of calls.
fn has_own_field(message: &Message, format: &Format) -> bool {
    format.fields.iter().any(|(name, _)| message.text_field(name).is_some_and(|text| !text.is_empty()))
}
