//! What a trainer should know about a row.

use rolecall_conversation::{Conversation, Message, Part as ContentPart, Place, REASONING, Role};
use rolecall_render::{Change, DesignRule, Leaf, LeafGroup, LeafKind, Remedy};

use super::row::truncation_notes;
use super::{Ready, SampleNumber};
use crate::loss::{note_code, note_message, note_text};
use crate::model::ModelPrompt;

/// A fact about a row that a trainer should know.
///
/// ```
/// use rolecall::training::RowRecipe;
/// use rolecall::{Model, conversation::json};
/// let model = Model::open("chatml")?;
/// let row = json::parse(r#"{"prompt": "2+2?", "completion": " "}"#)?;
/// let (_, ready) = RowRecipe::default().read(&model, row)?;
/// assert_eq!(ready[0].1.notes()[0].code, "empty_reply");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowNote {
    /// A stable name for the kind of fact.
    pub code: &'static str,
    /// The fact, for people.
    pub message: String,
    /// Facts with the same code and reason are one kind. Empty if the code says it all.
    pub why: &'static str,
    /// The first place in the conversation that it is about.
    pub place: Option<Place>,
    /// The number of such places.
    pub count: usize,
    /// How a part was changed.
    pub how: Option<&'static str>,
    /// What helps.
    pub remedy: Option<Remedy>,
    /// Whether it is part of the account: what became of the parts of the conversation.
    pub is_account: bool,
    /// Whether the maker intends it, such as that earlier reasoning is dropped.
    pub by_design: bool,
}

impl Ready {
    /// Returns what a trainer should know: what became of the parts of the conversation, and what loss
    /// masks, truncation and samples did.
    pub fn notes(&self) -> Vec<RowNote> {
        let mut notes = self.account();
        for note in self.loss.iter().flat_map(|loss| &loss.notes) {
            let place = note_message(note).map(|message| Place::message(message, ""));
            let code = note_code(note);
            // Earlier replies end otherwise in the whole conversation than in what the server saw.
            let remedy = (code == "no_stop").then_some(Remedy::DividedSamples).filter(|_| self.is_whole());
            notes.push(RowNote { place, remedy, ..RowNote::new(code, note_text(note)) });
        }
        let truncated = self.truncated.iter().flat_map(truncation_notes);
        notes.extend(truncated.map(|(code, message)| RowNote::new(code, message)));
        if let Some(SampleNumber { index: 0, of, rewritten, .. }) = self.part {
            let why = rewritten.map(|rewritten| match rewritten.message {
                Some(message) => format!(": rendering message {} changes message {message}", rewritten.by),
                None => format!(": rendering message {} changes what comes before", rewritten.by),
            });
            notes.push(RowNote::new("several_samples", format!("{of} samples{}", why.unwrap_or_default())));
        }
        notes
    }

    /// Returns the account: what became of the parts of the conversation that the prompt does not have as
    /// they were given, and the replies that are empty.
    pub fn account(&self) -> Vec<RowNote> {
        let mut notes = of_prompt(&self.prompt, self.is_whole());
        let empty = empty_replies(&self.prompt.request().conversation);
        if let [first, ..] = empty.as_slice() {
            let message = match empty.len() {
                1 => format!("message {first}: the reply is empty"),
                count => format!("message {first} and {} more: the replies are empty", count - 1),
            };
            notes.push(RowNote {
                place: Some(Place::message(*first, "content")),
                count: empty.len(),
                is_account: true,
                ..RowNote::new("empty_reply", message)
            });
        }
        notes
    }

    /// Reports whether this is a whole conversation that could be divided into samples. Only training divides one.
    fn is_whole(&self) -> bool {
        self.loss.is_some() && self.part.is_none()
    }
}

impl RowNote {
    fn new(code: &'static str, message: String) -> RowNote {
        RowNote {
            code,
            message,
            why: "",
            place: None,
            count: 1,
            how: None,
            remedy: None,
            is_account: false,
            by_design: false,
        }
    }
}

/// Returns what became of the parts of a conversation, one note for each reason. `is_whole` tells whether it
/// is a sample that could be divided.
fn of_prompt(prompt: &ModelPrompt, is_whole: bool) -> Vec<RowNote> {
    let account = prompt.account();
    // A format that does not print reasoning prints none anywhere, and so does a template that leaves out the last.
    let is_reasoning = |leaf: &Leaf| REASONING.contains(&&*leaf.place.field);
    let keeps_last = || prompt.template().is_some() && !account.of_kind(LeafKind::LeftOut).any(is_reasoning);
    let is_divisible =
        |group: &LeafGroup<'_>| is_whole && group.rule == Some(DesignRule::EarlierReasoning) && keeps_last();
    let each = account.groups().into_iter().map(|group| RowNote {
        why: group.why,
        place: Some(group.first.place.clone()),
        count: group.count,
        how: group.change.map(Change::name),
        remedy: group.remedy.or_else(|| is_divisible(&group).then_some(Remedy::DividedSamples)),
        is_account: true,
        by_design: !group.kind.is_loss(),
        ..RowNote::new(group.kind.name(), group.to_string())
    });
    each.collect()
}

/// Returns the replies without text, reasoning and calls. The message that is to be continued is no reply
/// yet.
pub(super) fn empty_replies(conversation: &Conversation) -> Vec<usize> {
    let messages = &conversation.messages;
    let open = if conversation.continue_final_message { messages.len().checked_sub(1) } else { None };
    let is_empty = |(at, message): &(usize, &Message)| {
        *message.role() == Role::Assistant
            && Some(*at) != open
            && message.parts().all(|part| matches!(part, ContentPart::Text(text) if text.trim().is_empty()))
            && message.calls().len() == 0
            && REASONING.iter().all(|key| message.text_field(key).is_none_or(|text| text.trim().is_empty()))
    };
    messages.iter().enumerate().filter(is_empty).map(|(at, _)| at).collect()
}
