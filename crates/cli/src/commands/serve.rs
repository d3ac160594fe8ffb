//! `rolecall serve`: runs the gateway, or shows what it would run with.

use std::env;
use std::path::PathBuf;

use rolecall_gateway::settings::{FILE_VARIABLE, SettingPlace};
use rolecall_gateway::{
    Keys, Log, Report, RunFault, ServerEnd, SettingFault, Settings, Sources, check, run as run_gateway,
};

use crate::args::Serve;
use crate::diagnostic::{self, Diagnostic, Severity};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::paint::Style;
use crate::visible::escape;

pub fn run(args: &Serve, output: &Output) -> Result<Exit, Failure> {
    if args.hash_key {
        return hash_key(output);
    }
    let settings = read(args)?;
    warn(&settings.warnings, output);
    if args.check {
        let report = check(&settings).map_err(failed)?;
        match args.json {
            true => output.write_json(&report.to_json())?,
            false => {
                warn(&report.warnings, output);
                for (code, message) in &report.faults {
                    show(Severity::Error, code, message, output);
                }
                output.write(&draw(&settings, &report, output))?;
            }
        }
        return Ok(if report.is_good() { Exit::Good } else { Exit::Refused });
    }
    Ok(match run_gateway(&settings, &Log::stderr()).map_err(failed)? {
        ServerEnd::Drained => Exit::Good,
        ServerEnd::Cut(_) => Exit::Cut,
    })
}

/// Reads the settings from the file, the environment and the flags.
fn read(args: &Serve) -> Result<Settings, Failure> {
    let path = args.flags.config.clone().or_else(|| env::var_os(FILE_VARIABLE).map(PathBuf::from));
    let file = path.as_deref().map(files::read_text).transpose()?;
    // Names and values that are no text are not ours.
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let sources = Sources {
        file: path.as_deref().zip(file.as_ref().map(|source| source.text.as_str())),
        environment: env::vars_os().filter_map(text).collect(),
        flags: args.flags.settings.clone(),
    };
    Settings::read(&sources).map_err(refused)
}

/// Prints the line for a key that is read from standard input.
fn hash_key(output: &Output) -> Result<Exit, Failure> {
    let source = files::read_text("-".as_ref())?;
    let key = source.text.trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(Failure::Serve {
            code: "wrong_key",
            message: "expected a key on one line, without white space".into(),
            place: Some(source.name),
            help: Vec::new(),
            exit: Exit::Refused,
        });
    }
    output.write(&format!("{}\n", Keys::line_of(key)))?;
    Ok(Exit::Good)
}

fn failed(fault: RunFault) -> Failure {
    let (code, message, help, exit) = match fault {
        RunFault::Setting(fault) => return refused(fault),
        RunFault::Open(fault) => (fault.code(), fault.to_string(), fault.help(), Exit::Refused),
        RunFault::Engine { name, why } => {
            ("engine_died", format!("the engine of `{name}` was never ready: {why}"), None, Exit::Refused)
        }
        RunFault::System(why) => ("cannot_run", format!("the gateway cannot run: {why}"), None, Exit::Unreadable),
    };
    Failure::Serve { code, message, place: None, help: help.map(str::to_owned).into_iter().collect(), exit }
}

fn refused(fault: SettingFault) -> Failure {
    let exit = match (&fault.place, fault.code) {
        (_, "unreadable_file") => Exit::Unreadable,
        (SettingPlace::File { .. }, _) => Exit::Refused,
        (
            SettingPlace::Nowhere | SettingPlace::Variable(_) | SettingPlace::Flag(_),
            "no_models" | "unknown_key" | "wrong_value",
        ) => Exit::Usage,
        _ => Exit::Refused,
    };
    let place = Some(fault.place.to_string()).filter(|place| !place.is_empty());
    let help = fault.help.into_iter().collect();
    Failure::Serve { code: fault.code, message: fault.message, place, help, exit }
}

fn warn(warnings: &[String], output: &Output) {
    for warning in warnings {
        show(Severity::Warning, "gateway", warning, output);
    }
}

fn show(severity: Severity, code: &'static str, message: &str, output: &Output) {
    let place = diagnostic::DiagnosticPlace::Nowhere;
    output.show(&Diagnostic { severity, code, message: message.to_owned(), place, help: Vec::new() });
}

/// Draws what was understood, and what the engines answered.
fn draw(settings: &Settings, report: &Report, output: &Output) -> String {
    let paint = output.paint;
    let mut text = String::new();
    for model in &report.models {
        paint.push(&mut text, Style::Strong, &escape(&model.name));
        text.push('\n');
        for (name, value) in model.lines() {
            text += &format!("  {name:<16}{}\n", escape(&value));
        }
        text.push('\n');
    }
    paint.push(&mut text, Style::Strong, "the gateway");
    text.push('\n');
    for (name, value) in report.lines() {
        text += &format!("  {name:<16}{}\n", escape(&value));
    }
    let set = settings.effective();
    if !set.is_empty() {
        text.push('\n');
        paint.push(&mut text, Style::Strong, "what was set");
        text.push('\n');
    }
    for (path, value, place) in set {
        text += &format!("  {path} = {}  ({})\n", escape(&value), escape(&place.to_string()));
    }
    text
}
