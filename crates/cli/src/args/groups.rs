//! Flags that several commands share.

use super::training::Training;
use super::words;
use crate::flags::read_limit;
use crate::row_kind::RowKind;
use rolecall::dataset::Shape;
use rolecall::encode::{PlainMarkers, Protect};
use rolecall::model::BosBy;
use rolecall::parse::CallsInReasoning;
use rolecall::parse::Ids;
use rolecall::parse::JsonPolicy;
use rolecall::parse::ParseOptions;
use rolecall::parse::TextAfterCalls;
use rolecall::parse::UnclosedReasoning;
use rolecall::parse::UnknownNames;
use rolecall::render::RuleMode;
use rolecall::template::DateTime;
use rolecall::template::Forms;
use rolecall::template::jinja::LimitKind;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Formats in addition to the built-in ones.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MoreFormats {
    /// Load additional formats: every .toml file in a folder
    #[arg(long, value_name = "DIR")]
    pub formats: Option<PathBuf>,
    /// Let a format file replace an existing format of the same name
    #[arg(long)]
    pub replace: bool,
}

/// The model or format that a command works with.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ModelArgs {
    /// The model: its folder, a GGUF file, or its name. The format or chat template, tokenizer,
    /// stop tokens and sampling defaults come from the model unless another flag sets them
    #[arg(short, long, value_name = "DIR|FILE|NAME")]
    pub model: Option<PathBuf>,
    /// The format: a name (see `rolecall formats`), a .toml file, or another framework's template
    /// as .json or .py; a `format` in the input takes precedence
    #[arg(short, long, value_name = "NAME|FILE")]
    pub format: Option<String>,
    #[command(flatten)]
    pub more: MoreFormats,
}

/// How a model's own chat template runs.
#[derive(Clone, Debug, clap::Args)]
pub struct Running {
    /// Which chat template to use if the model has several [default: `tool_use` for conversations
    /// with tools, else `default`]
    #[arg(long, value_name = "NAME", requires = "templated")]
    pub template_name: Option<String>,
    /// The time that the template gets from `strftime_now`, e.g. 2026-11-21T12:34:56 [default: the
    /// current time, in UTC]
    #[arg(long, value_name = "TIME", requires = "templated")]
    pub now: Option<DateTime>,
    /// Set a resource limit of the template: `instructions`; `output`, `memory` and `source` in
    /// bytes; `loop` in items; `integer` in bits; may be repeated
    #[arg(long = "limit", value_name = "NAME=N", value_parser = read_limit)]
    pub limits: Vec<(LimitKind, u64)>,
    /// Encode markers that the template writes around turns and that are not tokens of the tokenizer
    /// as text. Otherwise such a template is refused, because it belongs to another model
    #[arg(long, requires = "templated")]
    pub plain_markers: bool,
}

impl Running {
    /// Returns what to do about markers that are not tokens.
    pub fn plain_markers(&self) -> PlainMarkers {
        if self.plain_markers { PlainMarkers::Allow } else { PlainMarkers::Refuse }
    }
}

/// The layouts by which model output is parsed.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("templated").args(["template", "model"]).multiple(true))]
pub struct Layouts {
    #[command(flatten)]
    pub named: ModelArgs,
    /// Use layouts inferred from a chat template (Jinja): a .jinja file, a tokenizer_config.json, a
    /// GGUF file, or a model's folder
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["format", "formats"])]
    pub template: Option<PathBuf>,
    #[command(flatten)]
    pub running: Running,
    /// Set an option of the format or a switch of the template, e.g. enable_thinking=false; may be
    /// repeated
    #[arg(short, long = "option", value_name = "NAME=VALUE", value_parser = read_option)]
    pub options: Vec<(String, String)>,
    /// The BOS token, if the files of --template do not name it
    #[arg(long = "bos-token", value_name = "TOKEN")]
    pub bos_tokens: Vec<String>,
    /// The EOS token, if the files of --template do not name it
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
}

/// Parsing policies for ambiguous or invalid model output.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
pub struct Policies {
    #[command(flatten)]
    pub reasoning: ReasoningPolicies,
    /// How to treat calls to unknown tools [default: pass]
    #[arg(long, value_parser = words::unknown_names(), value_name = "WHAT")]
    pub unknown_names: Option<UnknownNames>,
    /// How to treat text after a tool call [default: content]
    #[arg(long, value_parser = words::text_after_calls(), value_name = "WHAT")]
    pub text_after_calls: Option<TextAfterCalls>,
    /// Accept only strict JSON
    #[arg(long)]
    pub strict_json: bool,
    /// Check arguments against the tools' schemas and report mismatches; nothing is dropped
    #[arg(long)]
    pub check_schema: bool,
    /// The maximum number of tool calls per turn; anything after them is text
    #[arg(long, value_name = "N")]
    pub max_calls: Option<usize>,
    /// The seed for generated call ids, if the model writes none; the same seed gives the same ids
    /// (with --jsonl, the line number is added to it) [default: random, or 0 with --jsonl]
    #[arg(long, value_name = "N")]
    pub id_seed: Option<u64>,
}

/// Policies for reasoning that the model does not close.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ReasoningPolicies {
    /// How to treat a tool call inside reasoning [default: as the format says, or unclosed]
    #[arg(long, value_parser = words::calls_in_reasoning(), value_name = "WHAT")]
    pub calls_in_reasoning: Option<CallsInReasoning>,
    /// How to treat reasoning that is still open when the model ends its turn; it is reported in any case
    /// [default: reasoning]
    #[arg(long, value_parser = words::unclosed_reasoning(), value_name = "WHAT")]
    pub unclosed_reasoning: Option<UnclosedReasoning>,
}

/// A conversation and how to render it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Chat {
    /// The conversation: a JSON object as OpenAI's API takes it, or a list of messages; reads
    /// standard input if `-` or omitted. With --jsonl, several files and patterns such as
    /// `data/*.jsonl` are accepted. Files compressed with gzip or zstd are decompressed
    #[arg(value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// The shape of the data, if its keys do not determine it
    #[arg(long, value_parser = words::shape(), value_name = "SHAPE")]
    pub shape: Option<Shape>,
    #[command(flatten)]
    pub named: ModelArgs,
    /// Set an option of the format, e.g. date_string="1 May 2025"; may be repeated; `options` in
    /// the input take precedence
    #[arg(short, long = "option", value_name = "NAME=VALUE", value_parser = read_option)]
    pub options: Vec<(String, String)>,
    /// Who writes the BOS token; a `bos` in the input takes precedence [default: template]
    #[arg(long, value_parser = words::bos(), value_name = "WHO")]
    pub bos: Option<BosBy>,
    /// The BOS token, for chat templates and for formats that use the tokenizer's own; may be
    /// repeated; empty for none [default: from the files of --template or next to --tokenizer, or
    /// from the format]
    #[arg(long = "bos-token", value_name = "TOKEN")]
    pub bos_tokens: Vec<String>,
    /// The EOS token, for chat templates and for formats that use the tokenizer's own; empty for
    /// none
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// How to apply the format's order rules; `rules` in the input take precedence [default:
    /// enforce]
    #[arg(long, value_parser = words::rules(), value_name = "HOW")]
    pub rules: Option<RuleMode>,
    /// End with the generation prompt, regardless of the input
    #[arg(long, conflicts_with_all = ["no_generation_prompt", "continue_final_message"])]
    pub generation_prompt: bool,
    /// End without the generation prompt, regardless of the input
    #[arg(long, conflicts_with = "continue_final_message")]
    pub no_generation_prompt: bool,
    /// End inside the last message, so that the model continues it
    #[arg(long = "continue")]
    pub continue_final_message: bool,
    /// Refuse a conversation if any part of it is not in the prompt, except parts that are left out
    /// by design
    #[arg(long)]
    pub strict: bool,
    /// Print only the new turn, that is, the text after the model's last token, for an engine that
    /// has cached the rest
    #[arg(long, conflicts_with_all = ["for_training", "continue_final_message"])]
    pub new_turn: bool,
    #[command(flatten)]
    pub training: Training,
}

/// A model's own chat template, used instead of a format.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("templated").args(["template", "model"]).multiple(true))]
pub struct OwnTemplate {
    /// Render with a chat template (Jinja) instead of a format: a .jinja file, a
    /// tokenizer_config.json, a GGUF file, or a model's folder; --option sets its switches, e.g.
    /// enable_thinking=false
    #[arg(
        long,
        value_name = "FILE|DIR",
        conflicts_with_all = ["format", "formats", "rules"]
    )]
    pub template: Option<PathBuf>,
    #[command(flatten)]
    pub running: Running,
    /// How to pass messages, calls and tools to the template [default: as-wanted]
    #[arg(long, alias = "tool-calls", value_parser = words::forms(), value_name = "HOW", requires = "templated")]
    pub forms: Option<Forms>,
}

/// How text is encoded where it could become control tokens.
#[derive(Debug, clap::Args)]
pub struct TextEncoding {
    /// Encode as the reference implementation does: text that spells a control token becomes that
    /// token, even inside a message (unsafe)
    #[arg(long)]
    pub reference_encoding: bool,
    /// Which tokens plain text must never be encoded to
    #[arg(long, value_parser = words::protect(), default_value = "control", conflicts_with = "reference_encoding")]
    pub protect: Protect,
}

/// How results are printed.
#[derive(Debug, clap::Args)]
pub struct Batch {
    /// Print one JSON object, for errors too
    #[arg(long)]
    pub json: bool,
    /// Read one JSON object per line and print one for each, in order; errors become lines too
    #[arg(long)]
    pub jsonl: bool,
    /// Also write the lines that are refused to this file, as JSON lines: the error of each, and
    /// the line itself as `text`
    #[arg(long, value_name = "FILE", requires = "jsonl")]
    pub errors: Option<PathBuf>,
    /// Replace the files that the run writes, and anything left by an interrupted run
    #[arg(long, requires = "jsonl")]
    pub force: bool,
    /// The number of worker threads [default: one per core]
    #[arg(long, value_name = "N", requires = "jsonl")]
    pub threads: Option<NonZeroUsize>,
    /// Show progress even when stderr is not a terminal
    #[arg(long, requires = "jsonl", conflicts_with = "quiet")]
    pub progress: bool,
    /// Do not show progress
    #[arg(long, requires = "jsonl")]
    pub quiet: bool,
}

/// The output file of a batch.
#[derive(Debug, clap::Args)]
pub struct BatchFile {
    /// Write the results of --jsonl to a file, which appears under this name once it is complete
    #[arg(long, value_name = "FILE", requires = "jsonl")]
    pub output: Option<PathBuf>,
    /// The file format: JSON lines, an Arrow stream or Parquet, with the columns of docs/batches.md
    /// [default: by the file's extension]
    #[arg(long, value_enum, value_name = "KIND", requires = "output")]
    pub to: Option<RowKind>,
    /// Include the text of the prompts in Arrow and Parquet files
    #[arg(long, requires = "output")]
    pub with_text: bool,
    /// Resume an interrupted run, if there is one; a run that is complete stays as it is
    #[arg(long, requires = "output", conflicts_with_all = ["force", "errors"])]
    pub resume: bool,
    /// The interval between saves of the journal, in milliseconds; tests use a small value
    #[arg(long, hide = true, default_value_t = 2000)]
    pub journal_ms: u64,
}

impl Policies {
    /// Returns the parser's options, without the tools and the end of the prompt.
    pub fn options(&self) -> ParseOptions {
        ParseOptions {
            calls_in_reasoning: self.reasoning.calls_in_reasoning,
            unclosed_reasoning: self.reasoning.unclosed_reasoning,
            unknown_names: self.unknown_names.unwrap_or_default(),
            text_after_calls: self.text_after_calls.unwrap_or_default(),
            json: if self.strict_json { JsonPolicy::Strict } else { JsonPolicy::Lenient },
            check_schema: self.check_schema,
            max_calls: self.max_calls,
            ids: Ids::Seeded(self.id_seed.unwrap_or_default()),
            ..ParseOptions::default()
        }
    }
}

fn read_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".into()),
    }
}
