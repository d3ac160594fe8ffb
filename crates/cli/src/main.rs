//! The `rolecall` command. It reads conversations from files or standard input and writes prompts,
//! token ids and explanations of them to standard output.
//!
//! `args` defines the command line, `commands` implements each command, `files` reads files, and
//! `diagnostic` prints errors and warnings to standard error. `explain` cuts a prompt by origin and
//! token and draws it for a terminal or as HTML. Start reading at `commands`.

#![expect(
    clippy::result_large_err,
    reason = "a failure ends the command, so there is at most one, and no hot code returns it"
)]

mod args;
mod batch;
mod commands;
mod diagnostic;
mod diff;
mod example;
mod exit;
mod explain;
mod failure;
mod files;
mod flags;
mod job;
mod locate;
mod output;
mod output_problem;
mod packed;
mod paint;
mod reading;
mod ready;
mod refusal;
mod row_kind;
mod session;
mod shapes;
mod source;
mod stability;
mod table;
mod template;
mod versus;
mod visible;

use std::process::ExitCode;

use clap::Parser;

use args::Args;
use output::Output;

fn main() -> ExitCode {
    let args = Args::parse();
    let output = Output::new(args.color);
    let exit = match commands::run(&args.verb, &output) {
        Ok(exit) => exit,
        Err(failure) => output.show_failure(&failure, args.verb.wants_json()),
    };
    ExitCode::from(exit as u8)
}
