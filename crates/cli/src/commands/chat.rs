//! `rolecall chat`: a chat in the terminal, with a model that can call tools and run code.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rolecall::Request;
use rolecall::conversation::json::{Object, write};
use rolecall::conversation::{Json, Message, Role, json};
use rolecall::grammar::ToolChoice;
use rolecall_gateway::engine::{EngineKind, LocalOptions, Sampler};
use rolecall_interpreter::agent::{Agent, AgentError, Callable, Engine, Policy, Replay, Toolbox, ToolsFile};
use rolecall_interpreter::{Folder, Interpreter, Pool};

use super::interpreter::{failed, kernel_options, put};
use crate::args::ChatArgs;
use crate::chat::{Asking, Chat, Lines, Shown};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::job::refused;
use crate::output::Output;
use crate::source::Source;

/// How long an engine may take to load its model.
const PATIENCE: Duration = Duration::from_secs(600);

pub fn run(args: &ChatArgs, output: &Output) -> Result<Exit, Failure> {
    let reader = args.model.open(output)?;
    let model = &reader.job.model;
    let (toolbox, attached) = toolbox(args)?;
    let (mut engine, toolbox): (Box<dyn Engine>, Toolbox) = match &args.replay {
        Some(path) => {
            let source = files::read_text(path)?;
            let replay = Replay::from_lines(&source.text);
            let mut replay = replay.map_err(|error| wrong(format!("{}: {error}", source.name), "record"))?;
            let toolbox = replay.toolbox(toolbox);
            (Box::new(replay), toolbox)
        }
        None => (Box::new(open_engine(args, model, output)?), toolbox),
    };
    let asking = Asking::default();
    let lines = Lines::open();
    let ask = asking.clone();
    let is_terminal = lines.is_terminal();
    let paint = output.paint;
    let mut policy = Policy {
        rounds: args.rounds,
        max_tokens: args.max_tokens,
        choice: if args.require_call { ToolChoice::Required } else { ToolChoice::Auto },
        ask: is_terminal.then(|| Box::new(move |call: &_| ask.ask(call, paint)) as _),
        ..Policy::default()
    };
    if args.allow.iter().any(|name| name == "all") {
        policy.ask = Some(Box::new(|_| rolecall_interpreter::agent::Decision::Run));
    }
    let policy = policy.allowing(args.allow.iter().cloned());
    let (request, messages) = begin(args)?;
    let mut agent = Agent::new(model, request, toolbox, policy).map_err(in_agent)?;
    agent.begin_with(&messages).map_err(in_agent)?;
    let record = match &args.record {
        Some(path) => {
            let unwritable = |error: std::io::Error| Failure::SessionFile {
                path: path.display().to_string(),
                why: error.to_string(),
            };
            Some(BufWriter::new(File::create(path).map_err(unwritable)?))
        }
        None => None,
    };
    let mut chat = Chat {
        agent,
        engine: &mut *engine,
        lines,
        shown: Shown { output, json: args.json, is_within: None },
        record: record.map(|record| Box::new(record) as Box<dyn Write>),
        attached,
        earlier: Vec::new(),
        job: &reader.job,
    };
    chat.talk()
}

fn wrong(message: String, code: &'static str) -> Failure {
    Failure::Open(message, code, Vec::new())
}

/// Returns why an agent cannot go on.
pub fn in_agent(error: AgentError) -> Failure {
    match error {
        AgentError::Core(error) => refused((*error).into(), &Source::default()),
        other => wrong(other.to_string(), "engine"),
    }
}

fn open_engine(args: &ChatArgs, model: &rolecall::Model, output: &Output) -> Result<Sampler, Failure> {
    let kind = EngineKind::of_word(&args.engine_kind);
    let kind = kind.ok_or_else(|| {
        let words = EngineKind::ALL.map(|(word, _)| word).join(", ");
        wrong(format!("--engine-kind: expected one of {words}, found `{}`", args.engine_kind), "engine_kind")
    })?;
    let local = LocalOptions {
        server: args.local_server.clone(),
        python: args.local_python.clone(),
        ..LocalOptions::default()
    };
    let address = args.engine.as_deref().unwrap_or_default();
    let sampler = Sampler::open(model, address, kind, args.engine_model.as_deref(), &local);
    let sampler = sampler.map_err(|why| wrong(why, "engine"))?;
    let patience = if address.starts_with("local:") { PATIENCE } else { Duration::from_secs(10) };
    sampler.ready(patience).map_err(|fault| wrong(fault.message.to_string(), "engine"))?;
    if let Some(warning) = sampler.warning() {
        output.show(&crate::diagnostic::Diagnostic {
            severity: crate::diagnostic::Severity::Warning,
            code: "engine",
            message: warning.to_owned(),
            place: crate::diagnostic::DiagnosticPlace::Nowhere,
            help: Vec::new(),
        });
    }
    Ok(sampler)
}

/// Returns what the model can call, and the parts of the files that its code finds.
fn toolbox(args: &ChatArgs) -> Result<(Toolbox, Vec<Json>), Failure> {
    let options = kernel_options(&args.kernel);
    let mut toolbox = Toolbox::default();
    let mut attached = Vec::new();
    let mut folder = None;
    if args.interpreter {
        if args.replay.is_some() {
            toolbox = toolbox.offering_code();
        } else {
            let pool = Pool::new(options.clone(), 0, 1).map_err(failed)?;
            let mut session = pool.session().map_err(failed)?;
            session.warm_up().map_err(failed)?;
            for path in &args.files {
                let (name, size) = put(&session, path)?;
                attached.push(Folder::part(&name, size));
            }
            folder = Some(session.folder().clone());
            toolbox = toolbox.with_interpreter(Box::new(session));
        }
    } else if !args.files.is_empty() {
        return Err(wrong("--file: without --interpreter, there is no folder for files".into(), "no_interpreter"));
    }
    if let Some(path) = &args.tools {
        let source = files::read_text(path)?;
        let file = ToolsFile::read(&source.text, path.parent().unwrap_or(path), &options);
        let file = file.map_err(|error| wrong(format!("{}: {error}", source.name), "tools_file"))?;
        for command in &file.commands {
            let mut command = (**command).clone();
            command.folder.clone_from(&folder);
            toolbox = toolbox.with(Arc::new(command));
        }
        for server in &file.servers {
            for tool in server.connect().map_err(failed)? {
                if toolbox.names().any(|name| name == tool.name()) {
                    let message = format!("{}: two tools have the name `{}`", source.name, tool.name());
                    return Err(wrong(message, "tools_file"));
                }
                toolbox = toolbox.with(tool);
            }
        }
    }
    Ok((toolbox, attached))
}

/// Returns the request without messages, and the messages to begin with.
fn begin(args: &ChatArgs) -> Result<(Request, Vec<Message>), Failure> {
    let empty = || Request::without_messages(Object::new());
    let source = args.input.as_deref().map(files::read_text).transpose()?.unwrap_or_default();
    let request = match &args.input {
        Some(_) => Request::from_text(&source.text),
        None => empty(),
    };
    let mut request = request.map_err(|error| refused(rolecall::Error::from(error).into(), &source))?;
    let mut messages = std::mem::take(&mut request.conversation.messages);
    if let Some(system) = &args.system
        && messages.first().is_none_or(|first| *first.role() != Role::System)
    {
        messages.insert(0, Message::system(system.as_str()));
    }
    Ok((request, messages))
}

/// Writes a conversation to a file.
pub fn save(conversation: &Json, path: &Path) -> Result<(), Failure> {
    let text = write(conversation, &json::Layout::indented(2)) + "\n";
    fs::write(path, text)
        .map_err(|error| Failure::OutputFile { path: path.display().to_string(), why: error.to_string() })
}
