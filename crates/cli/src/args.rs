//! What can be asked for on the command line. The comments here are the help that people read.

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

use crate::batch::Kind;
use crate::flags::read_limit;

/// Turns conversations into exactly the prompt and the token ids that a chat model was trained on
#[derive(Debug, Parser)]
#[command(name = "rolecall", version, after_help = include_str!("../help/rolecall.txt"))]
#[command(max_term_width = 100, disable_help_subcommand = true)]
pub struct Args {
    /// When to colour: `auto` does on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", global = true, display_order = 100)]
    pub color: Color,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
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
    /// The model's tokenizer: a tokenizer.json, a sentencepiece .model, tiktoken ranks, a tekken.json, a
    /// GGUF file, or a folder that holds one
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "model")]
    pub tokenizer: Option<PathBuf>,
    /// Encode as the reference does: text that spells a control token becomes it, even in a message (unsafe)
    #[arg(long)]
    pub reference_encoding: bool,
    /// Which of the tokenizer's tokens no text becomes
    #[arg(long, value_enum, default_value_t = ProtectArg::Control, conflicts_with = "reference_encoding")]
    pub protect: ProtectArg,
    /// Keep so many ids at most, and so much of the loss mask: what is behind is cut off, as trainers do
    #[arg(long, value_name = "IDS")]
    pub max_length: Option<usize>,
    #[command(flatten)]
    pub file: BatchFile,
}

/// Print the text of token ids, each character as soon as it is complete
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/decode.txt"))]
pub struct Decode {
    /// The ids, with anything but digits between them: `[1, 2]`, `1 2`, one a line; `-` or nothing is standard input
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// The tokenizer that the ids are of: a tokenizer.json, a sentencepiece .model file, or a folder that holds one
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "model")]
    pub tokenizer: Option<PathBuf>,
    /// The model whose ids they are: its folder or a GGUF file
    #[arg(short, long, value_name = "DIR|FILE", conflicts_with = "tokenizer")]
    pub model: Option<PathBuf>,
    /// The ids go on behind a prompt, as a model's answer does: no space of the tokenizer's own stands before them
    #[arg(long)]
    pub answer: bool,
    /// Leave control tokens out
    #[arg(long)]
    pub skip_special: bool,
}

/// Read what a model wrote back into a message: text, reasoning and calls, while it comes
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/parse.txt"))]
#[command(group = clap::ArgGroup::new("encoded").args(["tokenizer", "model"]).multiple(true))]
pub struct Parse {
    /// The output; `-` or nothing is standard input
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub layouts: Layouts,
    /// The tools that were offered: a JSON list, or an object that has it as `tools`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jsonl", "conversation"])]
    pub tools: Option<PathBuf>,
    /// The request that the output answers, as `render` takes it: its tools, and its prompt's end, which may open something
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    pub conversation: Option<PathBuf>,
    /// How the prompt ends [default: as that of --conversation, or of a conversation of one word]
    #[arg(long, value_name = "TEXT", conflicts_with = "jsonl")]
    pub tail: Option<String>,
    /// Print each event as a line of JSON as soon as it is there
    #[arg(long, conflicts_with_all = ["json", "jsonl"])]
    pub events: bool,
    /// Print the reply as a server of this API answers: a whole completion, or with --events the chunks of a stream, a line each
    #[arg(long = "as", value_enum, value_name = "API", conflicts_with = "jsonl")]
    pub shape: Option<ApiArg>,
    /// The output is token ids, with anything but digits between them
    #[arg(long, requires = "encoded", conflicts_with = "jsonl")]
    pub ids: bool,
    /// The tokenizer that the ids are of: a tokenizer.json, a sentencepiece .model, tiktoken ranks, a tekken.json, a GGUF
    /// file, or a folder that holds one
    #[arg(long, value_name = "FILE|DIR", requires = "ids")]
    pub tokenizer: Option<PathBuf>,
    /// The output is chunks of text as an engine streams them: a JSON string a line
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

/// Render each assistant message of a conversation, read it back, and compare
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/roundtrip.txt"))]
pub struct Roundtrip {
    /// The conversation, as `render` takes it; `-` or nothing is standard input
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub layouts: Layouts,
    /// Answer with one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Print what an engine may sample, so that calls are well-formed and fit their tools' schemas
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/grammar.txt"))]
pub struct Grammar {
    #[command(flatten)]
    pub layouts: Layouts,
    /// The tools that are offered: a JSON list, or an object that has it as `tools`
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,
    /// Whether calls are made: `none`, `auto`, `required`, or the name of the tool to call
    #[arg(long, value_name = "CHOICE", default_value = "auto")]
    pub choice: String,
    /// One call in a turn at most
    #[arg(long)]
    pub one_call: bool,
    /// Whether the model reasons first; what the prompt has opened is understood in any case
    #[arg(long, value_enum, value_name = "WHEN", default_value = "off", num_args = 0..=1, default_missing_value = "optional")]
    pub reasoning: ReasoningArg,
    /// How the prompt ends [default: as that of a conversation of one word]
    #[arg(long, value_name = "TEXT")]
    pub tail: Option<String>,
    /// The model's tokenizer, for engines that tell tokens from text: its added tokens are known in the format's text
    #[arg(long, value_name = "FILE|DIR")]
    pub tokenizer: Option<PathBuf>,
    /// For which engine
    #[arg(long = "as", value_enum, value_name = "LANGUAGE", default_value = "structural-tag")]
    pub language: LanguageArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ReasoningArg {
    /// It does not
    Off,
    /// As it likes
    Optional,
    /// Always
    Required,
    /// It has: the grammar begins behind the mark that closes reasoning
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

/// Formats beside the built-in ones.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MoreFormats {
    /// Load more formats: every .toml file of a folder
    #[arg(long, value_name = "DIR")]
    pub formats: Option<PathBuf>,
    /// Let a format file take the place of the format that already has its name
    #[arg(long)]
    pub replace: bool,
}

/// By which layouts output is read.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("templated").args(["template", "model"]).multiple(true))]
pub struct Layouts {
    /// The model: its folder, a GGUF file, or its name. Format or chat template, tokenizer, stop tokens and sampling defaults are
    /// the model's own where no other flag says otherwise
    #[arg(short, long, value_name = "DIR|FILE|NAME")]
    pub model: Option<PathBuf>,
    /// The format: a name (see `rolecall formats`), a .toml file, or another framework's template as .json or .py; a `format` that
    /// the input names itself wins
    #[arg(short, long, value_name = "NAME|FILE")]
    pub format: Option<String>,
    #[command(flatten)]
    pub more: MoreFormats,
    /// Read by the layouts of a chat template (Jinja), which are inferred from it: a .jinja file, a tokenizer_config.json, a
    /// GGUF file, or a model's folder
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["format", "formats"])]
    pub template: Option<PathBuf>,
    /// Which of a model's chat templates, where it has several [default: `tool_use` for conversations with tools, else
    /// `default`]
    #[arg(long, value_name = "NAME", requires = "templated")]
    pub template_name: Option<String>,
    /// Set an option of the format or a switch of the template, e.g. enable_thinking=false; may be repeated
    #[arg(short, long = "option", value_name = "NAME=VALUE", value_parser = read_option)]
    pub options: Vec<(String, String)>,
    /// The token that opens a text, where the files of --template do not name it
    #[arg(long = "bos-token", value_name = "TOKEN")]
    pub bos_tokens: Vec<String>,
    /// The token that closes a text, where the files of --template do not name it
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// What `strftime_now` tells the template [default: the machine's clock, in UTC]
    #[arg(long, value_name = "TIME", requires = "templated")]
    pub now: Option<DateTime>,
    /// Set how much the template may use: `instructions`, `output`, `memory` and `source` in bytes, `loop` in items, `integer`
    /// in bits; may be repeated
    #[arg(long = "limit", value_name = "NAME=N", value_parser = read_limit)]
    pub limits: Vec<(LimitKind, u64)>,
}

/// How output is read where there is a choice.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
pub struct Policies {
    /// What a call inside reasoning is [default: draft]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub calls_in_reasoning: Option<DraftArg>,
    /// What a call of a name that no tool has is [default: pass]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub unknown_names: Option<UnknownArg>,
    /// What text behind a call is [default: content]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub text_after_calls: Option<AfterArg>,
    /// Take JSON for JSON only where it is by the book
    #[arg(long)]
    pub strict_json: bool,
    /// Compare arguments with the tools' schemas, and report what differs; nothing is dropped
    #[arg(long)]
    pub check_schema: bool,
    /// How many calls a turn may have; what is behind is text
    #[arg(long, value_name = "N")]
    pub max_calls: Option<usize>,
    /// What ids are made of, where the model writes none: the same number, the same ids (with --jsonl, the line's number is
    /// added)
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
    /// It reached the limit of tokens
    Length,
    /// It was broken off
    Abort,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DraftArg {
    /// Reasoning like any other
    Draft,
    /// A call, if the turn ends behind it and the reasoning was never closed
    Unclosed,
    /// A call, which ends the reasoning
    Call,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum UnknownArg {
    /// A call
    Pass,
    /// Text
    Text,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AfterArg {
    /// Content
    Content,
    /// Content, and reported
    Report,
}

/// Show where every piece of a prompt comes from: control tokens, roles, tools, white space, token edges
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/explain.txt"))]
#[command(group = clap::ArgGroup::new("encoded").args(["tokenizer", "model"]).multiple(true))]
pub struct Explain {
    #[command(flatten)]
    pub chat: Chat,
    #[command(flatten)]
    pub own: OwnTemplate,
    /// The model's tokenizer, to show token edges: a tokenizer.json, a sentencepiece .model, tiktoken ranks, a tekken.json, a
    /// GGUF file, or a folder that holds one
    #[arg(long, value_name = "FILE|DIR")]
    pub tokenizer: Option<PathBuf>,
    /// Encode as the reference does: text that spells a control token becomes it, even in a message (unsafe)
    #[arg(long, requires = "encoded")]
    pub reference_encoding: bool,
    /// Which of the tokenizer's tokens no text becomes
    #[arg(long, value_enum, default_value_t = ProtectArg::Control, requires = "encoded", conflicts_with = "reference_encoding")]
    pub protect: ProtectArg,
    /// Answer with one JSON object: the prompt, its segments and its tokens
    #[arg(long)]
    pub json: bool,
    /// Write one HTML file that needs nothing else
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
    /// Say which format a model needs, and why: by what its folder holds, else by its name
    #[arg(long, value_name = "NAME|DIR", conflicts_with = "name")]
    pub model: Option<String>,
    #[command(flatten)]
    pub more: MoreFormats,
    /// Answer with one JSON value
    #[arg(long)]
    pub json: bool,
}

/// Compare two formats, templates or models over telling conversations, or all formats that there are for a model
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/diff.txt"))]
pub struct Diff {
    /// The first format: a name or a .toml file; or a model's folder, or a file with a chat template (.jinja, .gguf,
    /// tokenizer_config.json)
    #[arg(value_name = "A", required_unless_present_any = ["model", "models"], conflicts_with_all = ["model", "models"])]
    pub a: Option<String>,
    /// The second one
    #[arg(value_name = "B", required_unless_present_any = ["model", "models"])]
    pub b: Option<String>,
    /// A conversation to compare them over, as `render` takes it (what it says of formats and options is not looked at);
    /// `-` is standard input [default: a fixed set of telling conversations]
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Compare all formats that there are for a model, by its name or its folder: its maker's own and the frameworks' dialects
    #[arg(long, value_name = "NAME|DIR", conflicts_with = "models")]
    pub model: Option<String>,
    /// Do so for all models of a JSON file, {"models": ["NAME", ..]}, and write a Markdown document
    #[arg(long, value_name = "FILE")]
    pub models: Option<PathBuf>,
    /// What to compare; may be repeated [default: all]
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',', conflicts_with_all = ["model", "models"])]
    pub view: Vec<ViewArg>,
    /// Draw every difference, not the first of each view alone
    #[arg(long, conflicts_with_all = ["json", "model", "models"])]
    pub all: bool,
    /// The token that opens a text, where no file beside a template names it
    #[arg(long = "bos-token", value_name = "TOKEN")]
    pub bos_tokens: Vec<String>,
    /// The token that closes a text, where no file beside a template names it
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// Who writes the token that opens the prompt: `tokenizer` leaves it out of the comparison [default: write]
    #[arg(long, value_enum, value_name = "WHO")]
    pub bos: Option<BosArg>,
    /// What becomes of the formats' order rules [default: enforce]
    #[arg(long, value_enum, value_name = "HOW")]
    pub rules: Option<RulesArg>,
    #[command(flatten)]
    pub more: MoreFormats,
    /// Answer with one JSON object
    #[arg(long, conflicts_with = "models")]
    pub json: bool,
}

/// Check a format file: every mistake with its place, or what each turn looks like
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/check.txt"))]
pub struct Check {
    /// The format file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Compare what it writes with what a chat template writes: a .jinja file, a tokenizer_config.json, a GGUF file, or a model's
    /// folder
    #[arg(long, value_name = "FILE|DIR", visible_alias = "model")]
    pub against: Option<String>,
    /// The token that opens a text, where no file beside the template names it
    #[arg(long = "bos-token", value_name = "TOKEN", requires = "against")]
    pub bos_tokens: Vec<String>,
    /// The token that closes a text, where no file beside the template names it
    #[arg(long, value_name = "TOKEN", requires = "against")]
    pub eos_token: Option<String>,
    /// Answer with one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Show what a model's chat template reads, takes and decides on, and what an audit should look at
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/template.txt"))]
pub struct Template {
    /// The template: a .jinja file, a tokenizer_config.json, a model's folder or a .gguf file; `-` is standard input
    #[arg(value_name = "FILE|DIR", required_unless_present = "model")]
    pub path: Option<PathBuf>,
    /// The model whose template it is: its folder or a GGUF file
    #[arg(short, long, value_name = "DIR|FILE", conflicts_with = "path")]
    pub model: Option<PathBuf>,
    /// Show this one of several named templates [default: all]
    #[arg(long, value_name = "NAME")]
    pub template_name: Option<String>,
    /// The model's tokenizer, to see whether the token that opens a text comes twice [default: the one in the folder]
    #[arg(long, value_name = "FILE|DIR")]
    pub tokenizer: Option<PathBuf>,
    /// The token that opens a text, where the files do not name it
    #[arg(long, value_name = "TOKEN")]
    pub bos_token: Option<String>,
    /// The token that closes a text, where the files do not name it
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// Answer with one JSON object
    #[arg(long)]
    pub json: bool,
    /// Print the layouts that read the model's output, inferred from the template, as a format file to keep and correct
    #[arg(long, conflicts_with_all = ["json", "tokenizer"])]
    pub layout: bool,
}

/// Show what a tokenizer is, how it treats a format's control tokens, and what is dangerous in it
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/tokenizer.txt"))]
pub struct Tokenizer {
    /// The tokenizer: a tokenizer.json, a sentencepiece .model, tiktoken ranks, a tekken.json, a GGUF file, or a folder that
    /// holds one
    #[arg(value_name = "FILE|DIR", required_unless_present = "model")]
    pub path: Option<PathBuf>,
    /// The model whose tokenizer it is: its folder or a GGUF file. The format is the one that its files tell, where no other flag
    /// says otherwise
    #[arg(short, long, value_name = "DIR|FILE", conflicts_with = "path")]
    pub model: Option<PathBuf>,
    /// The format that it is to be used for: a name, a .toml file, or another framework's template as .json or .py
    #[arg(short, long, value_name = "NAME|FILE")]
    pub format: Option<String>,
    #[command(flatten)]
    pub more: MoreFormats,
    /// The model's chat template: list the tokens that no text becomes, and why. A .jinja file, a tokenizer_config.json, a GGUF
    /// file or a folder
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "format")]
    pub template: Option<PathBuf>,
    /// Which of the tokenizer's tokens no text becomes
    #[arg(long, value_enum, default_value_t = ProtectArg::Control, requires = "template")]
    pub protect: ProtectArg,
    /// List every token that a finding is about, not the first few alone
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Answer with one JSON object
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

/// A conversation and how it is rendered.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Chat {
    /// The conversation, a JSON object as OpenAI's API takes it, or its list of messages; `-` or nothing is standard input. With
    /// --jsonl also several files, and patterns such as `data/*.jsonl`. What gzip or zstd has packed is unpacked
    #[arg(value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// How the data is written, where its keys do not tell it
    #[arg(long, value_enum, value_name = "SHAPE")]
    pub shape: Option<ShapeArg>,
    /// The model: its folder, a GGUF file, or its name. Format or chat template, tokenizer, stop tokens and sampling defaults are
    /// the model's own where no other flag says otherwise
    #[arg(short, long, value_name = "DIR|FILE|NAME")]
    pub model: Option<PathBuf>,
    /// The format: a name (see `rolecall formats`), a .toml file, or another framework's template as .json or .py; a `format` that
    /// the input names itself wins
    #[arg(short, long, value_name = "NAME|FILE")]
    pub format: Option<String>,
    #[command(flatten)]
    pub more: MoreFormats,
    /// Set an option of the format, e.g. date_string="1 May 2025"; may be repeated; the input's own `options` win
    #[arg(short, long = "option", value_name = "NAME=VALUE", value_parser = read_option)]
    pub options: Vec<(String, String)>,
    /// Who writes the token that opens the prompt; the input's own `bos` wins [default: template]
    #[arg(long, value_enum, value_name = "WHO")]
    pub bos: Option<BosArg>,
    /// The token that opens a text, for chat templates and for formats that take the tokenizer's own; may be repeated; empty
    /// for none [default: what the files of --template or beside --tokenizer say, or the format]
    #[arg(long = "bos-token", value_name = "TOKEN")]
    pub bos_tokens: Vec<String>,
    /// The token that closes a text, for chat templates and for formats that take the tokenizer's own; empty for none
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// What becomes of the format's order rules; the input's own `rules` win [default: enforce]
    #[arg(long, value_enum, value_name = "HOW")]
    pub rules: Option<RulesArg>,
    /// End with the generation prompt, whatever the input says
    #[arg(long, conflicts_with_all = ["no_generation_prompt", "continue_final_message"])]
    pub generation_prompt: bool,
    /// End without the generation prompt, whatever the input says
    #[arg(long, conflicts_with = "continue_final_message")]
    pub no_generation_prompt: bool,
    /// End inside the last message, for the model to go on with it
    #[arg(long = "continue")]
    pub continue_final_message: bool,
    /// Refuse a conversation of which something is not in the prompt, but for what is left out by design
    #[arg(long)]
    pub strict: bool,
    /// Print the new turn alone: what stands behind the model's own last token, for an engine that has cached the rest
    #[arg(long, conflicts_with_all = ["for_training", "continue_final_message"])]
    pub new_turn: bool,
    /// Show what a training loss may touch: each assistant message, the last one, or all; ends without the generation prompt
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

/// A model's own chat template, in place of a format.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("templated").args(["template", "model"]).multiple(true))]
pub struct OwnTemplate {
    /// Render through a chat template (Jinja) in place of a format: a .jinja file, a tokenizer_config.json, a GGUF file, or
    /// a model's folder; --option gives it switches, e.g. enable_thinking=false
    #[arg(
        long,
        value_name = "FILE|DIR",
        conflicts_with_all = ["format", "formats", "rules", "new_turn", "for_training"]
    )]
    pub template: Option<PathBuf>,
    /// Which of a model's chat templates, where it has several [default: `tool_use` for conversations with tools, else
    /// `default`]
    #[arg(long, value_name = "NAME", requires = "templated")]
    pub template_name: Option<String>,
    /// How the template is given tool calls [default: as-given, as transformers does]
    #[arg(long, value_enum, value_name = "HOW", requires = "templated")]
    pub tool_calls: Option<CallsArg>,
    /// What `strftime_now` tells the template, e.g. 2026-11-21T12:34:56 [default: the machine's clock, in UTC]
    #[arg(long, value_name = "TIME", requires = "templated")]
    pub now: Option<DateTime>,
    /// Set how much the template may use: `instructions`, `output`, `memory` and `source` in bytes, `loop` in items, `integer`
    /// in bits; may be repeated
    #[arg(long = "limit", value_name = "NAME=N", value_parser = read_limit)]
    pub limits: Vec<(LimitKind, u64)>,
}

/// How answers are given.
#[derive(Debug, clap::Args)]
pub struct Batch {
    /// Answer with one JSON object, an error too
    #[arg(long)]
    pub json: bool,
    /// Read one JSON object a line and answer each with one, in order; errors are lines too
    #[arg(long)]
    pub jsonl: bool,
    /// Write the lines that are refused into this file too, as they came
    #[arg(long, value_name = "FILE", requires = "jsonl")]
    pub errors: Option<PathBuf>,
    /// How many threads answer the lines [default: one a core]
    #[arg(long, value_name = "N", requires = "jsonl")]
    pub threads: Option<NonZeroUsize>,
    /// Say how far it is even where standard error is no terminal
    #[arg(long, requires = "jsonl", conflicts_with = "quiet")]
    pub progress: bool,
    /// Do not say how far it is
    #[arg(long, requires = "jsonl")]
    pub quiet: bool,
}

/// A batch in a file of its own.
#[derive(Debug, clap::Args)]
pub struct BatchFile {
    /// Write the answers to --jsonl into a file, which is there when all are in it
    #[arg(long, value_name = "FILE", requires = "jsonl")]
    pub output: Option<PathBuf>,
    /// What to write: JSON lines, an Arrow stream or Parquet, with the columns of docs/batches.md [default: as the file is
    /// called]
    #[arg(long, value_enum, value_name = "KIND", requires = "output")]
    pub to: Option<KindArg>,
    /// Write the prompts' text into Arrow and Parquet files too
    #[arg(long, requires = "output")]
    pub with_text: bool,
    /// Go on with a run that was interrupted, if there was one
    #[arg(long, requires = "output", conflicts_with_all = ["force", "errors"])]
    pub resume: bool,
    /// Replace the file, and what an interrupted run has left
    #[arg(long, requires = "output")]
    pub force: bool,
    /// How often is written down how far the run is, in milliseconds; tests make it often
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
    /// `chosen` and `rejected`: both are answered, the better one first
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

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum KindArg {
    Jsonl,
    Arrow,
    Parquet,
}

impl KindArg {
    pub fn kind(self) -> Kind {
        match self {
            KindArg::Jsonl => Kind::Jsonl,
            KindArg::Arrow => Kind::Arrow,
            KindArg::Parquet => Kind::Parquet,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BosArg {
    /// The format or template, and the tokenizer where these write none: it is there once
    Auto,
    /// The format or template alone
    #[value(alias = "write")]
    Template,
    /// The tokenizer: what the format or template writes is left out
    Tokenizer,
    /// Nobody: an engine adds it by itself
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtectArg {
    /// Control tokens: flagged special, in a literal of the format or template, or named by a file of the model
    Control,
    /// All added tokens: text that spells one gets other ids than the model was trained with
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
    /// Refuse what breaks a rule and what has no place
    Enforce,
    /// Do as the maker's own code: any order, roles by the maker's names, what has no place is left out
    Reference,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CallsArg {
    /// As the conversation has them
    AsGiven,
    /// As the template writes them rightly: arguments as an object or as JSON text, ids that it does not refuse
    AsWanted,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LossArg {
    /// Every assistant message
    Assistant,
    /// The last assistant message
    Last,
    /// Everything
    All,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ViewArg {
    /// The prompts to be answered
    Chat,
    /// The texts to be learned from, and what of them carries loss
    Training,
    /// Whether what A trains on is what B serves
    Serving,
    /// Whether what B trains on is what A serves
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
    /// The options of a parser, but for the tools and the prompt's end.
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
    /// Where the template is.
    pub fn path(&self) -> &Path {
        either(self.path.as_deref(), self.model.as_deref())
    }
}

impl Tokenizer {
    /// Where the tokenizer is.
    pub fn path(&self) -> &Path {
        either(self.path.as_deref(), self.model.as_deref())
    }
}

impl Decode {
    /// Where the tokenizer is.
    pub fn tokenizer(&self) -> &Path {
        either(self.tokenizer.as_deref(), self.model.as_deref())
    }
}

/// Of two paths the one that is given; the command line has one of them.
fn either<'a>(one: Option<&'a Path>, other: Option<&'a Path>) -> &'a Path {
    one.or(other).unwrap_or(Path::new("-"))
}

impl Verb {
    /// Whether errors are answers too.
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
