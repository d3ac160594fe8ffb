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
#[cfg(feature = "gateway")]
mod chat;
mod commands;
mod diagnostic;
mod diff;
mod example;
mod exit;
mod explain;
mod failure;
mod file_kind;
mod files;
mod flags;
mod io_message;
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
use rolecall::guard::guard;

use args::Args;
use exit::Exit;
use failure::Failure;
use output::Output;

fn main() -> ExitCode {
    let args = Args::parse();
    let output = Output::new(args.color);
    ExitCode::from(finish(|| commands::run(&args.verb, &output), &output, args.verb.wants_json()) as u8)
}

/// Runs a command, and shows its failure. A panic is one.
fn finish(run: impl FnOnce() -> Result<Exit, Failure>, output: &Output, wants_json: bool) -> Exit {
    let done = guard(run).unwrap_or_else(|bug| Err(Failure::Internal(bug)));
    done.unwrap_or_else(|failure| output.show_failure(&failure, wants_json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_command_is_its_failure() {
        let output = Output::new(Args::parse_from(["rolecall", "formats"]).color);
        let planted = || -> Result<Exit, Failure> { unreachable!("on purpose") };
        assert_eq!(finish(planted, &output, false), Exit::Unreadable);
        assert_eq!(finish(|| Ok(Exit::Good), &output, false), Exit::Good);
    }
}
