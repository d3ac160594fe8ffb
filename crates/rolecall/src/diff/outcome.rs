use super::{Difference, LossDifference, Opening, Refusal};

/// The outcome of a comparison. Arrays of two are in the order of the two formats.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing differs.
    Same,
    /// Only the opening tokens differ.
    Opening(Opening),
    /// The texts differ.
    Text(Box<Difference>),
    /// The texts are the same, except perhaps for the opening tokens, but the parts that carry loss
    /// differ.
    Loss(LossDifference),
    /// The served prompt is the start of the training text, but the text that follows it carries no
    /// loss: the model must write it and was never trained to.
    Untaught {
        /// The side that trains.
        by: Side,
        /// The text that carries no loss.
        text: String,
    },
    /// The learned text never contains a stop text of the side that serves.
    NeverStops {
        /// The side that trains.
        by: Side,
        /// The learned text after the answer's content.
        learned: String,
        /// The stop texts of the other side.
        stops: Vec<String>,
    },
    /// One of the formats rejects the conversation.
    OneRefuses {
        /// The side that rejects it.
        side: Side,
        /// The reason.
        error: Refusal,
    },
    /// Both formats reject the conversation, each for its own reason.
    BothRefuse([Refusal; 2]),
}

/// One of two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

impl Side {
    /// Returns the index in an array of two.
    pub fn index(self) -> usize {
        match self {
            Side::A => 0,
            Side::B => 1,
        }
    }

    /// Returns the other side.
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    /// Returns `A` or `B`.
    pub fn letter(self) -> &'static str {
        match self {
            Side::A => "A",
            Side::B => "B",
        }
    }
}

impl Outcome {
    /// Compares what two formats wrote, unless one of them rejects the conversation.
    pub(super) fn of<X, Y>(
        a: Result<&X, &Refusal>,
        b: Result<&Y, &Refusal>,
        compare: impl FnOnce(&X, &Y) -> Outcome,
    ) -> Outcome {
        match (a, b) {
            (Ok(a), Ok(b)) => compare(a, b),
            (Err(error), Ok(_)) => Outcome::OneRefuses { side: Side::A, error: error.clone() },
            (Ok(_), Err(error)) => Outcome::OneRefuses { side: Side::B, error: error.clone() },
            (Err(a), Err(b)) => Outcome::BothRefuse([a.clone(), b.clone()]),
        }
    }

    /// Reports whether the formats agree: they write the same, or both reject the conversation.
    pub fn is_same(&self) -> bool {
        matches!(self, Outcome::Same | Outcome::BothRefuse(_))
    }

    /// Returns a stable name of the kind.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Same => "same",
            Outcome::Opening(_) => "opening",
            Outcome::Text(_) => "text",
            Outcome::Loss(_) => "loss",
            Outcome::Untaught { .. } => "untaught",
            Outcome::NeverStops { .. } => "never-stops",
            Outcome::OneRefuses { .. } => "one-refuses",
            Outcome::BothRefuse(_) => "both-refuse",
        }
    }

    /// Returns the outcome with the formats in the other order.
    pub fn swapped(self) -> Outcome {
        match self {
            Outcome::Same => Outcome::Same,
            Outcome::Opening(opening) => Outcome::Opening(opening.swapped()),
            Outcome::Text(difference) => Outcome::Text(Box::new(difference.swapped())),
            Outcome::Loss(difference) => Outcome::Loss(difference.swapped()),
            Outcome::Untaught { by, text } => Outcome::Untaught { by: by.other(), text },
            Outcome::NeverStops { by, learned, stops } => Outcome::NeverStops { by: by.other(), learned, stops },
            Outcome::OneRefuses { side, error } => Outcome::OneRefuses { side: side.other(), error },
            Outcome::BothRefuse([a, b]) => Outcome::BothRefuse([b, a]),
        }
    }
}
