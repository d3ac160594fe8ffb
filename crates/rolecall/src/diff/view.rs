use super::opening::Pair;
use super::{DiffSide, Outcome, learned, served, texts};

/// An aspect in which two formats are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// The prompts to be answered.
    Chat,
    /// The training texts, and which parts of them carry loss.
    Training,
    /// Whether the second format serves what the first one trains on.
    Serving,
    /// Whether the first format serves what the second one trains on.
    ServingBack,
}

impl View {
    /// All views.
    pub const ALL: [View; 4] = [View::Chat, View::Training, View::Serving, View::ServingBack];

    /// Returns a stable name.
    pub fn name(self) -> &'static str {
        match self {
            View::Chat => "chat",
            View::Training => "training",
            View::Serving => "serving",
            View::ServingBack => "serving-back",
        }
    }

    /// Returns the outcome of the view, or `None` if it does not apply to the conversation.
    pub(super) fn compare(self, a: &DiffSide, b: &DiffSide) -> Option<Outcome> {
        let outcome = match self {
            View::Chat => {
                let named = [&*a.opens, &*b.opens].concat();
                Outcome::of(a.chat.as_ref(), b.chat.as_ref(), |a, b| texts::compare(Pair::new(a, b, &named)))
            }
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
