//! Call ids in a family's own form, for conversations whose ids the family would refuse or misread.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use rolecall_conversation::{Call, Json, Message};
use rolecall_format::CallIds;

use crate::shared_map::{LayeredMap, SharedMap};
use crate::window::Window;

/// The new ids for the calls that share one old id.
#[derive(Clone, Debug, Default)]
struct WaitingIds {
    /// The ids whose results have not come yet.
    ids: VecDeque<String>,
    /// The id of the last result.
    answered: Option<String>,
}

/// Where an id that is taken comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdSource {
    /// The conversation has it.
    Given,
    /// It is new.
    Generated,
}

/// Generates new ids for the calls of a conversation, in order.
pub(crate) struct NewIds<'r> {
    rule: &'r CallIds,
    /// The new ids by old id.
    new: LayeredMap<WaitingIds>,
    taken: LayeredMap<IdSource>,
    /// The number of calls so far.
    calls: usize,
    /// For each function name, the number up to which all ids are known to be taken, so that no
    /// taken id is tried again.
    tried: LayeredMap<usize>,
}

/// The ids of the calls so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdState {
    new: SharedMap<WaitingIds>,
    taken: SharedMap<IdSource>,
    calls: usize,
    tried: SharedMap<usize>,
}

impl IdState {
    /// Reports whether a message has an id that was generated for an earlier call. If that message
    /// had been known, the call would have got another id.
    pub fn meets(&self, message: &Message) -> bool {
        ids_of(message).any(|id| self.taken.get(id) == Some(&IdSource::Generated))
    }
}

impl<'r> NewIds<'r> {
    /// Creates a generator. Ids that already follow the rule are kept.
    pub fn new<'m>(messages: impl IntoIterator<Item = &'m Message>, rule: &'r CallIds) -> NewIds<'r> {
        NewIds::resume(messages, rule, &IdState::default())
    }

    /// Continues after earlier calls.
    fn resume<'m>(messages: impl IntoIterator<Item = &'m Message>, rule: &'r CallIds, earlier: &IdState) -> NewIds<'r> {
        let mut taken = LayeredMap::over(&earlier.taken);
        for id in messages.into_iter().flat_map(ids_of).filter(|id| rule.fits(id)) {
            if !taken.contains(id) {
                taken.insert(id.to_owned(), IdSource::Given);
            }
        }
        let (new, tried) = (LayeredMap::over(&earlier.new), LayeredMap::over(&earlier.tried));
        NewIds { rule, new, taken, calls: earlier.calls, tried }
    }

    fn state(&self) -> IdState {
        IdState { new: self.new.shared(), taken: self.taken.shared(), calls: self.calls, tried: self.tried.shared() }
    }

    /// Returns the new id of the next call, or `None` if it keeps its id.
    pub fn of_call(&mut self, old: Option<&str>, name: &str) -> Option<String> {
        let number = self.calls;
        self.calls += 1;
        if old.is_some_and(|id| self.rule.has(id, name)) {
            return None;
        }
        let new = match self.rule {
            CallIds::Any => return None,
            CallIds::Nine => self.nine(old, number),
            // A pattern without a number gives all calls of a function the same id.
            CallIds::Pattern(pattern) if !pattern.has_index() => pattern.print(name, number),
            CallIds::Pattern(pattern) => {
                self.free(name, number..usize::MAX, |number| pattern.print(name, number)).unwrap_or_default()
            }
        };
        self.taken.insert(new.clone(), IdSource::Generated);
        if let Some(old) = old {
            match self.new.get_mut(old) {
                Some(waiting) => waiting.ids.push_back(new.clone()),
                None => {
                    self.new.insert(old.to_owned(), WaitingIds { ids: VecDeque::from([new.clone()]), answered: None });
                }
            }
        }
        Some(new)
    }

    /// Returns the new id of an earlier call, for its result. Several calls that share an old id
    /// are answered in order.
    pub fn answer(&mut self, old: &str) -> Option<String> {
        let waiting = self.new.get_mut(old)?;
        waiting.answered = waiting.ids.pop_front().or(waiting.answered.take());
        waiting.answered.clone()
    }

    /// Returns nine letters and digits: the last nine of the old id, if they are not taken.
    fn nine(&mut self, old: Option<&str>, number: usize) -> String {
        const NUMBERS: usize = 100_000;
        let letters: Vec<u8> = old.unwrap_or("").bytes().filter(u8::is_ascii_alphanumeric).collect();
        let last = letters.len().checked_sub(9).map(|start| &letters[start..]);
        let kept = last.map(|last| String::from_utf8_lossy(last).into_owned()).filter(|id| !self.taken.contains(id));
        kept.unwrap_or_else(|| {
            let print = |number| format!("call{:05}", number % NUMBERS);
            self.free("", number..number.saturating_add(NUMBERS), print).unwrap_or_else(|| "call00000".to_owned())
        })
    }

    /// Returns the first id in a range of numbers that is not taken.
    fn free(&mut self, name: &str, numbers: Range<usize>, print: impl Fn(usize) -> String) -> Option<String> {
        let tried = self.tried.get(name).map_or(numbers.start, |tried| numbers.start.max(*tried));
        let found = (tried..numbers.end).map(|number| (number, print(number))).find(|(_, id)| !self.taken.contains(id));
        let end = found.as_ref().map_or(numbers.end, |(number, _)| *number);
        self.tried.insert(name.to_owned(), end.max(tried));
        found.map(|(_, id)| id)
    }
}

/// The new ids of a conversation that a format renders.
#[derive(Default)]
pub(crate) struct RenamedIds {
    calls: HashMap<(usize, usize), String>,
    answers: HashMap<usize, String>,
}

impl RenamedIds {
    /// Gives each call an id that follows the rule, and its result the same id. `state` is that
    /// after the earlier messages, and becomes that before the message with the index `keep`.
    pub fn of(
        messages: Window<'_>,
        rule: &CallIds,
        state: &mut Option<Arc<IdState>>,
        keep: Option<usize>,
    ) -> RenamedIds {
        let mut renamed = RenamedIds::default();
        if *rule == CallIds::Any || messages.iter().all(Message::is_plain) {
            return renamed;
        }
        let mut ids = match state.as_deref() {
            None => NewIds::new(messages.iter(), rule),
            Some(earlier) => NewIds::resume(messages.iter(), rule, earlier),
        };
        let kept = keep.unwrap_or(messages.start());
        renamed.add(messages, messages.start(), kept, &mut ids);
        if keep.is_some() {
            *state = Some(Arc::new(ids.state()));
        }
        renamed.add(messages, kept, messages.end(), &mut ids);
        renamed
    }

    fn add(&mut self, messages: Window<'_>, from: usize, to: usize, ids: &mut NewIds<'_>) {
        for (message, index) in messages.between(from, to).zip(from..) {
            for (at, call) in message.calls().enumerate() {
                let Call::Function { id, name, .. } = call else { continue };
                self.calls.extend(ids.of_call(id, name).map(|new| ((index, at), new)));
            }
            let answer = message.tool_call_id().and_then(|id| ids.answer(id));
            self.answers.extend(answer.map(|new| (index, new)));
        }
    }

    /// Returns the new id of a message's call.
    pub fn call(&self, message: usize, at: usize) -> Option<&str> {
        self.calls.get(&(message, at)).map(String::as_str)
    }

    /// Returns the new id of the call that a message answers.
    pub fn answer(&self, message: usize) -> Option<&str> {
        self.answers.get(&message).map(String::as_str)
    }
}

fn ids_of(message: &Message) -> impl Iterator<Item = &str> {
    let calls = message.as_object().get("tool_calls").and_then(Json::as_array);
    calls.unwrap_or_default().iter().filter_map(|call| call.as_object()?.get("id")?.as_str())
}
