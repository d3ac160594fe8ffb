use rolecall_conversation::{Conversation, Json, Message, Role, json};

/// The fixed set. What each conversation tells stands beside it.
const SET: &str = include_str!("conversations.json");
/// What chat templates write each in their own way, and few formats of frameworks at all.
const MORE: &str = include_str!("more_conversations.json");

/// A conversation by which formats can be told apart.
///
/// ```
/// use rolecall::diff::Telling;
/// let tellings = Telling::all();
/// assert!(tellings.iter().any(|telling| telling.name == "empty-system"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Telling {
    /// What it is called.
    pub name: String,
    /// What it tells, in a few words.
    pub tells: String,
    /// What is written to be answered.
    pub conversation: Conversation,
    /// The answer with which it is learned from, where it does not end with one.
    pub answer: Option<String>,
}

impl Telling {
    /// The fixed set of them.
    pub fn all() -> Vec<Telling> {
        Telling::of_set(SET)
    }

    /// The same with those that tell chat templates apart: calls at once, reasoning, switches, parts.
    pub fn of_templates() -> Vec<Telling> {
        let mut tellings = Telling::all();
        tellings.extend(Telling::of_set(MORE));
        tellings
    }

    fn of_set(set: &str) -> Vec<Telling> {
        let set = json::parse(set).ok();
        let items = set.as_ref().and_then(Json::as_array).unwrap_or_default();
        let tellings: Vec<Telling> = items.iter().filter_map(read).collect();
        // A test reads the set; a broken one never ships.
        debug_assert!(!items.is_empty() && tellings.len() == items.len(), "a set of conversations is broken");
        tellings
    }

    /// A conversation of one's own. It is learned from as it is, if the assistant speaks in it.
    pub fn of(name: impl Into<String>, conversation: Conversation) -> Telling {
        Telling { name: name.into(), tells: String::new(), conversation, answer: None }
    }

    /// The conversation as it is learned from, if there is anything to learn.
    pub fn lesson(&self) -> Option<Conversation> {
        let mut lesson = self.conversation.clone();
        lesson.messages.extend(self.answer.as_deref().map(Message::assistant));
        lesson.add_generation_prompt = Some(false);
        lesson.continue_final_message = false;
        last_answer(&lesson).map(|_| lesson)
    }

    /// The conversation up to the last answer of the lesson, to be answered.
    pub fn question(&self) -> Option<Conversation> {
        let mut question = self.lesson()?;
        question.messages.truncate(last_answer(&question)?);
        question.add_generation_prompt = Some(true);
        (!question.messages.is_empty()).then_some(question)
    }
}

fn last_answer(conversation: &Conversation) -> Option<usize> {
    conversation.messages.iter().rposition(|message| *message.role() == Role::Assistant)
}

fn read(item: &Json) -> Option<Telling> {
    let object = item.as_object()?;
    let text = |key: &str| Some(object.get(key)?.as_str()?.to_owned());
    Some(Telling {
        name: text("name")?,
        tells: text("tells")?,
        conversation: Conversation::from_json(item.clone()).ok()?,
        answer: text("answer"),
    })
}
