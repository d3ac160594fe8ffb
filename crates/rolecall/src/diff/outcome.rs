use super::{Difference, LossDifference, Opening, Refusal};

/// What came of a comparison. Lists of two are in the order of the two formats.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing differs.
    Same,
    /// Only the token that opens the prompt does.
    Opening(Opening),
    /// The text does.
    Text(Box<Difference>),
    /// The text is the same (but perhaps for the opening token), and what is learned of it is not.
    Loss(LossDifference),
    /// What is served is how the learned text begins, and this comes next, before anything is learned: the model is to
    /// write it and was never taught to.
    Untaught {
        /// Who trains.
        by: Side,
        /// What is not learned.
        text: String,
    },
    /// What is learned never has a text that the one who serves stops at.
    NeverStops {
        /// Who trains.
        by: Side,
        /// What is learned behind the answer's own text.
        learned: String,
        /// Where the other stops.
        stops: Vec<String>,
    },
    /// One of the formats refuses the conversation.
    OneRefuses {
        /// Which.
        side: Side,
        /// Why.
        error: Refusal,
    },
    /// Both refuse it, each for its own reason.
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
    /// Its place in a list of two.
    pub fn index(self) -> usize {
        match self {
            Side::A => 0,
            Side::B => 1,
        }
    }

    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    /// `A` or `B`
    pub fn letter(self) -> &'static str {
        match self {
            Side::A => "A",
            Side::B => "B",
        }
    }
}

impl Outcome {
    /// Compares what two formats wrote, if neither refuses.
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

    /// Whether the formats agree: they write the same, or both refuse.
    pub fn is_same(&self) -> bool {
        matches!(self, Outcome::Same | Outcome::BothRefuse(_))
    }

    /// A stable name of the kind.
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

    /// The same with the formats in the other order.
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
