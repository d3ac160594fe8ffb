use clap::CommandFactory;

use crate::args::{Args, Completions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

pub fn run(args: &Completions, output: &Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "rolecall", &mut script);
    output.write(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Good)
}
