//! Flags for sessions.

use std::path::PathBuf;

use rolecall::encode::Protect;
use rolecall::model::{BosBy, Settings};
use rolecall::render::RuleMode;

use super::groups::{Layouts, ReasoningPolicies};
use super::words;
use crate::failure::Failure;
use crate::output::Output;
use crate::reading::ParseRun;

/// The model of a session, and how it renders and encodes.
#[derive(Debug, clap::Args)]
pub struct SessionModel {
    #[command(flatten)]
    pub layouts: Layouts,
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "model", help = words::tokenizer("The model's tokenizer"))]
    pub tokenizer: Option<PathBuf>,
    /// Who writes the BOS token [default: template]
    #[arg(long, value_parser = words::bos(), value_name = "WHO")]
    pub bos: Option<BosBy>,
    /// How to apply the format's order rules [default: enforce]
    #[arg(long, value_parser = words::rules(), value_name = "HOW")]
    pub rules: Option<RuleMode>,
    #[command(flatten)]
    pub reasoning: ReasoningPolicies,
    /// Which tokens plain text must never be encoded to
    #[arg(long, value_parser = words::protect(), default_value = "control")]
    pub protect: Protect,
}

impl SessionModel {
    /// Opens the model.
    pub fn open(&self, output: &Output) -> Result<ParseRun, Failure> {
        let mut reader = ParseRun::new(&self.layouts, self.tokenizer.as_deref(), output)?;
        let model = &reader.job.model;
        let settings = Settings {
            bos: self.bos.unwrap_or_default(),
            rules: self.rules.unwrap_or_default(),
            protect: self.protect,
            calls_in_reasoning: self.reasoning.calls_in_reasoning,
            unclosed_reasoning: self.reasoning.unclosed_reasoning,
            plain_markers: self.layouts.running.plain_markers(),
            // A session begins with the current time and keeps it; a saved one has its own.
            now: self.layouts.running.now,
            ..model.settings().clone()
        };
        reader.job.model = model.with_settings(settings);
        Ok(reader)
    }
}
