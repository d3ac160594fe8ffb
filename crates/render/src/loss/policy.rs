use rolecall_conversation::{Json, Message, Role};

/// The turns that carry loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossTurns {
    /// Every assistant message, except those that `"weight": 0`, `"loss": false` or
    /// `"train": false` leave out.
    #[default]
    Assistant,
    /// The last assistant message.
    Last,
    /// Only assistant messages that a `weight`, `loss` or `train` of their own includes.
    Chosen,
    /// The whole prompt.
    All,
}

/// Which text carries loss, and how much.
///
/// A weight of 0 leaves a part out.
///
/// ```
/// use rolecall_render::LossPolicy;
/// let mut policy = LossPolicy::assistant();
/// policy.weights.reasoning = 0.0;
/// assert_ne!(policy, LossPolicy::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LossPolicy {
    /// The turns that carry loss.
    pub turns: LossTurns,
    /// The weights of the parts of an assistant's turn.
    pub weights: PartWeights,
    /// Other roles that carry loss.
    pub roles: Vec<RoleLoss>,
    /// Whether a chat template's `{% generation %}` blocks determine what the model writes, instead
    /// of the origins.
    pub tagged: bool,
    /// What to do if the template does not write the stop token of the last reply.
    pub final_stop: FinalStop,
    /// Whether a stop token that is in the prompt may be left out of the loss.
    pub allow_masked_stop: bool,
    /// Whether it is acceptable that nothing carries loss.
    pub allow_empty: bool,
}

/// The weights of the parts of an assistant's turn.
///
/// The text of the template between two parts has the weight of the part that it opens or closes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartWeights {
    /// The reasoning.
    pub reasoning: f32,
    /// The content.
    pub content: f32,
    /// The tool calls and the code.
    pub calls: f32,
    /// The token that ends the turn.
    pub closer: f32,
}

impl Default for PartWeights {
    fn default() -> PartWeights {
        PartWeights { reasoning: 1.0, content: 1.0, calls: 1.0, closer: 1.0 }
    }
}

/// A role other than the assistant whose messages carry loss.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleLoss {
    /// The role.
    pub role: Role,
    /// Whether the whole turn carries loss, including the text of the format or template. Otherwise
    /// only the content of the message does.
    pub whole_turn: bool,
    /// The weight.
    pub weight: f32,
}

/// What to do if the template does not write the stop token of the last reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FinalStop {
    /// Add a [note](crate::LossNote::NoStop).
    #[default]
    Warn,
    /// Return an error.
    Refuse,
    /// Nothing: the caller has appended a stop token, or does not want one.
    Ignore,
}

impl LossPolicy {
    /// Every assistant message carries loss.
    pub fn assistant() -> LossPolicy {
        LossPolicy::default()
    }

    /// The last assistant message carries loss.
    pub fn last() -> LossPolicy {
        LossPolicy { turns: LossTurns::Last, ..LossPolicy::default() }
    }

    /// Only the assistant messages that choose it themselves carry loss.
    pub fn chosen() -> LossPolicy {
        LossPolicy { turns: LossTurns::Chosen, ..LossPolicy::default() }
    }

    /// The whole prompt carries loss.
    pub fn all() -> LossPolicy {
        LossPolicy { turns: LossTurns::All, ..LossPolicy::default() }
    }

    /// Returns the weight of a message among those that the policy selects.
    pub(super) fn weight_of(&self, message: Option<&Message>) -> f32 {
        match (message.map_or(Choice::Unset, choice), self.turns) {
            (Choice::Weight(weight), _) => weight,
            (Choice::Unset, LossTurns::Chosen) => 0.0,
            (Choice::Unset, _) => 1.0,
        }
    }
}

/// What a message says about its own loss.
enum Choice {
    Unset,
    Weight(f32),
}

/// Reads the message's own setting: `weight` as in OpenAI's fine-tuning, or `loss` or `train` as in
/// other trainers. The smallest weight wins.
fn choice(message: &Message) -> Choice {
    let object = message.as_object();
    let mut least: Option<f32> = None;
    let mut add = |weight: f32| least = Some(least.map_or(weight, |least| least.min(weight)));
    if let Some(Json::Number(number)) = object.get("weight")
        && let Some(weight) = number.as_f64()
    {
        add(weight.max(0.0) as f32);
    }
    for key in ["loss", "train"] {
        match object.get(key) {
            Some(Json::Bool(is_in)) => add(f32::from(*is_in)),
            // XTuner: a string means true only if it is `true` (ignoring case) or `1`.
            Some(Json::String(text)) => add(f32::from(text.eq_ignore_ascii_case("true") || text == "1")),
            _ => {}
        }
    }
    least.map_or(Choice::Unset, Choice::Weight)
}
