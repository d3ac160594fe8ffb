//! The command line's arguments. The doc comments here are the help texts.

mod chat;
mod groups;
mod serve;
mod session;
mod training;
mod values;
mod words;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use rolecall::encode::Protect;
use rolecall::grammar::Reasoning;
use rolecall::model::BosBy;
use rolecall::render::RuleMode;
use rolecall::template::Forms;

use crate::paint::Color;

#[cfg(feature = "gateway")]
pub use chat::KernelArgs;
pub use chat::{ChatArgs, InterpreterArgs};
pub use groups::{Batch, BatchFile, Chat, Layouts, MoreFormats, OwnTemplate, Policies, TextEncoding};
pub use serve::ServeFlags;
pub use session::SessionModel;
pub use training::{RolloutLoss, SampleFlags};
pub use values::{ApiArg, FinishArg, LanguageArg, ViewArg};

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
    Stability(Stability),
    Session(Session),
    Rollout(Rollout),
    Grammar(Grammar),
    Explain(Explain),
    Formats(Formats),
    Diff(Diff),
    Check(Check),
    Template(TemplateArgs),
    Tokenizer(Tokenizer),
    Serve(Serve),
    Chat(ChatArgs),
    Interpreter(InterpreterArgs),
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
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "model", help = words::tokenizer("The model's tokenizer"))]
    pub tokenizer: Option<PathBuf>,
    #[command(flatten)]
    pub text: TextEncoding,
    #[command(flatten)]
    pub samples: SampleFlags,
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
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "model", help = words::tokenizer("The tokenizer that the ids belong to"))]
    pub tokenizer: Option<PathBuf>,
    /// The model that the ids belong to: its folder or a GGUF file
    #[arg(short, long, value_name = "DIR|FILE", conflicts_with = "tokenizer")]
    pub model: Option<PathBuf>,
    /// The format of the ids, if its tokens are not in the tokenizer's file and its folder does not
    /// tell it
    #[arg(short, long, value_name = "NAME|FILE")]
    pub format: Option<String>,
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
    #[arg(long, value_name = "FILE|DIR", requires = "ids", help = words::tokenizer("The tokenizer that the ids belong to"))]
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

/// Check whether a new message changes what was already rendered, which an engine has cached
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/stability.txt"))]
pub struct Stability {
    /// A conversation, as `render` takes it; `-` is standard input. With --jsonl, several files and
    /// patterns such as `data/*.jsonl` are accepted [default: a built-in set of conversations]
    #[arg(value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub layouts: Layouts,
    /// How to pass messages, calls and tools to the template [default: as-wanted]
    #[arg(long, alias = "tool-calls", value_parser = words::forms(), value_name = "HOW", requires = "templated")]
    pub forms: Option<Forms>,
    #[arg(long, value_name = "FILE|DIR", help = words::tokenizer("The model's tokenizer, to count the ids that are no longer valid"))]
    pub tokenizer: Option<PathBuf>,
    /// Show every change instead of one of each kind
    #[arg(long, conflicts_with_all = ["json", "jsonl"])]
    pub all: bool,
    #[command(flatten)]
    pub batch: Batch,
}

/// Play a session step by step: only the new ids of each turn, with sampled ids kept
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/session.txt"))]
#[command(mut_arg("template", rendering))]
pub struct Session {
    /// The script: one step per line, as JSON; reads standard input if `-` or omitted
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub model: SessionModel,
    /// Write the session that is the current one at the end to a file, as one line, with which
    /// another script can begin
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// End after the first step that fails, instead of going on with the session as it was
    #[arg(long)]
    pub fail_fast: bool,
    /// Print the result of each step as a line of JSON as soon as it is done, errors included
    #[arg(long)]
    pub json: bool,
}

/// Show a session turn by turn: who wrote each run of ids, its text, its loss weight, and where the
/// session left the template's own rendering
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/rollout.txt"))]
#[command(mut_arg("template", rendering))]
pub struct Rollout {
    /// A saved session, or the script of one, as `session` takes it; reads standard input if `-` or
    /// omitted
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub model: SessionModel,
    #[command(flatten)]
    pub loss: RolloutLoss,
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
    /// Make the answer JSON that fits this JSON Schema; calls remain possible as the choice says
    #[arg(long, value_name = "FILE")]
    pub answer_schema: Option<PathBuf>,
    /// Allow at most one tool call per turn
    #[arg(long)]
    pub one_call: bool,
    /// Whether the reply begins with reasoning; reasoning that the prompt already opened is always
    /// taken into account
    #[arg(long, value_parser = words::reasoning(), value_name = "WHEN", default_value = "off", num_args = 0..=1, default_missing_value = "optional")]
    pub reasoning: Reasoning,
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

/// Show where every piece of a prompt comes from: control tokens, roles, tools, white space, token
/// boundaries
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/explain.txt"))]
#[command(group = clap::ArgGroup::new("encoded").args(["tokenizer", "model"]).multiple(true))]
#[command(mut_arg("reference_encoding", |arg| arg.requires("encoded")))]
#[command(mut_arg("protect", |arg| arg.requires("encoded")))]
pub struct Explain {
    #[command(flatten)]
    pub chat: Chat,
    #[command(flatten)]
    pub own: OwnTemplate,
    #[arg(long, value_name = "FILE|DIR", help = words::tokenizer("The model's tokenizer, to show token boundaries"))]
    pub tokenizer: Option<PathBuf>,
    #[command(flatten)]
    pub text: TextEncoding,
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
    #[arg(long, value_parser = words::bos(), value_name = "WHO")]
    pub bos: Option<BosBy>,
    /// How to apply the formats' order rules [default: enforce]
    #[arg(long, value_parser = words::rules(), value_name = "HOW")]
    pub rules: Option<RuleMode>,
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
pub struct TemplateArgs {
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
    /// The model's tokenizer, to check whether the BOS token is written twice, and which tokens open
    /// calls that the template does not write [default: the one in the folder]
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
    #[arg(long, conflicts_with = "json")]
    pub layout: bool,
}

/// Show a tokenizer's properties and risks, and how it treats a format's control tokens
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/tokenizer.txt"))]
pub struct Tokenizer {
    #[arg(value_name = "FILE|DIR", required_unless_present = "model", help = words::tokenizer("The tokenizer"))]
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
    #[arg(long, value_parser = words::protect(), default_value = "control", requires = "template")]
    pub protect: Protect,
    /// List every token of a finding instead of only the first few
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Serve models over HTTP: OpenAI's API in front of any inference engine
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/serve.txt"))]
pub struct Serve {
    #[command(flatten)]
    pub flags: ServeFlags,
    /// Open everything, print what was understood and what each engine answers, and end
    #[arg(long)]
    pub check: bool,
    /// Print the result of --check as one JSON object
    #[arg(long, requires = "check")]
    pub json: bool,
    /// Read an API key from standard input, print the line that stands for it in the file of --keys,
    /// and end
    #[arg(long, conflicts_with = "check")]
    pub hash_key: bool,
}

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/completions.txt"))]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

impl TemplateArgs {
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

/// Says what a chat template does if the command renders with it.
fn rendering(template: clap::Arg) -> clap::Arg {
    template.help(
        "Render with a chat template (Jinja) instead of a format: a .jinja file, a tokenizer_config.json, a GGUF file, \
         or a model's folder",
    )
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
            Verb::Stability(stability) => stability.batch.json && !stability.batch.jsonl,
            Verb::Session(session) => session.json,
            Verb::Rollout(rollout) => rollout.json,
            Verb::Explain(explain) => explain.json,
            Verb::Formats(formats) => formats.json,
            Verb::Diff(diff) => diff.json,
            Verb::Check(check) => check.json,
            Verb::Template(template) => template.json,
            Verb::Tokenizer(tokenizer) => tokenizer.json,
            Verb::Serve(serve) => serve.json,
            Verb::Chat(chat) => chat.json,
            Verb::Interpreter(interpreter) => interpreter.json,
            Verb::Decode(_) | Verb::Grammar(_) | Verb::Completions(_) => false,
        }
    }
}
