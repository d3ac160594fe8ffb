/// What a family's models write otherwise than their layouts say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Marks that may stand before a call: `call-marks`.
    pub call_marks: Vec<String>,
    /// What a call inside reasoning is, where a reader does not say otherwise: `calls-in-reasoning`.
    pub calls_in_reasoning: CallsInReasoning,
}

/// What a call inside reasoning is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallsInReasoning {
    /// A draft: reasoning like any other. `draft`
    #[default]
    Draft,
    /// A call, if the turn ends behind it and the reasoning was never closed; otherwise a draft. It is kept back until that is
    /// known. `unclosed`
    Unclosed,
    /// A call, which ends the reasoning. `call`
    Call,
}

impl CallsInReasoning {
    /// The values as files and options name them, the default first.
    pub const ALL: [(&'static str, CallsInReasoning); 3] = [
        ("draft", CallsInReasoning::Draft),
        ("unclosed", CallsInReasoning::Unclosed),
        ("call", CallsInReasoning::Call),
    ];

    /// The value of a name.
    pub fn from_key(key: &str) -> Option<CallsInReasoning> {
        CallsInReasoning::ALL.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// Its name.
    pub fn key(self) -> &'static str {
        CallsInReasoning::ALL.iter().find(|(_, value)| *value == self).map_or("", |(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::CallsInReasoning;

    #[test]
    fn every_value_has_a_name_of_its_own() {
        for (key, value) in CallsInReasoning::ALL {
            assert_eq!((value.key(), CallsInReasoning::from_key(key)), (key, Some(value)));
        }
    }
}
