//! The arguments of `chat` and `interpreter`.

use std::path::PathBuf;

use super::session::SessionModel;

/// Chat with a model in the terminal; it can call tools and run code
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/chat.txt"))]
#[command(mut_arg("template", super::rendering))]
pub struct ChatArgs {
    /// A conversation to go on with, as every other command reads it
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub model: SessionModel,
    /// The engine's address: http://HOST:PORT, or local:FILE.gguf, for which llama.cpp's server is started
    #[arg(long, value_name = "URL", required_unless_present = "replay")]
    pub engine: Option<String>,
    /// The kind of engine: llama.cpp, vllm, sglang or openai
    #[arg(long, value_name = "KIND", default_value = "llama.cpp")]
    pub engine_kind: String,
    /// The engine's name for the model, if it serves several
    #[arg(long, value_name = "NAME")]
    pub engine_model: Option<String>,
    /// The program that local:FILE.gguf starts [default: `llama-server` on the path]
    #[arg(long, value_name = "PATH")]
    pub local_server: Option<PathBuf>,
    /// The Python interpreter, which has the package xllamacpp, that local:FILE.gguf starts
    #[arg(long, value_name = "PATH")]
    pub local_python: Option<PathBuf>,
    /// The system message, if the conversation does not begin with one
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// A TOML file that declares tools: commands and MCP servers
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,
    /// Let the model run code, in a sandbox
    #[arg(long)]
    pub interpreter: bool,
    /// A tool that runs without a question; may be repeated; `code_interpreter` is code, `all` is everything
    #[arg(long, value_name = "NAME")]
    pub allow: Vec<String>,
    /// A file for the code interpreter's folder, which the next message attaches; may be repeated
    #[arg(long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The most ids of a reply
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<usize>,
    /// The most replies after one message
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub rounds: usize,
    /// Force the first reply to be a call, by a grammar
    #[arg(long)]
    pub require_call: bool,
    /// Write every step to a file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Play the replies and results of such a file again: no engine is asked, and nothing runs
    #[arg(long, value_name = "FILE", conflicts_with = "engine")]
    pub replay: Option<PathBuf>,
    /// Print every step as a line of JSON instead of drawing it
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub kernel: KernelArgs,
}

/// Run code as a model's code is run, or check what this machine lacks for it
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/interpreter.txt"))]
pub struct InterpreterArgs {
    /// The code; reads standard input if `-` or omitted
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Say what is missing on this machine, and the one command that installs it
    #[arg(long, conflicts_with = "input")]
    pub check: bool,
    /// A file for the folder of the code, /mnt/data; may be repeated
    #[arg(long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A folder that gets the files that the code leaves, pictures included
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub kernel: KernelArgs,
}

/// How kernels are started.
#[derive(Debug, clap::Args)]
pub struct KernelArgs {
    /// The kernelspec of another language than Python
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// The Python interpreter that has the package ipykernel
    #[arg(long, value_name = "PATH")]
    pub kernel_python: Option<PathBuf>,
    /// The time that one run of code may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub code_time: u64,
    /// The memory of code, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub code_memory: u64,
    /// Run code with all that you may do yourself. Only for models and messages that you trust
    #[arg(long)]
    pub unsafe_no_sandbox: bool,
}
