//! The command line's arguments. The doc comments here are the help texts.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use rolecall::Stop;
use rolecall::dataset::Shape;
use rolecall::encode::Protect;
use rolecall::loss::LossPolicy;
use rolecall::model::BosBy;
use rolecall::parse::{CallsInReasoning, Ids, JsonPolicy, ParseOptions, TextAfterCalls, UnknownNames};
use rolecall::render::{Bos, RuleMode};
use rolecall::template::jinja::LimitKind;
use rolecall::template::{CallForm, DateTime};

use crate::flags::read_limit;
use crate::paint::Color;
use crate::row_kind::RowKind;

/// Render chat conversations to the exact prompts and token ids that a model was trained on, and
/// parse model output
#[derive(Debug, Parser)]
#[command(name = "rolecall", version, after_help = include_str!("../help/rolecall.txt"))]
#[command(max_term_width = 100, disable_help_subcommand = true)]
pub struct Args {
    /// When to use colors; `auto` uses them on a terminal unless NO_COLOR is set
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", global = true, display_order = 100)]
    pub color: Color,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Render(Render),
    Encode(Encode),
    Decode(Decode),
    Parse(Parse),
    Roundtrip(Roundtrip),
    Grammar(Grammar),
    Explain(Explain),
    Formats(Formats),
    Diff(Diff),
    Check(Check),
    Template(Template),
    Tokenizer(Tokenizer),
    Completions(Completions),
}

/// Print the prompt of a conversation
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/render.txt"))]
pub struct Render {
    #[command(flatten)]
    pub chat: Chat,
    #[command(flatten)]
    pub own: OwnTemplate,
    #[command(flatten)]
    pub batch: Batch,
}

/// Print the token ids of a conversation's prompt
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/encode.txt"))]
pub struct Encode {
    #[command(flatten)]
    pub chat: Chat,
    #[command(flatten)]
    pub own: OwnTemplate,
    #[command(flatten)]
    pub batch: Batch,
    /// The model's tokenizer: a tokenizer.json, a sentencepiece .model, tiktoken ranks, a
    /// tekken.json, a GGUF file, or a folder that contains one
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "model")]
    pub tokenizer: Option<PathBuf>,
    /// Encode as the reference implementation does: text that spells a control token becomes that
    /// token, even inside a message (unsafe)
    #[arg(long)]
    pub reference_encoding: bool,
    /// Which tokens plain text must never be encoded to
    #[arg(long, value_enum, default_value_t = ProtectArg::Control, conflicts_with = "reference_encoding")]
    pub protect: ProtectArg,
    /// Truncate to this many ids, loss mask included, as trainers do
    #[arg(long, value_name = "IDS")]
    pub max_length: Option<usize>,
    #[command(flatten)]
    pub file: BatchFile,
}

/// Print the text of token ids, each character as soon as it is complete
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/decode.txt"))]
pub struct Decode {
    /// The ids, separated by white space, commas or brackets: `[1, 2]`, `1 2`, or one per line;
    /// reads standard input if `-` or omitted
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// The tokenizer of the ids: a tokenizer.json, a sentencepiece .model file, or a folder that
    /// contains one
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "model")]
    pub tokenizer: Option<PathBuf>,
    /// The model that the ids belong to: its folder or a GGUF file
    #[arg(short, long, value_name = "DIR|FILE", conflicts_with = "tokenizer")]
    pub model: Option<PathBuf>,
    /// The ids continue a prompt, as a model's answer does: keep a leading space instead of
    /// dropping it as the one that the tokenizer adds
    #[arg(long)]
    pub answer: bool,
    /// Omit control tokens
    #[arg(long)]
    pub skip_special: bool,
}

/// Parse model output, streamed or complete, into text, reasoning and tool calls
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/parse.txt"))]
#[command(group = clap::ArgGroup::new("encoded").args(["tokenizer", "model"]).multiple(true))]
pub struct Parse {
    /// The model output; reads standard input if `-` or omitted
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub layouts: Layouts,
    /// The tools that were offered: a JSON list, or an object with the list as `tools`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jsonl", "conversation"])]
    pub tools: Option<PathBuf>,
    /// The request that the output answers, as `render` takes it: it provides the tools and the end
    /// of the prompt, which may open reasoning
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    pub conversation: Option<PathBuf>,
    /// The end of the prompt [default: that of --conversation, or of a one-word conversation]
    #[arg(long, value_name = "TEXT", conflicts_with = "jsonl")]
    pub tail: Option<String>,
    /// Print each event as a line of JSON as soon as it occurs
    #[arg(long, conflicts_with_all = ["json", "jsonl"])]
    pub events: bool,
    /// Print the reply in the form of this API: a complete response, or with --events the chunks of
    /// a stream, one per line
    #[arg(long = "as", value_enum, value_name = "API", conflicts_with = "jsonl")]
    pub shape: Option<ApiArg>,
    /// The output is token ids, separated by white space, commas or brackets
    #[arg(long, requires = "encoded", conflicts_with = "jsonl")]
    pub ids: bool,
    /// The tokenizer of the ids: a tokenizer.json, a sentencepiece .model, tiktoken ranks, a
    /// tekken.json, a GGUF file, or a folder that contains one
    #[arg(long, value_name = "FILE|DIR", requires = "ids")]
    pub tokenizer: Option<PathBuf>,
    /// The output is chunks of text as an engine streams them: one JSON string per line
    #[arg(long, conflicts_with_all = ["ids", "jsonl"])]
    pub chunks: bool,
    /// Why the model stopped [default: stop]
    #[arg(long, value_enum, value_name = "WHY", conflicts_with = "jsonl")]
    pub finish: Option<FinishArg>,
    #[command(flatten)]
    pub batch: Batch,
    #[command(flatten)]
    pub policies: Policies,
}

/// Render each assistant message of a conversation, parse it back, and compare the two
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/roundtrip.txt"))]
pub struct Roundtrip {
    /// The conversation, as `render` takes it; reads standard input if `-` or omitted
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub layouts: Layouts,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Print a grammar that restricts sampling to well-formed tool calls that match their schemas
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/grammar.txt"))]
pub struct Grammar {
    #[command(flatten)]
    pub layouts: Layouts,
    /// The tools that are offered: a JSON list, or an object with the list as `tools`
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,
    /// The tool choice: `none`, `auto`, `required`, or the name of the tool to call
    #[arg(long, value_name = "CHOICE", default_value = "auto")]
    pub choice: String,
    /// Allow at most one tool call per turn
    #[arg(long)]
    pub one_call: bool,
    /// Whether the reply begins with reasoning; reasoning that the prompt already opened is always
    /// taken into account
    #[arg(long, value_enum, value_name = "WHEN", default_value = "off", num_args = 0..=1, default_missing_value = "optional")]
    pub reasoning: ReasoningArg,
    /// The end of the prompt [default: that of a one-word conversation]
    #[arg(long, value_name = "TEXT")]
    pub tail: Option<String>,
    /// The model's tokenizer, for engines that distinguish tokens from text: its added tokens are
    /// recognized in the format's text
    #[arg(long, value_name = "FILE|DIR")]
    pub tokenizer: Option<PathBuf>,
    /// The grammar language to print
    #[arg(long = "as", value_enum, value_name = "LANGUAGE", default_value = "structural-tag")]
    pub language: LanguageArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ReasoningArg {
    /// The reply has no reasoning
    Off,
    /// The model decides
    Optional,
    /// The reply begins with reasoning
    Required,
    /// Reasoning is complete: the grammar begins after the marker that closes it
    Over,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LanguageArg {
    /// xgrammar's structural tag, in JSON (vLLM, SGLang, TensorRT-LLM)
    StructuralTag,
    /// llguidance's Lark
    Lark,
    /// llama.cpp's GBNF
    Gbnf,
}

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

/// The layouts by which model output is parsed.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("templated").args(["template", "model"]).multiple(true))]
pub struct Layouts {
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
    /// Use layouts inferred from a chat template (Jinja): a .jinja file, a tokenizer_config.json, a
    /// GGUF file, or a model's folder
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["format", "formats"])]
    pub template: Option<PathBuf>,
    /// Which chat template to use if the model has several [default: `tool_use` for conversations
    /// with tools, else `default`]
    #[arg(long, value_name = "NAME", requires = "templated")]
    pub template_name: Option<String>,
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
    /// The time that the template gets from `strftime_now` [default: the current time, in UTC]
    #[arg(long, value_name = "TIME", requires = "templated")]
    pub now: Option<DateTime>,
    /// Set a resource limit of the template: `instructions`, `output`, `memory` and `source` in
    /// bytes, `loop` in items, `integer` in bits; may be repeated
    #[arg(long = "limit", value_name = "NAME=N", value_parser = read_limit)]
    pub limits: Vec<(LimitKind, u64)>,
}

/// Parsing policies for ambiguous or invalid model output.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
pub struct Policies {
    /// How to treat a tool call inside reasoning [default: draft]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub calls_in_reasoning: Option<DraftArg>,
    /// How to treat calls to unknown tools [default: pass]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub unknown_names: Option<UnknownArg>,
    /// How to treat text after a tool call [default: content]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub text_after_calls: Option<AfterArg>,
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
    /// (with --jsonl, the line number is added to it)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub id_seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ApiArg {
    /// OpenAI's chat completions
    Openai,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FinishArg {
    /// The model closed its turn, or stopped where a turn may end
    Stop,
    /// The model reached its token limit
    Length,
    /// The reply was aborted
    Abort,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DraftArg {
    /// Treat it as part of the reasoning
    Draft,
    /// Treat it as a call if the turn ends after it and the reasoning was never closed
    Unclosed,
    /// Treat it as a call that ends the reasoning
    Call,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum UnknownArg {
    /// Treat them as calls
    Pass,
    /// Treat them as text
    Text,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AfterArg {
    /// Treat it as content
    Content,
    /// Treat it as content and report it
    Report,
}

/// Show where every piece of a prompt comes from: control tokens, roles, tools, white space, token
/// boundaries
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/explain.txt"))]
#[command(group = clap::ArgGroup::new("encoded").args(["tokenizer", "model"]).multiple(true))]
pub struct Explain {
    #[command(flatten)]
    pub chat: Chat,
    #[command(flatten)]
    pub own: OwnTemplate,
    /// The model's tokenizer, to show token boundaries: a tokenizer.json, a sentencepiece .model,
    /// tiktoken ranks, a tekken.json, a GGUF file, or a folder that contains one
    #[arg(long, value_name = "FILE|DIR")]
    pub tokenizer: Option<PathBuf>,
    /// Encode as the reference implementation does: text that spells a control token becomes that
    /// token, even inside a message (unsafe)
    #[arg(long, requires = "encoded")]
    pub reference_encoding: bool,
    /// Which tokens plain text must never be encoded to
    #[arg(long, value_enum, default_value_t = ProtectArg::Control, requires = "encoded", conflicts_with = "reference_encoding")]
    pub protect: ProtectArg,
    /// Print one JSON object with the prompt, its segments and its tokens
    #[arg(long)]
    pub json: bool,
    /// Print a self-contained HTML page
    #[arg(long, conflicts_with = "json")]
    pub html: bool,
}

/// List the formats, show one, or find the one that a model needs
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/formats.txt"))]
pub struct Formats {
    /// The format to show: a name, a .toml file, or another framework's template as .json or .py
    #[arg(value_name = "NAME|FILE")]
    pub name: Option<String>,
    /// Show which format a model needs and why, based on the files in its folder or else on its
    /// name
    #[arg(long, value_name = "NAME|DIR", conflicts_with = "name")]
    pub model: Option<String>,
    #[command(flatten)]
    pub more: MoreFormats,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Compare two formats, templates or models over a set of conversations, or all formats available
/// for a model
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/diff.txt"))]
pub struct Diff {
    /// The first side: a format's name or .toml file, a model's folder, or a file with a chat
    /// template (.jinja, .gguf, tokenizer_config.json)
    #[arg(value_name = "A", required_unless_present_any = ["model", "models"], conflicts_with_all = ["model", "models"])]
    pub a: Option<String>,
    /// The second side
    #[arg(value_name = "B", required_unless_present_any = ["model", "models"])]
    pub b: Option<String>,
    /// A conversation to compare them over, as `render` takes it (its own format and options are
    /// ignored); `-` is standard input [default: a built-in set of conversations]
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Compare all formats available for a model, given by name or folder: its maker's own and the
    /// frameworks' dialects
    #[arg(long, value_name = "NAME|DIR", conflicts_with = "models")]
    pub model: Option<String>,
    /// Do the same for all models in a JSON file, {"models": ["NAME", ..]}, and write a Markdown
    /// document
    #[arg(long, value_name = "FILE")]
    pub models: Option<PathBuf>,
    /// What to compare; may be repeated [default: all]
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',', conflicts_with_all = ["model", "models"])]
    pub view: Vec<ViewArg>,
    /// Show every difference instead of only the first of each view
    #[arg(long, conflicts_with_all = ["json", "model", "models"])]
    pub all: bool,
    /// The BOS token, if no file next to a template names it
    #[arg(long = "bos-token", value_name = "TOKEN")]
    pub bos_tokens: Vec<String>,
    /// The EOS token, if no file next to a template names it
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// Who writes the BOS token; `tokenizer` leaves it out of the comparison [default: write]
    #[arg(long, value_enum, value_name = "WHO")]
    pub bos: Option<BosArg>,
    /// How to apply the formats' order rules [default: enforce]
    #[arg(long, value_enum, value_name = "HOW")]
    pub rules: Option<RulesArg>,
    #[command(flatten)]
    pub more: MoreFormats,
    /// Print one JSON object
    #[arg(long, conflicts_with = "models")]
    pub json: bool,
}

/// Check a format file: show every mistake with its location, or what each turn looks like
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/check.txt"))]
pub struct Check {
    /// The format file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Compare its prompts with those of a chat template: a .jinja file, a tokenizer_config.json, a
    /// GGUF file, or a model's folder
    #[arg(long, value_name = "FILE|DIR", visible_alias = "model")]
    pub against: Option<String>,
    /// The BOS token, if no file next to the template names it
    #[arg(long = "bos-token", value_name = "TOKEN", requires = "against")]
    pub bos_tokens: Vec<String>,
    /// The EOS token, if no file next to the template names it
    #[arg(long, value_name = "TOKEN", requires = "against")]
    pub eos_token: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Show what a model's chat template reads, supports and branches on, with audit findings
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/template.txt"))]
pub struct Template {
    /// The template: a .jinja file, a tokenizer_config.json, a model's folder or a .gguf file; `-`
    /// is standard input
    #[arg(value_name = "FILE|DIR", required_unless_present = "model")]
    pub path: Option<PathBuf>,
    /// The model that the template belongs to: its folder or a GGUF file
    #[arg(short, long, value_name = "DIR|FILE", conflicts_with = "path")]
    pub model: Option<PathBuf>,
    /// Show only the template with this name [default: all]
    #[arg(long, value_name = "NAME")]
    pub template_name: Option<String>,
    /// The model's tokenizer, to check whether the BOS token is written twice [default: the one in
    /// the folder]
    #[arg(long, value_name = "FILE|DIR")]
    pub tokenizer: Option<PathBuf>,
    /// The BOS token, if the files do not name it
    #[arg(long, value_name = "TOKEN")]
    pub bos_token: Option<String>,
    /// The EOS token, if the files do not name it
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Infer the layouts that parse the model's output from the template, and print them as a
    /// format file to keep and correct
    #[arg(long, conflicts_with_all = ["json", "tokenizer"])]
    pub layout: bool,
}

/// Show a tokenizer's properties and risks, and how it treats a format's control tokens
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/tokenizer.txt"))]
pub struct Tokenizer {
    /// The tokenizer: a tokenizer.json, a sentencepiece .model, tiktoken ranks, a tekken.json, a
    /// GGUF file, or a folder that contains one
    #[arg(value_name = "FILE|DIR", required_unless_present = "model")]
    pub path: Option<PathBuf>,
    /// The model that the tokenizer belongs to: its folder or a GGUF file. The format is identified
    /// from its files unless another flag names it
    #[arg(short, long, value_name = "DIR|FILE", conflicts_with = "path")]
    pub model: Option<PathBuf>,
    /// The format to audit it for: a name, a .toml file, or another framework's template as .json
    /// or .py
    #[arg(short, long, value_name = "NAME|FILE")]
    pub format: Option<String>,
    #[command(flatten)]
    pub more: MoreFormats,
    /// The model's chat template, to list the tokens that plain text is never encoded to, and why:
    /// a .jinja file, a tokenizer_config.json, a GGUF file or a folder
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "format")]
    pub template: Option<PathBuf>,
    /// Which tokens plain text must never be encoded to
    #[arg(long, value_enum, default_value_t = ProtectArg::Control, requires = "template")]
    pub protect: ProtectArg,
    /// List every token of a finding instead of only the first few
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/completions.txt"))]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
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
    #[arg(long, value_enum, value_name = "SHAPE")]
    pub shape: Option<ShapeArg>,
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
    /// Set an option of the format, e.g. date_string="1 May 2025"; may be repeated; `options` in
    /// the input take precedence
    #[arg(short, long = "option", value_name = "NAME=VALUE", value_parser = read_option)]
    pub options: Vec<(String, String)>,
    /// Who writes the BOS token; a `bos` in the input takes precedence [default: template]
    #[arg(long, value_enum, value_name = "WHO")]
    pub bos: Option<BosArg>,
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
    #[arg(long, value_enum, value_name = "HOW")]
    pub rules: Option<RulesArg>,
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
    /// Render training text and show which tokens carry loss: those of each assistant message, of
    /// the last one, or all; ends without the generation prompt
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
        conflicts_with_all = ["format", "formats", "rules", "new_turn", "for_training"]
    )]
    pub template: Option<PathBuf>,
    /// Which chat template to use if the model has several [default: `tool_use` for conversations
    /// with tools, else `default`]
    #[arg(long, value_name = "NAME", requires = "templated")]
    pub template_name: Option<String>,
    /// How to pass tool calls to the template [default: as-given, as transformers does]
    #[arg(long, value_enum, value_name = "HOW", requires = "templated")]
    pub tool_calls: Option<CallsArg>,
    /// The time that the template gets from `strftime_now`, e.g. 2026-11-21T12:34:56 [default: the
    /// current time, in UTC]
    #[arg(long, value_name = "TIME", requires = "templated")]
    pub now: Option<DateTime>,
    /// Set a resource limit of the template: `instructions`, `output`, `memory` and `source` in
    /// bytes, `loop` in items, `integer` in bits; may be repeated
    #[arg(long = "limit", value_name = "NAME=N", value_parser = read_limit)]
    pub limits: Vec<(LimitKind, u64)>,
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
    /// Also write the lines that are refused to this file, unchanged
    #[arg(long, value_name = "FILE", requires = "jsonl")]
    pub errors: Option<PathBuf>,
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
    /// Resume an interrupted run, if there is one
    #[arg(long, requires = "output", conflicts_with_all = ["force", "errors"])]
    pub resume: bool,
    /// Replace the file and anything left by an interrupted run
    #[arg(long, requires = "output")]
    pub force: bool,
    /// How often to save the journal, in milliseconds; tests use a small value
    #[arg(long, hide = true, default_value_t = 2000)]
    pub journal_ms: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ShapeArg {
    /// OpenAI's `messages`, as in its API and its files for fine-tuning
    Openai,
    /// `conversations` of `from` and `value`
    Sharegpt,
    /// `instruction`, `input` and `output`
    Alpaca,
    /// `prompt` and `completion`
    Completion,
    /// `chosen` and `rejected`: gives a result for each, the better one first
    Preference,
    /// LMFlow's `instances`
    Instances,
}

impl ShapeArg {
    pub fn shape(self) -> Shape {
        match self {
            ShapeArg::Openai => Shape::OpenAi,
            ShapeArg::Sharegpt => Shape::ShareGpt,
            ShapeArg::Alpaca => Shape::Alpaca,
            ShapeArg::Completion => Shape::Completion,
            ShapeArg::Preference => Shape::Preference,
            ShapeArg::Instances => Shape::Instances,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BosArg {
    /// The format or template, or the tokenizer if these write none: the token appears exactly once
    Auto,
    /// Only the format or template
    #[value(alias = "write")]
    Template,
    /// Only the tokenizer: the token that the format or template writes is left out
    Tokenizer,
    /// Nobody: the engine adds the token itself
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtectArg {
    /// Control tokens: those flagged as special, used in a literal of the format or template, or
    /// named by a file of the model
    Control,
    /// All added tokens: text that spells one gets different ids than the model was trained with
    AllAdded,
}

impl ProtectArg {
    pub fn mode(self) -> Protect {
        match self {
            ProtectArg::Control => Protect::Control,
            ProtectArg::AllAdded => Protect::AllAdded,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RulesArg {
    /// Refuse conversations that break a rule or contain parts that the format cannot express
    Enforce,
    /// Behave like the maker's own code: allow any order and the maker's role names, and leave out
    /// parts that the format cannot express
    Reference,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CallsArg {
    /// As they appear in the conversation
    AsGiven,
    /// In the form that the template writes correctly: arguments as an object or as JSON text, ids
    /// that it does not refuse
    AsWanted,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LossArg {
    /// Every assistant message
    Assistant,
    /// The last assistant message
    Last,
    /// The whole text
    All,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ViewArg {
    /// The prompts
    Chat,
    /// The training texts, and which parts of them carry loss
    Training,
    /// Whether A's training text matches what B serves
    Serving,
    /// Whether B's training text matches what A serves
    ServingBack,
}

impl LossArg {
    pub fn policy(self) -> LossPolicy {
        match self {
            LossArg::Assistant => LossPolicy::Assistant,
            LossArg::Last => LossPolicy::Last,
            LossArg::All => LossPolicy::All,
        }
    }
}

impl CallsArg {
    pub fn form(self) -> CallForm {
        match self {
            CallsArg::AsGiven => CallForm::AsGiven,
            CallsArg::AsWanted => CallForm::AsWanted,
        }
    }
}

impl BosArg {
    pub fn bos(self) -> Bos {
        self.by().bos()
    }

    pub fn by(self) -> BosBy {
        match self {
            BosArg::Auto => BosBy::Auto,
            BosArg::Template => BosBy::Template,
            BosArg::Tokenizer => BosBy::Tokenizer,
            BosArg::None => BosBy::Nobody,
        }
    }
}

impl RulesArg {
    pub fn mode(self) -> RuleMode {
        match self {
            RulesArg::Enforce => RuleMode::Enforce,
            RulesArg::Reference => RuleMode::Reference,
        }
    }
}

impl FinishArg {
    pub fn stop(self) -> Stop {
        match self {
            FinishArg::Stop => Stop::End,
            FinishArg::Length => Stop::Length,
            FinishArg::Abort => Stop::Abort,
        }
    }
}

impl Policies {
    /// Returns the parser's options, without the tools and the end of the prompt.
    pub fn options(&self) -> ParseOptions {
        ParseOptions {
            calls_in_reasoning: match self.calls_in_reasoning {
                None => None,
                Some(DraftArg::Draft) => Some(CallsInReasoning::Draft),
                Some(DraftArg::Unclosed) => Some(CallsInReasoning::Unclosed),
                Some(DraftArg::Call) => Some(CallsInReasoning::Call),
            },
            unknown_names: match self.unknown_names {
                None | Some(UnknownArg::Pass) => UnknownNames::Pass,
                Some(UnknownArg::Text) => UnknownNames::Text,
            },
            text_after_calls: match self.text_after_calls {
                None | Some(AfterArg::Content) => TextAfterCalls::Content,
                Some(AfterArg::Report) => TextAfterCalls::Report,
            },
            json: if self.strict_json { JsonPolicy::Strict } else { JsonPolicy::Lenient },
            check_schema: self.check_schema,
            max_calls: self.max_calls,
            ids: Ids::Seeded(self.id_seed),
            ..ParseOptions::default()
        }
    }
}

impl Template {
    /// Returns the path of the template.
    pub fn path(&self) -> &Path {
        either(self.path.as_deref(), self.model.as_deref())
    }
}

impl Tokenizer {
    /// Returns the path of the tokenizer.
    pub fn path(&self) -> &Path {
        either(self.path.as_deref(), self.model.as_deref())
    }
}

impl Decode {
    /// Returns the path of the tokenizer.
    pub fn tokenizer(&self) -> &Path {
        either(self.tokenizer.as_deref(), self.model.as_deref())
    }
}

/// Returns whichever of two paths is given; clap requires exactly one of them.
fn either<'a>(one: Option<&'a Path>, other: Option<&'a Path>) -> &'a Path {
    one.or(other).unwrap_or(Path::new("-"))
}

impl Verb {
    /// Reports whether errors are printed as JSON on standard output.
    pub fn wants_json(&self) -> bool {
        match self {
            Verb::Render(render) => render.batch.json && !render.batch.jsonl,
            Verb::Encode(encode) => encode.batch.json && !encode.batch.jsonl,
            Verb::Parse(parse) => (parse.batch.json || parse.events) && !parse.batch.jsonl,
            Verb::Roundtrip(roundtrip) => roundtrip.json,
            Verb::Explain(explain) => explain.json,
            Verb::Formats(formats) => formats.json,
            Verb::Diff(diff) => diff.json,
            Verb::Check(check) => check.json,
            Verb::Template(template) => template.json,
            Verb::Tokenizer(tokenizer) => tokenizer.json,
            Verb::Decode(_) | Verb::Grammar(_) | Verb::Completions(_) => false,
        }
    }
}

fn read_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".into()),
    }
}
