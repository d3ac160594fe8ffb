//! Flags for training text.

use std::num::NonZeroUsize;

use clap::ValueEnum;
use rolecall::loss::{Edges, FinalStop, LossPolicy, RoleLoss};
use rolecall::training::{Limit, LossPart, Samples, Truncate, limit, read_part, read_role};

/// Training text, and which tokens carry loss.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Training")]
pub struct Training {
    /// Render training text and show which tokens carry loss; ends without the generation prompt
    #[arg(
        long,
        value_enum,
        value_name = "WHOSE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "assistant",
        conflicts_with_all = ["generation_prompt", "continue_final_message"]
    )]
    pub for_training: Option<LossArg>,
    /// The loss weight of a part of each reply: `reasoning`, `content`, `calls` or `stop`, e.g.
    /// reasoning=0; 0 is without loss; may be repeated
    #[arg(long = "loss-weight", value_name = "PART=N", value_parser = read_part, value_delimiter = ',', requires = "for_training")]
    pub parts: Vec<(LossPart, f32)>,
    /// Also train on the text of another role, e.g. tool; `tool:turn` includes the template's text
    /// around it, and `tool=0.5` gives it a weight; may be repeated
    #[arg(long = "loss-role", value_name = "ROLE[:turn][=N]", value_parser = read_role, value_delimiter = ',', requires = "for_training")]
    pub roles: Vec<RoleLoss>,
    /// Whether a token carries loss if any or all of its bytes do [default: any]
    #[arg(long, value_enum, value_name = "WHICH", requires = "for_training")]
    pub edges: Option<EdgesArg>,
    /// What to do if the template writes no stop token after the last reply [default: warn]
    #[arg(long, value_enum, value_name = "WHAT", requires = "for_training")]
    pub final_stop: Option<FinalStopArg>,
    /// Accept what is otherwise an error; may be repeated
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',', requires = "for_training")]
    pub allow: Vec<AllowArg>,
}

/// Which ids of a rollout carry loss.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Training")]
pub struct RolloutLoss {
    /// Whose ids carry loss
    #[arg(long, value_enum, value_name = "WHOSE", default_value = "assistant")]
    pub for_training: LossArg,
    /// The loss weight of a part of each reply: `reasoning`, `content`, `calls` or `stop`, e.g.
    /// reasoning=0; 0 is without loss; may be repeated
    #[arg(long = "loss-weight", value_name = "PART=N", value_parser = read_part, value_delimiter = ',')]
    pub parts: Vec<(LossPart, f32)>,
    /// Also train on the text of another role, e.g. tool; `tool:turn` includes the template's text
    /// around it, and `tool=0.5` gives it a weight; may be repeated
    #[arg(long = "loss-role", value_name = "ROLE[:turn][=N]", value_parser = read_role, value_delimiter = ',')]
    pub roles: Vec<RoleLoss>,
    /// Accept what is otherwise an error; may be repeated
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub allow: Vec<AllowArg>,
}

impl RolloutLoss {
    /// Returns which ids carry loss.
    pub fn policy(&self) -> LossPolicy {
        let training = Training {
            for_training: Some(self.for_training),
            parts: self.parts.clone(),
            roles: self.roles.clone(),
            allow: self.allow.clone(),
            ..Training::default()
        };
        training.policy().unwrap_or_else(LossPolicy::assistant)
    }
}

/// How conversations become samples.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Samples")]
#[command(group = clap::ArgGroup::new("lengths").args(["max_tokens", "pack"]).multiple(true))]
pub struct SampleFlags {
    /// Truncate to this many ids, loss mask included; every truncation is reported
    #[arg(long, value_name = "N", alias = "max-length")]
    pub max_tokens: Option<NonZeroUsize>,
    /// How to truncate [default: right]
    #[arg(long, value_enum, value_name = "HOW", requires = "lengths")]
    pub truncate: Option<TruncateArg>,
    /// Write the loss weight of each id to Arrow and Parquet files, even if the flags give no
    /// weights other than 0 and 1; messages may have their own `weight`
    #[arg(long, requires = "for_training")]
    pub loss_weights: bool,
    /// How to divide a conversation into samples [default: whole]
    #[arg(long, value_enum, value_name = "HOW", requires_all = ["for_training", "jsonl"])]
    pub samples: Option<SamplesArg>,
    /// Pack the samples in sequences of at most this many ids; a longer sample is refused, or
    /// truncated with --truncate
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)),
        requires_all = ["for_training", "jsonl"],
        conflicts_with_all = ["resume", "with_text"]
    )]
    pub pack: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SamplesArg {
    /// One sample, rendered as a whole
    Whole,
    /// One sample per reply
    Turns,
    /// One sample as long as the template keeps what it wrote, and a new one after each change, so
    /// that every reply follows what the server saw
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TruncateArg {
    /// Remove ids from the end
    Right,
    /// Remove whole turns of the text from the start
    Left,
    /// Remove the oldest turns of the conversation and render the rest; system messages, tools, and
    /// calls with their results stay whole
    Oldest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LossArg {
    /// Every assistant message, except those with `"weight": 0`, `"loss": false` or `"train": false`
    Assistant,
    /// The last assistant message
    Last,
    /// Only assistant messages with a `weight`, `loss` or `train` that includes them
    Chosen,
    /// What the chat template marks with `{% generation %}`
    Tagged,
    /// The whole text
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EdgesArg {
    /// If any byte does, with the greatest weight among them
    Any,
    /// If all bytes do, with the least weight among them
    Strict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FinalStopArg {
    /// Append the model's stop token
    Append,
    /// Warn
    Warn,
    /// Refuse the conversation
    Refuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AllowArg {
    /// A stop token without loss after a reply that carries loss
    MaskedStop,
    /// A conversation in which nothing carries loss
    NoLoss,
}

impl SampleFlags {
    pub fn limit(&self) -> Option<Limit> {
        let by = match self.truncate {
            None | Some(TruncateArg::Right) => Truncate::Right,
            Some(TruncateArg::Left) => Truncate::Left,
            Some(TruncateArg::Oldest) => Truncate::Oldest,
        };
        limit(self.max_tokens, self.truncate.map(|_| by), self.pack)
    }

    pub fn samples(&self) -> Samples {
        match self.samples {
            None | Some(SamplesArg::Whole) => Samples::Whole,
            Some(SamplesArg::Turns) => Samples::Turns,
            Some(SamplesArg::Auto) => Samples::AsServed,
        }
    }
}

impl Training {
    /// Returns which text carries loss, if that was requested.
    pub fn policy(&self) -> Option<LossPolicy> {
        let mut policy = match self.for_training? {
            LossArg::Assistant | LossArg::Tagged => LossPolicy::assistant(),
            LossArg::Last => LossPolicy::last(),
            LossArg::Chosen => LossPolicy::chosen(),
            LossArg::All => LossPolicy::all(),
        };
        policy.tagged = self.for_training == Some(LossArg::Tagged);
        for (part, weight) in &self.parts {
            part.set(&mut policy.weights, *weight);
        }
        policy.roles.clone_from(&self.roles);
        policy.final_stop = match self.final_stop {
            Some(FinalStopArg::Refuse) => FinalStop::Refuse,
            // If nothing can be appended, that is worth a warning.
            None | Some(FinalStopArg::Append | FinalStopArg::Warn) => FinalStop::Warn,
        };
        policy.allow_masked_stop = self.allow.contains(&AllowArg::MaskedStop);
        policy.allow_empty = self.allow.contains(&AllowArg::NoLoss);
        Some(policy)
    }

    pub fn edges(&self) -> Edges {
        match self.edges {
            None | Some(EdgesArg::Any) => Edges::Any,
            Some(EdgesArg::Strict) => Edges::Strict,
        }
    }

    /// Reports whether a missing stop token is to be appended.
    pub fn appends_stop(&self) -> bool {
        self.final_stop == Some(FinalStopArg::Append)
    }

    /// Reports whether the flags give weights other than 0 and 1.
    pub fn has_weights(&self) -> bool {
        let weights = self.parts.iter().map(|(_, weight)| *weight).chain(self.roles.iter().map(|role| role.weight));
        weights.into_iter().any(|weight| weight != 0.0 && weight != 1.0)
    }
}
