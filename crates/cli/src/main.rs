//! In: the command line, a conversation from a file or standard input. Out: prompts, ids and pictures of them on standard output.
//! Between: `args` says what can be asked, `commands` does it, `files` reads, `diagnostic` draws what is wrong on standard error.
//! `explain` is the showcase: it cuts a prompt by origin and token, and draws it for a terminal or as HTML.
//! Start reading at `commands`.

#![expect(
    clippy::result_large_err,
    reason = "a failure ends the command: there is one at most, and nothing hot returns it"
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
mod packed;
mod paint;
mod reading;
mod refusal;
mod shapes;
mod source;
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
