//! The words with which a caller says which text carries loss. The command and the Python package
//! share them.

use rolecall_conversation::Role;

use crate::loss::{FinalStop, GREATEST_WEIGHT, LossPolicy, PartWeights, RoleLoss};

/// Which text carries loss, as a caller asks for it.
///
/// ```
/// use rolecall::training::{LossOptions, Whose};
/// let options = LossOptions { allow: vec![], ..LossOptions::of(Whose::Tagged) };
/// assert!(options.policy().tagged);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LossOptions {
    /// Whose text carries loss.
    pub whose: Whose,
    /// The weights of parts of replies.
    pub parts: Vec<(LossPart, f32)>,
    /// The roles besides the assistant whose text carries loss.
    pub roles: Vec<RoleLoss>,
    /// What to do if the template writes no stop token after the last reply.
    pub final_stop: MissingStop,
    /// What to accept that is otherwise an error.
    pub allow: Vec<LossExemption>,
}

/// Whose text carries loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Every assistant message, except those that say otherwise.
    Assistant,
    /// The last assistant message.
    Last,
    /// Only assistant messages that say so.
    Chosen,
    /// What the chat template marks with `{% generation %}`.
    Tagged,
    /// The whole text.
    All,
}

/// What to do if the template writes no stop token after the last reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingStop {
    /// Append the model's stop token.
    Append,
    /// Warn.
    #[default]
    Warn,
    /// Refuse the conversation.
    Refuse,
}

/// What is accepted that is otherwise an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossExemption {
    /// A stop token without loss after a reply that carries loss.
    MaskedStop,
    /// A conversation in which nothing carries loss.
    NoLoss,
    /// The word `None` that a template writes for a null content, and that carries loss.
    NullWord,
}

impl Whose {
    /// The values by their words.
    pub const ALL: [(&'static str, Whose); 5] = [
        ("assistant", Whose::Assistant),
        ("last", Whose::Last),
        ("chosen", Whose::Chosen),
        ("tagged", Whose::Tagged),
        ("all", Whose::All),
    ];
}

impl MissingStop {
    /// The values by their words.
    pub const ALL: [(&'static str, MissingStop); 3] =
        [("append", MissingStop::Append), ("warn", MissingStop::Warn), ("refuse", MissingStop::Refuse)];
}

impl LossExemption {
    /// The values by their words.
    pub const ALL: [(&'static str, LossExemption); 3] = [
        ("masked-stop", LossExemption::MaskedStop),
        ("no-loss", LossExemption::NoLoss),
        ("null-word", LossExemption::NullWord),
    ];
}

impl LossOptions {
    /// Returns the options for text that carries loss, without anything else.
    pub fn of(whose: Whose) -> LossOptions {
        let (parts, roles, allow) = (Vec::new(), Vec::new(), Vec::new());
        LossOptions { whose, parts, roles, final_stop: MissingStop::default(), allow }
    }

    /// Returns the policy that the options ask for.
    pub fn policy(&self) -> LossPolicy {
        let mut policy = match self.whose {
            Whose::Assistant | Whose::Tagged => LossPolicy::assistant(),
            Whose::Last => LossPolicy::last(),
            Whose::Chosen => LossPolicy::chosen(),
            Whose::All => LossPolicy::all(),
        };
        policy.tagged = self.whose == Whose::Tagged;
        for (part, weight) in &self.parts {
            part.set(&mut policy.weights, *weight);
        }
        policy.roles.clone_from(&self.roles);
        policy.final_stop = match self.final_stop {
            MissingStop::Refuse => FinalStop::Refuse,
            // If nothing can be appended, that is worth a warning.
            MissingStop::Append | MissingStop::Warn => FinalStop::Warn,
        };
        policy.allow_masked_stop = self.allow.contains(&LossExemption::MaskedStop);
        policy.allow_null_word = self.allow.contains(&LossExemption::NullWord);
        policy.allow_empty = self.allow.contains(&LossExemption::NoLoss);
        policy
    }
}

/// A part of a reply that has a weight of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossPart {
    /// The reasoning.
    Reasoning,
    /// The content.
    Content,
    /// The tool calls and the code.
    Calls,
    /// The token that ends the turn.
    Stop,
}

impl LossPart {
    /// Sets the weight of the part.
    pub fn set(self, weights: &mut PartWeights, weight: f32) {
        *match self {
            LossPart::Reasoning => &mut weights.reasoning,
            LossPart::Content => &mut weights.content,
            LossPart::Calls => &mut weights.calls,
            LossPart::Stop => &mut weights.closer,
        } = weight;
    }
}

/// Reads the weight of a part of a reply: `reasoning=0`.
pub fn read_part(text: &str) -> Result<(LossPart, f32), String> {
    let (part, weight) = text.split_once('=').ok_or("expected PART=N")?;
    let part = match part {
        "reasoning" => LossPart::Reasoning,
        "content" => LossPart::Content,
        "calls" => LossPart::Calls,
        "stop" => LossPart::Stop,
        _ => return Err(format!("expected `reasoning`, `content`, `calls` or `stop`, found `{part}`")),
    };
    Ok((part, read_weight(weight)?))
}

/// Reads a role whose text carries loss: `tool`, `tool:turn`, `tool=0.5`.
pub fn read_role(text: &str) -> Result<RoleLoss, String> {
    let (name, weight) = match text.split_once('=') {
        Some((name, weight)) => (name, read_weight(weight)?),
        None => (text, 1.0),
    };
    let (name, whole_turn) = match name.split_once(':') {
        Some((name, "turn")) => (name, true),
        Some((_, other)) => return Err(format!("expected `:turn` after the role, found `:{other}`")),
        None => (name, false),
    };
    match Role::from_name(name) {
        Role::Assistant => Err("set the weights of replies with `--loss-weight`".into()),
        Role::Other(name) if name.is_empty() => Err("expected the name of a role".into()),
        role => Ok(RoleLoss { role, whole_turn, weight }),
    }
}

fn read_weight(text: &str) -> Result<f32, String> {
    let weight = text.parse().ok().filter(|weight| (0.0..=GREATEST_WEIGHT).contains(weight));
    weight.ok_or_else(|| format!("expected a weight from 0 to {GREATEST_WEIGHT}, found `{text}`"))
}
