use crate::Header;

/// Deviations of a family's models from their layouts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Markers that the models may write before a call: `call-marks`.
    pub call_marks: Vec<String>,
    /// Markers of a call that the models may leave out: `may-omit`.
    pub may_omit: Vec<String>,
    /// Markers of the family's prompts that no layout of the reply has: `other-marks`. They have no
    /// meaning in a reply, so the parser reports them.
    pub other_marks: Vec<String>,
    /// Whether white space around a reply's text and header lines means nothing: `trims`.
    pub trims: bool,
    /// The default treatment of calls inside reasoning: `calls-in-reasoning`.
    pub calls_in_reasoning: CallsInReasoning,
    /// The header of each message, if a reply consists of several: `[reading.header]`. Replies are
    /// then parsed by this header, and the layouts are used only for writing.
    pub header: Option<Header>,
}

/// How to treat a call inside reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallsInReasoning {
    /// As a call if the turn ends after it and the reasoning is never closed, and as reasoning
    /// otherwise: `unclosed`. The parser holds the call back until it knows.
    #[default]
    Unclosed,
    /// As reasoning: `draft`.
    Draft,
    /// As a call, which ends the reasoning: `call`.
    Call,
}

impl CallsInReasoning {
    /// The values by their names in files and options, the default first.
    pub const ALL: [(&'static str, CallsInReasoning); 3] = [
        ("unclosed", CallsInReasoning::Unclosed),
        ("draft", CallsInReasoning::Draft),
        ("call", CallsInReasoning::Call),
    ];

    /// Returns the value with a name.
    pub fn from_key(key: &str) -> Option<CallsInReasoning> {
        CallsInReasoning::ALL.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// Returns the value's name.
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
