//! Who speaks: determined by the usual role names, by the maker's role names, or by the message's
//! position.

use rolecall_conversation::{Message, Role};
use rolecall_format::{BlankSystem, EndingRule, Format, RolesRule, TurnsRule};

use crate::RuleMode;
use crate::task::Task;
use crate::window::Window;

static USUAL: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

/// The roles of messages in a format. The maker's own name for a role takes precedence over the
/// usual meaning of the name.
#[derive(Clone, Copy)]
pub(crate) struct Roles<'f> {
    format: &'f Format,
    /// Whether every name of the maker's has its usual meaning.
    are_usual: bool,
}

impl<'f> Roles<'f> {
    pub fn of_format(format: &'f Format) -> Roles<'f> {
        let is_usual = |usual: &str, name: &str| Role::from_name(name).name() == usual;
        let mut names = format.roles.iter().flat_map(|(usual, own)| own.iter().map(move |name| (usual, name)));
        Roles { format, are_usual: names.all(|(usual, name)| is_usual(usual, name)) }
    }

    /// Returns the role of a message.
    #[inline]
    pub fn of<'m>(&self, message: &'m Message) -> &'m Role {
        if self.are_usual { message.role() } else { self.own_or_usual(message) }
    }

    fn own_or_usual<'m>(&self, message: &'m Message) -> &'m Role {
        let spelled = message.role_as_spelled();
        let is_own = |own: &[String]| own.iter().any(|name| name == spelled);
        // Few messages use one of the maker's names.
        if !self.format.roles.iter().any(|(_, own)| is_own(own)) {
            return message.role();
        }
        let named = |role: &&Role| self.format.roles.iter().any(|(usual, own)| usual == role.name() && is_own(own));
        USUAL.iter().find(named).unwrap_or(message.role())
    }
}

/// Reports whether a system message is ignored because it has no text.
pub(crate) fn is_blank(message: &Message, format: &Format) -> bool {
    let text = || message.text().unwrap_or_default();
    // A message that offers tools is never blank.
    if message.tools().is_some_and(|tools| !tools.is_empty()) {
        return false;
    }
    match format.rules.blank_system {
        BlankSystem::Keep => false,
        BlankSystem::Skip => text().is_empty(),
        BlankSystem::SkipSpaces => text().chars().all(|character| character == ' '),
    }
}

/// Determines who speaks in each message.
#[derive(Clone, Copy)]
pub(crate) struct Speakers<'f> {
    format: &'f Format,
    pub roles: Roles<'f>,
    /// If messages are told apart by position, the index of the first one after the system message.
    by_place: Option<usize>,
}

impl<'f> Speakers<'f> {
    pub fn new(task: &Task<'f>) -> Speakers<'f> {
        let format = task.format;
        let by_place = task.options.rules == RuleMode::Reference && format.rules.roles == RolesRule::ByPlace;
        let roles = Roles::of_format(format);
        let system = task.messages.first().is_some_and(|message| *roles.of(message) == Role::System);
        Speakers { format, roles, by_place: by_place.then_some(usize::from(system)) }
    }

    /// Returns what a later rendering of the same conversation needs to tell its speakers apart.
    pub fn state(&self) -> SpeakersState {
        SpeakersState { are_usual: self.roles.are_usual, by_place: self.by_place }
    }

    /// Restores the speakers of an earlier rendering of the same conversation.
    pub fn restore(format: &'f Format, state: SpeakersState) -> Speakers<'f> {
        let roles = Roles { format, are_usual: state.are_usual };
        Speakers { format, roles, by_place: state.by_place }
    }

    /// Reports whether messages are told apart by position, regardless of their roles.
    pub fn are_by_place(&self) -> bool {
        self.by_place.is_some()
    }

    /// Returns who speaks in a message.
    #[inline]
    pub fn of<'m>(&self, index: usize, message: &'m Message) -> &'m Role {
        match self.by_place {
            None => self.roles.of(message),
            Some(first) if index < first => &USUAL[0],
            Some(first) => &USUAL[1 + (index - first) % 2],
        }
    }

    /// Reports whether the assistant speaks last.
    pub fn end_with_assistant(&self, messages: Window<'_>) -> bool {
        let last = messages.end().wrapping_sub(1);
        messages.last().is_some_and(|message| *self.of(last, message) == Role::Assistant)
    }

    /// Reports whether the prompt ends with a generation prompt.
    pub fn generates(&self, task: &Task<'_>) -> bool {
        // Training text does not open an answer that is missing.
        let rules = &self.format.rules;
        let learned = rules.learned || matches!(rules.turns, TurnsRule::Answered | TurnsRule::Paired);
        let reopened = self.format.rules.ending == EndingRule::Reopened;
        let usual = !learned && (reopened || !self.end_with_assistant(task.messages));
        task.frame.add_generation_prompt.unwrap_or(usual) && !task.frame.continue_final_message
    }

    /// Reports whether the prompt ends inside the last message, for the model to continue it.
    pub fn stop_inside(&self, task: &Task<'_>) -> bool {
        let stays_open = self.format.rules.ending == EndingRule::Open
            && task.frame.add_generation_prompt.is_none()
            && self.end_with_assistant(task.messages);
        task.frame.continue_final_message || stays_open
    }
}

/// Who speaks, without the format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpeakersState {
    are_usual: bool,
    by_place: Option<usize>,
}
