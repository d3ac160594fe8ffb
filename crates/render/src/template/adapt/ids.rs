use std::collections::{HashMap, HashSet, VecDeque};

use rolecall_conversation::{Conversation, Json};

use super::super::IdForm;

/// New ids for the calls of a conversation whose own ids a template would refuse or misread.
pub(super) struct Ids {
    form: IdForm,
    /// By the id that the conversation has: one for each call with it whose result has not come.
    new: HashMap<String, VecDeque<String>>,
    taken: HashSet<String>,
    /// How many calls there were.
    calls: usize,
}

impl Ids {
    /// Ids that have the form already are taken.
    pub fn new(conversation: &Conversation, form: IdForm) -> Ids {
        let messages = conversation.messages.iter().filter_map(|message| message.as_object().get("tool_calls"));
        let calls = messages.filter_map(Json::as_array).flatten().filter_map(Json::as_object);
        let own = calls.filter_map(|call| call.get("id")?.as_str()).filter(|id| form.has(id));
        Ids { form, new: HashMap::new(), taken: own.map(str::to_owned).collect(), calls: 0 }
    }

    /// Gives a call its new id, if it needs one.
    pub fn adapt(&mut self, call: &mut Json) {
        let number = self.calls;
        self.calls += 1;
        let Json::Object(call) = call else { return };
        let old = call.get("id").and_then(Json::as_str).map(str::to_owned);
        if old.as_deref().is_some_and(|id| self.form.has(id)) {
            return;
        }
        let function = call.get("function").and_then(Json::as_object).unwrap_or(call);
        let name = function.get("name").and_then(Json::as_str).unwrap_or_default();
        let new = self.form.id(old.as_deref(), name, number, |id| self.taken.contains(id));
        self.taken.insert(new.clone());
        call.insert("id", Json::from(new.as_str()));
        if let Some(old) = old {
            self.new.entry(old).or_default().push_back(new);
        }
    }

    /// What the id of an earlier call has become, for its result: of several calls with one id, in their order.
    pub fn answer(&mut self, old: &str) -> Option<String> {
        let waiting = self.new.get_mut(old)?;
        if waiting.len() > 1 { waiting.pop_front() } else { waiting.front().cloned() }
    }
}

impl IdForm {
    fn has(self, id: &str) -> bool {
        match self {
            IdForm::NineCharacters => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            IdForm::FunctionAndNumber => {
                let rest = id.strip_prefix("functions.").and_then(|rest| rest.rsplit_once(':'));
                rest.is_some_and(|(name, number)| {
                    !name.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
                })
            }
        }
    }

    /// An id of this form for a call: of its old one what can be kept.
    fn id(self, old: Option<&str>, name: &str, number: usize, is_taken: impl Fn(&str) -> bool) -> String {
        match self {
            IdForm::NineCharacters => {
                let letters: Vec<u8> = old.unwrap_or("").bytes().filter(u8::is_ascii_alphanumeric).collect();
                let last = letters.len().checked_sub(9).map(|start| &letters[start..]);
                let kept = last.map(|last| String::from_utf8_lossy(last).into_owned()).filter(|id| !is_taken(id));
                let numbered = (number..).map(|number| format!("call{:05}", number % 100_000));
                kept.unwrap_or_else(|| {
                    let mut free = numbered.take(100_000).filter(|id| !is_taken(id));
                    free.next().unwrap_or_else(|| "call00000".to_owned())
                })
            }
            IdForm::FunctionAndNumber => {
                let mut ids = (number..).map(|number| format!("functions.{name}:{number}")).filter(|id| !is_taken(id));
                ids.next().unwrap_or_default()
            }
        }
    }
}
