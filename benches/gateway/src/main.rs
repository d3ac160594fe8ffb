//! Runs `rolecall serve` and `smg` in front of the same stand-in for an engine, and prints ratios.
//!
//! Input: the folder of a model, and the two programs. Output: tables on standard output.
//! Steps: start the stand-in, both gateways in turn, compare the ids that they send, measure, print.
//! Start reading at `run`. The same program is the stand-in, in a process of its own.

mod client;
mod conversations;
mod figures;
mod grpc;
mod load;
mod process;
mod reply;
mod run;
mod stand_in;
mod steady;
mod turns;

use std::error::Error;

/// What goes wrong ends the benchmark.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words[..] {
        ["stand-in", port, model, pause] => {
            runtime.block_on(stand_in::serve(port.parse()?, model.to_owned(), pause.parse()?))
        }
        [model, rolecall, smg, ref only @ ..] => runtime.block_on(run::run(model, rolecall, smg, only)),
        _ => Err("expected MODEL ROLECALL SMG [WHICH..]; the script `run` next to this has them".into()),
    }
}
