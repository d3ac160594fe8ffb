//! `rolecall interpreter`: runs code as a model's code is run, or checks what this machine lacks for it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rolecall::conversation::{Json, object};
use rolecall_interpreter::agent::AgentEvent;
use rolecall_interpreter::{
    CodeOutput, Error, Interpreter, Isolation, KernelLimits, KernelOptions, KernelSession, Pool, Stop, check,
};

use crate::args::{InterpreterArgs, KernelArgs};
use crate::chat::shown::Shown;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::paint::Style;

pub fn run(args: &InterpreterArgs, output: &Output) -> Result<Exit, Failure> {
    let options = kernel_options(&args.kernel);
    if args.check {
        return run_check(&options, args.json, output);
    }
    let code = files::read_text(args.input.as_deref().unwrap_or(Path::new("-")))?.text;
    let pool = Pool::new(options, 0, 1).map_err(failed)?;
    let mut session = pool.session().map_err(failed)?;
    for path in &args.files {
        put(&session, path)?;
    }
    let (mut written, mut screen) = (Ok(()), Shown { output, json: false, is_within: None });
    let mut show = |shown: &CodeOutput| {
        if !args.json && written.is_ok() {
            written = screen.show(&AgentEvent::Output(shown));
        }
    };
    let execution = session.run(&code, &Stop::default(), &mut show).map_err(failed)?;
    written?;
    if let Some(folder) = &args.out {
        // Nothing changes the files while they are copied.
        session.restart();
        take_all(&session, folder)?;
    }
    if args.json {
        let outputs: Vec<Json> = execution.outputs.iter().map(|output| AgentEvent::Output(output).to_json()).collect();
        output.write_json(&object! { "outputs" => outputs, "is_good" => execution.error().is_none() }.into())?;
    }
    Ok(if execution.error().is_none() { Exit::Good } else { Exit::Refused })
}

fn run_check(options: &KernelOptions, json: bool, output: &Output) -> Result<Exit, Failure> {
    let check = check(options);
    let lines = |lines: &[String]| lines.iter().map(|line| line.as_str().into()).collect::<Vec<Json>>();
    if json {
        let install = check.install.as_deref().map_or(Json::Null, Into::into);
        output.write_json(
            &object! { "found" => lines(&check.found), "missing" => lines(&check.missing), "install" => install }
                .into(),
        )?;
    } else {
        let mut text = String::new();
        for line in &check.found {
            text.push_str(&format!("found    {line}\n"));
        }
        for line in &check.missing {
            output.paint.push(&mut text, Style::Error, "missing");
            text.push_str(&format!("  {line}\n"));
        }
        if let Some(command) = &check.install {
            text.push_str(&format!("\nThis installs it:\n{command}\n"));
        }
        output.write(&text)?;
    }
    Ok(if check.missing.is_empty() { Exit::Good } else { Exit::Refused })
}

/// Returns how kernels are started.
pub fn kernel_options(args: &KernelArgs) -> KernelOptions {
    let limits = KernelLimits {
        wall_time: Duration::from_secs(args.code_time),
        processor_time: Duration::from_secs(args.code_time),
        memory: args.code_memory << 20,
        ..KernelLimits::default()
    };
    KernelOptions {
        limits,
        isolation: if args.unsafe_no_sandbox { Isolation::UnsafeNone } else { Isolation::Sandbox },
        python: args.kernel_python.clone(),
        kernelspec: args.kernel.clone(),
        ..KernelOptions::default()
    }
}

/// Returns why code cannot be run.
pub fn failed(error: Error) -> Failure {
    let help = match &error {
        Error::Missing { help, .. } => vec![help.clone()],
        _ => Vec::new(),
    };
    let message = match &error {
        Error::Missing { what, .. } => what.clone(),
        other => other.to_string(),
    };
    Failure::Open(message, error.code(), help)
}

/// Puts a file into a session's folder, and returns its name there.
pub fn put(session: &KernelSession, path: &Path) -> Result<(String, u64), Failure> {
    let bytes = fs::read(path).map_err(|error| files::unreadable_file(path, &error))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    session.folder().write(&name, &bytes).map_err(failed)?;
    Ok((name, bytes.len() as u64))
}

/// Copies the files of a session to a folder.
fn take_all(session: &KernelSession, folder: &Path) -> Result<(), Failure> {
    for entry in session.folder().list().map_err(failed)? {
        let bytes = session.folder().read(&entry.name).map_err(failed)?;
        let path = folder.join(&entry.name);
        let written = fs::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| fs::write(&path, bytes));
        written.map_err(|error| Failure::OutputFile { path: path.display().to_string(), why: error.to_string() })?;
    }
    Ok(())
}
