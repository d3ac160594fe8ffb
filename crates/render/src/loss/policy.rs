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
    /// Whether the word `None` that a template writes for a null content may carry loss.
    pub allow_null_word: bool,
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

/// A part of a reply that has a weight of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyPart {
    /// The reasoning.
    Reasoning,
    /// The content.
    Content,
    /// The tool calls and the code.
    Calls,
}

impl PartWeights {
    /// Returns the weight of a part.
    pub fn of(&self, part: ReplyPart) -> f32 {
        match part {
            ReplyPart::Reasoning => self.reasoning,
            ReplyPart::Content => self.content,
            ReplyPart::Calls => self.calls,
        }
    }

    /// Reports whether all parts before the closer have the same weight.
    pub fn is_even(&self) -> bool {
        self.reasoning == self.content && self.content == self.calls
    }
}

impl ReplyPart {
    /// Returns the length of the text between two parts that closes this one. The rest opens the
    /// part `after` it.
    pub fn closing_length(self, between: &str, after: ReplyPart) -> usize {
        match (self, after) {
            (ReplyPart::Content, _) => 0,
            (_, ReplyPart::Content) => between.len(),
            // Closes the first part and opens the second: the closing marker ends at white space or
            // where the next marker begins.
            _ => {
                let start = between.len() - between.trim_start().len();
                let word = between[start..].find(char::is_whitespace).map(|at| start + at);
                let marker = between[start..].find("><").map(|at| start + at + 1);
                match (word, marker) {
                    (Some(word), marker) if marker.is_none_or(|marker| word < marker) => {
                        between.len() - between[word..].trim_start().len()
                    }
                    (_, Some(marker)) => marker,
                    _ => between.len(),
                }
            }
        }
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
    pub fn weight_of(&self, message: Option<&Message>) -> f32 {
        match (message.and_then(LossPolicy::own_weight), self.turns) {
            (Some(weight), _) => weight,
            (None, LossTurns::Chosen) => 0.0,
            (None, _) => 1.0,
        }
    }

    /// Returns the weight of a reply, which is 0 if the policy does not select it.
    pub fn weight_of_reply(&self, message: Option<&Message>, is_last: bool) -> f32 {
        match self.turns == LossTurns::Last && !is_last {
            true => 0.0,
            false => self.weight_of(message),
        }
    }

    /// Returns the weight that one of the policy's [`roles`](Self::roles) gives to a message, or
    /// `None` if the message has another role.
    pub fn weight_of_role(&self, role: &RoleLoss, message: &Message) -> Option<f32> {
        if *message.role() != role.role {
            return None;
        }
        // A role that is named in the policy carries loss even if messages must choose it.
        let weight = if self.turns == LossTurns::Chosen { 1.0 } else { self.weight_of(Some(message)).min(1.0) };
        Some(weight * role.weight)
    }

    /// Returns the weight that a message itself sets: `weight` as in OpenAI's fine-tuning, or
    /// `loss` or `train` as in other trainers. The smallest weight wins.
    pub fn own_weight(message: &Message) -> Option<f32> {
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
        least
    }
}
