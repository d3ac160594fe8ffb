use std::process::ExitCode;

pub fn run(_arguments: &[String]) -> Result<ExitCode, String> {
    Err("not yet".to_owned())
}
