use rolecall_conversation::{Conversation, Json, Message, Role, json};

/// The fixed set of conversations. Each has a note on what it shows.
const SET: &str = include_str!("conversations.json");
/// Conversations that chat templates write in different ways, and that few formats of frameworks
/// accept.
const MORE: &str = include_str!("more_conversations.json");

/// A conversation that shows differences between formats.
///
/// ```
/// use rolecall::diff::Telling;
/// let tellings = Telling::all();
/// assert!(tellings.iter().any(|telling| telling.name == "empty-system"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Telling {
    /// The name.
    pub name: String,
    /// What the conversation shows, in a few words.
    pub tells: String,
    /// The conversation to be answered.
    pub conversation: Conversation,
    /// The answer that completes the training text, if the conversation does not end with one.
    pub answer: Option<String>,
}

impl Telling {
    /// Returns the fixed set.
    pub fn all() -> Vec<Telling> {
        Telling::of_set(SET)
    }

    /// Returns the fixed set and the conversations for chat templates: several calls, reasoning,
    /// switches, content parts.
    pub fn of_templates() -> Vec<Telling> {
        let mut tellings = Telling::all();
        tellings.extend(Telling::of_set(MORE));
        tellings
    }

    fn of_set(set: &str) -> Vec<Telling> {
        let set = json::parse(set).ok();
        let items = set.as_ref().and_then(Json::as_array).unwrap_or_default();
        let tellings: Vec<Telling> = items.iter().filter_map(read).collect();
        // A test reads the sets, so a release has no broken one.
        debug_assert!(!items.is_empty() && tellings.len() == items.len(), "a set of conversations is broken");
        tellings
    }

    /// Returns a user's own conversation. If it has an assistant message, it is also used as a
    /// training text.
    pub fn of(name: impl Into<String>, conversation: Conversation) -> Telling {
        Telling { name: name.into(), tells: String::new(), conversation, answer: None }
    }

    /// Returns the conversation as a training text, or `None` if it has no answer.
    pub fn lesson(&self) -> Option<Conversation> {
        let mut lesson = self.conversation.clone();
        lesson.messages.extend(self.answer.as_deref().map(Message::assistant));
        lesson.add_generation_prompt = Some(false);
        lesson.continue_final_message = false;
        last_answer(&lesson).map(|_| lesson)
    }

    /// Returns the prompt for the last answer of the training text.
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
