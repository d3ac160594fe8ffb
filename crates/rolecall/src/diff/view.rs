use super::{Outcome, Written, learned, served, texts};

/// What is looked at when two formats are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// The prompts to be answered.
    Chat,
    /// The texts to be learned from, and what of them carries loss.
    Training,
    /// Whether what the first format trains on is what the second one serves.
    Serving,
    /// Whether what the second format trains on is what the first one serves.
    ServingBack,
}

impl View {
    /// All of them.
    pub const ALL: [View; 4] = [View::Chat, View::Training, View::Serving, View::ServingBack];

    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            View::Chat => "chat",
            View::Training => "training",
            View::Serving => "serving",
            View::ServingBack => "serving-back",
        }
    }

    /// What came of it; none where the conversation has nothing for it.
    pub(super) fn compare(self, a: &Written, b: &Written) -> Option<Outcome> {
        let outcome = match self {
            View::Chat => Outcome::of(a.chat.as_ref(), b.chat.as_ref(), texts::compare),
            View::Training => Outcome::of(a.lesson.as_ref()?.as_ref(), b.lesson.as_ref()?.as_ref(), learned::compare),
            View::Serving => {
                let (lesson, question) = (a.lesson.as_ref()?.as_ref(), b.question.as_ref()?.as_ref());
                Outcome::of(lesson, question, |lesson, question| served::compare(lesson, question, &b.stops))
            }
            View::ServingBack => View::Serving.compare(b, a)?.swapped(),
        };
        Some(outcome)
    }
}
