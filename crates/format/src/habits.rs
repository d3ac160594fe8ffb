/// What a family's models write otherwise than their layouts say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Marks that may stand before a call: `call-marks`.
    pub call_marks: Vec<String>,
    /// Whether calls inside reasoning are meant, where a reader does not say otherwise: `calls-in-reasoning = "call"`.
    pub calls_in_reasoning: bool,
}
