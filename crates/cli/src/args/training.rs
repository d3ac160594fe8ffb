//! Flags for training text.

use std::num::NonZeroUsize;

use rolecall::loss::{Edges, LossPolicy, RoleLoss};
use rolecall::training::{
    Limit, LossExemption, LossOptions, LossPart, MissingStop, Samples, Truncate, Whose, limit, read_part, read_role,
};

use super::words;

/// Training text, and which tokens carry loss.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Training")]
pub struct Training {
    /// Render training text and show which tokens carry loss; ends without the generation prompt
    #[arg(
        long,
        value_parser = words::whose(),
        value_name = "WHOSE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "assistant",
        conflicts_with_all = ["generation_prompt", "continue_final_message"]
    )]
    pub for_training: Option<Whose>,
    /// The loss weight of a part of each reply: `reasoning`, `content`, `calls` or `stop`, e.g.
    /// reasoning=0; 0 is without loss; may be repeated
    #[arg(long = "loss-weight", value_name = "PART=N", value_parser = read_part, value_delimiter = ',', requires = "for_training")]
    pub parts: Vec<(LossPart, f32)>,
    /// Also train on the text of another role, e.g. tool; `tool:turn` includes the template's text
    /// around it, and `tool=0.5` gives it a weight; may be repeated
    #[arg(long = "loss-role", value_name = "ROLE[:turn][=N]", value_parser = read_role, value_delimiter = ',', requires = "for_training")]
    pub roles: Vec<RoleLoss>,
    /// Whether a token carries loss if any or all of its bytes do [default: any]
    #[arg(long, value_parser = words::edges(), value_name = "WHICH", requires = "for_training")]
    pub edges: Option<Edges>,
    /// What to do if the template writes no stop token after the last reply [default: warn]
    #[arg(long, value_parser = words::missing_stop(), value_name = "WHAT", requires = "for_training")]
    pub final_stop: Option<MissingStop>,
    /// Accept what is otherwise an error; may be repeated
    #[arg(long, value_parser = words::allowed(), value_name = "WHAT", value_delimiter = ',', requires = "for_training")]
    pub allow: Vec<LossExemption>,
}

/// Which ids of a rollout carry loss.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Training")]
pub struct RolloutLoss {
    /// Whose ids carry loss
    #[arg(long, value_parser = words::whose(), value_name = "WHOSE", default_value = "assistant")]
    pub for_training: Whose,
    /// The loss weight of a part of each reply: `reasoning`, `content`, `calls` or `stop`, e.g.
    /// reasoning=0; 0 is without loss; may be repeated
    #[arg(long = "loss-weight", value_name = "PART=N", value_parser = read_part, value_delimiter = ',')]
    pub parts: Vec<(LossPart, f32)>,
    /// Also train on the text of another role, e.g. tool; `tool:turn` includes the template's text
    /// around it, and `tool=0.5` gives it a weight; may be repeated
    #[arg(long = "loss-role", value_name = "ROLE[:turn][=N]", value_parser = read_role, value_delimiter = ',')]
    pub roles: Vec<RoleLoss>,
    /// Accept what is otherwise an error; may be repeated
    #[arg(long, value_parser = words::allowed(), value_name = "WHAT", value_delimiter = ',')]
    pub allow: Vec<LossExemption>,
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
    #[arg(long, value_parser = words::truncate(), value_name = "HOW", requires = "lengths")]
    pub truncate: Option<Truncate>,
    /// Write the loss weight of each id to Arrow and Parquet files, even if the flags give no
    /// weights other than 0 and 1; messages may have their own `weight`
    #[arg(long, requires = "for_training")]
    pub loss_weights: bool,
    /// How to divide a conversation into samples [default: whole]
    #[arg(long, value_parser = words::samples(), value_name = "HOW", requires_all = ["for_training", "jsonl"])]
    pub samples: Option<Samples>,
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

impl SampleFlags {
    pub fn limit(&self) -> Option<Limit> {
        limit(self.max_tokens, self.truncate, self.pack)
    }

    pub fn samples(&self) -> Samples {
        self.samples.unwrap_or_default()
    }
}

impl Training {
    /// Returns which text carries loss, if that was requested.
    pub fn policy(&self) -> Option<LossPolicy> {
        let options = LossOptions {
            whose: self.for_training?,
            parts: self.parts.clone(),
            roles: self.roles.clone(),
            final_stop: self.final_stop.unwrap_or_default(),
            allow: self.allow.clone(),
        };
        Some(options.policy())
    }

    pub fn edges(&self) -> Edges {
        self.edges.unwrap_or_default()
    }

    /// Reports whether a missing stop token is to be appended.
    pub fn appends_stop(&self) -> bool {
        self.final_stop == Some(MissingStop::Append)
    }

    /// Reports whether the flags give weights other than 0 and 1.
    pub fn has_weights(&self) -> bool {
        let weights = self.parts.iter().map(|(_, weight)| *weight).chain(self.roles.iter().map(|role| role.weight));
        weights.into_iter().any(|weight| weight != 0.0 && weight != 1.0)
    }
}
