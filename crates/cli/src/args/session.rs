//! Flags for sessions.

use std::path::PathBuf;

use rolecall::model::Settings;
use rolecall::render::RuleMode;

use super::groups::Layouts;
use super::values::{BosArg, ProtectArg, RulesArg};
use crate::failure::Failure;
use crate::output::Output;
use crate::reading::Reader;

/// The model of a session, and how it renders and encodes.
#[derive(Debug, clap::Args)]
pub struct SessionModel {
    #[command(flatten)]
    pub layouts: Layouts,
    /// The model's tokenizer: a tokenizer.json, a sentencepiece .model, tiktoken ranks, a
    /// tekken.json, a GGUF file, or a folder that contains one
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "model")]
    pub tokenizer: Option<PathBuf>,
    /// Who writes the BOS token [default: template]
    #[arg(long, value_enum, value_name = "WHO")]
    pub bos: Option<BosArg>,
    /// How to apply the format's order rules [default: enforce]
    #[arg(long, value_enum, value_name = "HOW")]
    pub rules: Option<RulesArg>,
    /// Which tokens plain text must never be encoded to
    #[arg(long, value_enum, default_value_t = ProtectArg::Control)]
    pub protect: ProtectArg,
}

impl SessionModel {
    /// Opens the model.
    pub fn open(&self, output: &Output) -> Result<Reader, Failure> {
        let mut reader = Reader::new(&self.layouts, self.tokenizer.as_deref(), true, output)?;
        let model = &reader.job.model;
        let settings = Settings {
            bos: self.bos.map(BosArg::by).unwrap_or_default(),
            rules: self.rules.map_or(RuleMode::default(), |rules| rules.mode()),
            protect: self.protect.mode(),
            // A session begins with the current time and keeps it; a saved one has its own.
            now: self.layouts.running.now,
            ..model.settings().clone()
        };
        reader.job.model = model.with_settings(settings);
        Ok(reader)
    }
}
