//! The failures of a command, with their messages for people, their JSON for programs and their
//! exit codes.

use std::io;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Place as Field, json, object};
use rolecall::dataset;
use rolecall::format::LoadError;
use rolecall::grammar::Error as GrammarError;
use rolecall::identify::{FileError, Unidentified};
use rolecall::template::NoChoice;
use rolecall::{Error, Request, tokenizer};

use crate::diagnostic::{DRAWN, Diagnostic, DiagnosticPlace, Severity};
use crate::exit::Exit;
use crate::file_kind::FileKind;
use crate::flags;
use crate::locate::locate;
use crate::output_problem::OutputProblem;
use crate::refusal::Refusal;
use crate::session::BadStep;
use crate::source::{Source, Spot};

#[derive(Debug)]
pub enum Failure {
    /// A file or folder cannot be read.
    Unreadable { path: String, why: String },
    /// A file holds no UTF-8 text, but something else.
    NotText { path: String, kind: FileKind },
    /// The input of a batch cannot be read to its end. The reason names the file.
    BrokenInput { why: String },
    /// The file for refused lines cannot be written.
    ErrorsFile { path: String, why: String },
    /// The file for refused lines exists, and is not to be replaced.
    ErrorsExist { path: String },
    /// A session cannot be saved.
    SessionFile { path: String, why: String },
    /// A file of a chat or of code cannot be written.
    #[cfg(feature = "gateway")]
    OutputFile { path: String, why: String },
    /// The result cannot be written.
    Unwritable(io::Error),
    /// A conversation is refused.
    Refused { refusal: Refusal, source: Source },
    /// A prompt cannot be encoded with the tokenizer of this path.
    Misfit { tokenizer: String, error: Error },
    /// Something other than a token id was found.
    NotAnId { path: String, line: usize, found: String },
    /// Something other than a chunk of text was found.
    NotAChunk { path: String, line: usize, found: String },
    /// A format file has mistakes.
    FormatFile { source: Source, error: LoadError },
    /// A format file has the same name as another format, which is built in unless `first` names
    /// its file.
    NameClash { path: String, name: String, other: String, first: Option<String> },
    /// The command line names an unknown format.
    UnknownFormat { name: String, near: Option<String> },
    /// The command line asks for a view that chat templates do not support.
    NoSuchView(&'static str),
    /// The command line names this many files, but only one is read.
    SeveralFiles(usize),
    /// The file is not a valid tokenizer.
    Tokenizer { path: String, error: tokenizer::Error },
    /// A file in a model's folder is damaged.
    ModelFile(FileError),
    /// A file that should contain a chat template is damaged or contains none.
    TemplateFile(FileError),
    /// The command line names a chat template that the model at this path does not have.
    NoTemplate { path: String, why: NoChoice },
    /// No format can be identified for a model without guessing.
    NoFormatFor(Unidentified),
    /// A model cannot be opened: the message, the error code and the help.
    Open(String, &'static str, Vec<String>),
    /// A chat template was given to `check`, which expects a format file.
    NotAFormat { path: String },
    /// No grammar can be built for the request.
    NoGrammar(GrammarError),
    /// A batch cannot be written to this file.
    Output { path: String, problem: OutputProblem },
    /// The name of a batch's output file does not determine its format.
    UnknownKind { path: String },
    /// The output needs columns, which this build does not write.
    NotBuilt { path: String },
    /// The gateway cannot run.
    Serve { code: &'static str, message: String, place: Option<String>, help: Vec<String>, exit: Exit },
    /// The command panicked, which is a bug in rolecall.
    Internal(Error),
    /// Lines of a batch were read but got no result, which is a bug in rolecall.
    LostLines { input: String, behind: u64 },
}

impl Failure {
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Serve { exit, .. } => *exit,
            Failure::Unreadable { .. }
            | Failure::NotText { .. }
            | Failure::BrokenInput { .. }
            | Failure::ErrorsFile { .. }
            | Failure::ErrorsExist { .. }
            | Failure::SessionFile { .. }
            | Failure::Unwritable(_)
            | Failure::Output { .. }
            | Failure::Internal(_)
            | Failure::LostLines { .. } => Exit::Unreadable,
            #[cfg(feature = "gateway")]
            Failure::OutputFile { .. } => Exit::Unreadable,
            Failure::UnknownFormat { .. }
            | Failure::UnknownKind { .. }
            | Failure::NotBuilt { .. }
            | Failure::NotAFormat { .. }
            | Failure::SeveralFiles(_)
            | Failure::NoSuchView(_)
            | Failure::NoTemplate { .. }
            | Failure::Refused { refusal: Refusal::NoFormat, .. } => Exit::Usage,
            Failure::Refused { refusal, source } if option_of_command_line(refusal, source).is_some() => Exit::Usage,
            Failure::Refused { .. }
            | Failure::Misfit { .. }
            | Failure::NotAnId { .. }
            | Failure::NotAChunk { .. }
            | Failure::FormatFile { .. }
            | Failure::NameClash { .. }
            | Failure::Tokenizer { .. }
            | Failure::ModelFile(_)
            | Failure::TemplateFile(_)
            | Failure::NoFormatFor(_)
            | Failure::Open(..)
            | Failure::NoGrammar(_) => Exit::Refused,
        }
    }

    /// Returns the diagnostic of a refusal that does not end the command.
    pub fn diagnostic_of<'a>(refusal: &'a Refusal, source: &'a Source) -> Diagnostic<'a> {
        Diagnostic {
            severity: Severity::Error,
            code: refusal.code(),
            message: message_of(refusal),
            place: place_of_refusal(refusal, source),
            help: refusal.help(),
        }
    }

    /// Returns the diagnostics to print, at least one.
    pub fn diagnostics(&self) -> Vec<Diagnostic<'_>> {
        if let Failure::FormatFile { source, error } = self {
            return diagnostics_of_format(source, error);
        }
        let place = match self {
            Failure::Refused { refusal, source } => place_of_refusal(refusal, source),
            Failure::Misfit { tokenizer, .. } => DiagnosticPlace::Named(tokenizer.clone()),
            Failure::Tokenizer { path, .. } | Failure::NameClash { path, .. } => DiagnosticPlace::Named(path.clone()),
            Failure::NotAnId { path, line, .. } | Failure::NotAChunk { path, line, .. } => {
                DiagnosticPlace::Named(format!("{path}, line {line}"))
            }
            Failure::ModelFile(error) | Failure::TemplateFile(error) => place_in_model(error),
            Failure::NoTemplate { path, .. } | Failure::NotAFormat { path } => DiagnosticPlace::Named(path.clone()),
            Failure::UnknownFormat { .. } | Failure::SeveralFiles(_) | Failure::NoSuchView(_) => {
                DiagnosticPlace::Named("command line".into())
            }
            Failure::UnknownKind { .. } | Failure::NotBuilt { .. } => {
                DiagnosticPlace::Named("command line, --output".into())
            }
            Failure::Output { path, .. } => DiagnosticPlace::Named(path.clone()),
            Failure::Serve { place: Some(place), .. } => DiagnosticPlace::Named(place.clone()),
            Failure::LostLines { input, behind } => DiagnosticPlace::Named(format!("{input}, after line {behind}")),
            _ => DiagnosticPlace::Nowhere,
        };
        let help = self.help();
        vec![Diagnostic { severity: Severity::Error, code: self.code(), message: self.message(), place, help }]
    }

    /// `{"id"?, "error": {"code", "message", "help"?, ..}}`
    pub fn to_json(&self) -> Json {
        if let Failure::Refused { refusal, source } = self {
            let mut json = refusal.to_json(Request::id_of(&source.text).as_ref());
            if is_lines(refusal, source)
                && let Json::Object(object) = &mut json
                && let Some(Json::Object(inner)) = object.get_mut("error")
            {
                inner.insert("help", Json::from(WITH_LINES));
            }
            return json;
        }
        let mut inner = object! { "code" => self.code(), "message" => self.message() };
        if let [.., help] = self.help().as_slice() {
            inner.insert("help", Json::from(help.as_str()));
        }
        match self {
            Failure::FormatFile { source, error } => {
                inner.insert("mistakes", json_of_mistakes(source, error));
            }
            Failure::ModelFile(error) | Failure::TemplateFile(error) => {
                if let FileError::Damaged { path, .. } = error {
                    inner.insert("file", Json::from(path.display().to_string()));
                }
                if let Some((line, column)) = error.line_and_column() {
                    inner.insert("line", Json::from(line as i64));
                    inner.insert("column", Json::from(column as i64));
                }
            }
            Failure::NoFormatFor(unidentified) => {
                inner.insert("candidates", json_of_candidates(unidentified));
            }
            _ => {}
        }
        Json::Object(object! { "error" => inner })
    }

    fn code(&self) -> &'static str {
        match self {
            Failure::Unreadable { .. } | Failure::BrokenInput { .. } => "unreadable_file",
            Failure::NotText { .. } => "not_utf8",
            Failure::ErrorsFile { .. } => "unwritable_errors",
            Failure::ErrorsExist { .. } => "errors_exist",
            Failure::SessionFile { .. } => "unwritable_session",
            #[cfg(feature = "gateway")]
            Failure::OutputFile { .. } => "unwritable_file",
            Failure::Unwritable(_) => "unwritable_output",
            Failure::Refused { refusal, .. } => refusal.code(),
            Failure::Misfit { error, .. } => error.code(),
            Failure::NotAnId { .. } => "not_an_id",
            Failure::NotAChunk { .. } => "not_a_chunk",
            Failure::FormatFile { .. } => "bad_format",
            Failure::NameClash { .. } => "name_clash",
            Failure::UnknownFormat { .. } => "unknown_format",
            Failure::Tokenizer { error, .. } => error.code(),
            Failure::ModelFile(error) | Failure::TemplateFile(error) => error.code(),
            Failure::NoTemplate { why, .. } => why.code(),
            Failure::NoFormatFor(unidentified) => unidentified.code(),
            Failure::Open(_, code, _) => code,
            Failure::NotAFormat { .. } => "not_a_format",
            Failure::NoGrammar(error) => error.code(),
            Failure::Output { problem, .. } => problem.code(),
            Failure::Internal(error) => error.code(),
            Failure::LostLines { .. } => "lost_lines",
            Failure::UnknownKind { .. } => "unknown_kind",
            Failure::NotBuilt { .. } => "not_built",
            Failure::Serve { code, .. } => code,
            Failure::SeveralFiles(_) => "several_files",
            Failure::NoSuchView(_) => "no_such_view",
        }
    }

    fn message(&self) -> String {
        match self {
            Failure::Unreadable { path, why } => format!("cannot read `{path}`: {why}"),
            Failure::NotText { path, kind } => format!("cannot read `{path}`: {kind}"),
            Failure::BrokenInput { why } => format!("cannot read the input to its end: {why}"),
            Failure::ErrorsFile { path, why } => format!("cannot write refused lines to `{path}`: {why}"),
            Failure::ErrorsExist { path } => format!("the file for refused lines already exists: `{path}`"),
            Failure::SessionFile { path, why } => format!("cannot write the session to `{path}`: {why}"),
            #[cfg(feature = "gateway")]
            Failure::OutputFile { path, why } => format!("cannot write `{path}`: {why}"),
            Failure::Unwritable(error) => format!("cannot write the result: {error}"),
            Failure::Refused { refusal, .. } => message_of(refusal),
            Failure::Misfit { error, .. } => error.to_string(),
            Failure::NotAnId { found, .. } => format!("expected a token id, found `{found}`"),
            Failure::NotAChunk { found, .. } => format!("expected a chunk of text as a JSON string, found `{found}`"),
            Failure::FormatFile { source, error } => {
                format!("{} in the format file `{}`", count_of_mistakes(error), source.name)
            }
            Failure::NameClash { name, first: Some(first), .. } => {
                format!("`{name}` is already a name of the format in `{first}`")
            }
            Failure::NameClash { name, other, first: None, .. } if name == other => {
                format!("`{name}` is already the name of a built-in format")
            }
            Failure::NameClash { name, other, first: None, .. } => {
                format!("`{name}` is already a name of the built-in format `{other}`")
            }
            Failure::UnknownFormat { name, .. } => format!("there is no format `{name}`"),
            Failure::Tokenizer { error, .. } => error.to_string(),
            Failure::ModelFile(FileError::Damaged { damage, .. })
            | Failure::TemplateFile(FileError::Damaged { damage, .. }) => damage.to_string(),
            Failure::ModelFile(error) | Failure::TemplateFile(error) => error.to_string(),
            Failure::NoTemplate { why, .. } => why.to_string(),
            Failure::NoFormatFor(unidentified) => unidentified.to_string(),
            Failure::Open(why, ..) => why.clone(),
            Failure::NotAFormat { .. } => "expected a format file, found a chat template".into(),
            Failure::NoGrammar(error) => error.to_string(),
            Failure::Output { problem, .. } => problem.to_string(),
            Failure::NoSuchView(view) => {
                format!("`{view}` compares which tokens carry loss, which a chat template does not define")
            }
            Failure::SeveralFiles(count) => format!("expected one file, found {count}"),
            Failure::Serve { message, .. } => message.clone(),
            Failure::NotBuilt { path } => format!("this build of rolecall writes only JSON lines, not `{path}`"),
            Failure::UnknownKind { path } => format!("the name `{path}` does not determine the output format"),
            Failure::Internal(error) => error.to_string(),
            Failure::LostLines { .. } => "a line got no result: this is a bug in rolecall".into(),
        }
    }

    fn help(&self) -> Vec<String> {
        match self {
            Failure::Unreadable { .. } | Failure::Unwritable(_) | Failure::FormatFile { .. } => Vec::new(),
            Failure::NotText { kind, .. } => vec![kind.help.into()],
            Failure::BrokenInput { .. } => vec!["everything before this point was processed".into()],
            Failure::ErrorsFile { .. } => vec!["choose another file with `--errors`".into()],
            Failure::ErrorsExist { .. } => vec!["choose another file, or replace this one with `--force`".into()],
            Failure::SessionFile { .. } => vec!["choose another file with `--save`".into()],
            #[cfg(feature = "gateway")]
            Failure::OutputFile { .. } => vec!["name a place in a folder that exists and that you may write to".into()],
            Failure::Refused { refusal, source } if is_lines(refusal, source) => vec![WITH_LINES.into()],
            Failure::Refused { refusal, .. } => refusal.help(),
            Failure::Misfit { error, .. } => flags::in_flags(error.help().into_iter().collect(), error.code()),
            Failure::NameClash { .. } => {
                vec!["choose another name, or pass `--replace` to replace the existing format".into()]
            }
            Failure::NotAnId { .. } => vec!["separate ids with spaces, commas or line breaks".into()],
            Failure::NotAChunk { .. } => vec!["write one JSON string per line, such as \"Hel\"".into()],
            Failure::UnknownFormat { name, near: None } if names_of_framework(name).is_some() => {
                names_of_framework(name).into_iter().collect()
            }
            Failure::UnknownFormat { name, near } => {
                Error::UnknownFormat { name: name.clone(), near: near.clone() }.help().into_iter().collect()
            }
            Failure::Tokenizer { error, .. } => vec![error.help().to_owned()],
            Failure::ModelFile(error) => vec![format!("{}, or pass only the model's name to `--model`", error.help())],
            Failure::TemplateFile(error) => vec![error.help()],
            Failure::NoTemplate { why, .. } => vec![why.help()],
            Failure::NoFormatFor(unidentified) => flags::in_flags(unidentified.help(), unidentified.code()),
            Failure::Open(_, code, help) => flags::in_flags(help.clone(), code),
            Failure::NotAFormat { path } => vec![
                format!("`rolecall template {path}` shows what it reads and supports, with audit findings"),
                format!(
                    "`rolecall template --layout {path}` prints its reply layouts as a format file, which can be checked"
                ),
            ],
            Failure::NoGrammar(error) => vec![error.help()],
            Failure::Output { problem, .. } => vec![problem.help().into()],
            Failure::NoSuchView(_) => vec!["omit `--view`, or use `--view chat`".into()],
            Failure::SeveralFiles(_) => vec!["`--jsonl` reads several files, one conversation per line".into()],
            Failure::NotBuilt { .. } => {
                vec![
                    "install rolecall with `cargo install rolecall-cli --features parquet`, or write a .jsonl file"
                        .into(),
                ]
            }
            Failure::Serve { help, .. } => help.clone(),
            Failure::UnknownKind { .. } => {
                vec!["name it .jsonl, .arrow or .parquet, or pass `--to jsonl`, `--to arrow` or `--to parquet`".into()]
            }
            Failure::Internal(error) => error.help().into_iter().collect(),
            Failure::LostLines { .. } => vec!["please report it, together with the next line of the input".into()],
        }
    }
}

const WITH_LINES: &str = "the input has one value after another: with `--jsonl`, `render`, `encode`, `parse` and `stability` read each of them";

/// Reports whether a text is refused because it has one JSON value after another.
fn is_lines(refusal: &Refusal, source: &Source) -> bool {
    let Refusal::Library(Error::Request(rolecall_openai::Error::NotJson(error))) = refusal else { return false };
    let Some((first, next)) = source.text.split_at_checked(error.offset) else { return false };
    next.starts_with(['{', '[']) && json::parse(first).is_ok_and(|first| !matches!(first, Json::Null))
}

/// Returns the message of a refusal. The place already has the line and column.
fn message_of(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Library(Error::Request(rolecall_openai::Error::NotJson(error))) => match error.is_key_twice {
            true => error.message.clone(),
            false => format!("not JSON: {}", error.message),
        },
        refusal => refusal.to_string(),
    }
}

/// The maximum number of a framework's names that are listed.
const LISTED: usize = 8;

/// Lists the formats of the framework that a name belongs to.
fn names_of_framework(name: &str) -> Option<String> {
    let (framework, _) = name.split_once(':')?;
    let registry = rolecall::format::registry();
    let is_own = |name: &&str| name.split_once(':').is_some_and(|(own, _)| own == framework);
    let names: Vec<&str> = registry.iter().map(|format| format.name.as_str()).filter(is_own).collect();
    let listed: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => None,
        count if count > LISTED => {
            Some(format!("known formats: {} and {} more; see `rolecall formats`", listed.join(", "), count - LISTED))
        }
        _ => Some(format!("known formats: {}", listed.join(", "))),
    }
}

/// Returns the mistakes of a format file: the first ones with their locations, then the number of
/// the rest.
pub fn diagnostics_of_format<'a>(source: &'a Source, error: &'a LoadError) -> Vec<Diagnostic<'a>> {
    let each = error.diagnostics.iter().take(DRAWN).map(|mistake| Diagnostic {
        severity: Severity::Error,
        code: mistake.code,
        message: mistake.message.clone(),
        place: DiagnosticPlace::Span(source, mistake.span.clone()),
        help: mistake.help.iter().cloned().collect(),
    });
    let rest = error.diagnostics.len().saturating_sub(DRAWN);
    let counted = (rest > 0).then(|| Diagnostic {
        severity: Severity::Error,
        code: "bad_format",
        message: format!("{rest} more mistakes are not shown"),
        place: DiagnosticPlace::Nowhere,
        help: vec!["`--json` lists all of them as `mistakes`".into()],
    });
    each.chain(counted).collect()
}

/// `[{"code", "message", "line", "column", "help"?}, ..]`
pub fn json_of_mistakes(source: &Source, error: &LoadError) -> Json {
    let mut known = Spot::default();
    let each = error.diagnostics.iter().map(|mistake| {
        known = source.spot_from(known, mistake.span.start);
        let Spot { line, column, .. } = known;
        let mut object = object! {
            "code" => mistake.code, "message" => mistake.message.as_str(), "line" => line as i64, "column" => column as i64,
        };
        if let Some(help) = &mistake.help {
            object.insert("help", Json::from(help.as_str()));
        }
        Json::Object(object)
    });
    Json::Array(each.collect())
}

/// `1 mistake`, `2 mistakes`
pub fn count_of_mistakes(error: &LoadError) -> String {
    match error.diagnostics.len() {
        1 => "1 mistake".into(),
        count => format!("{count} mistakes"),
    }
}

/// Returns the location of a field in the input, as precisely as the text allows.
pub fn place_in_input<'a>(source: &'a Source, field: &Field) -> DiagnosticPlace<'a> {
    let original = dataset::place_in(&source.text, field);
    match locate(&source.text, original.as_ref().unwrap_or(field)) {
        Some(span) => DiagnosticPlace::Span(source, span),
        None => DiagnosticPlace::Named(source.name.clone()),
    }
}

fn place_of_refusal<'a>(refusal: &'a Refusal, source: &'a Source) -> DiagnosticPlace<'a> {
    if let Some(name) = option_of_command_line(refusal, source) {
        return DiagnosticPlace::Named(format!("command line, --option {name}"));
    }
    let field = match refusal {
        Refusal::NoFormat => return DiagnosticPlace::Nowhere,
        Refusal::NoChoice(_) => Field::field("chat_template_name"),
        Refusal::Row(error) if error.place().is_some() => error.place().unwrap_or_default(),
        // A line of a script stands at the end of its source.
        Refusal::BadStep(BadStep::NotJson(error)) => {
            let start = source.text.rfind('\n').map_or(0, |at| at + 1);
            let at = start + error.offset.min(source.text.len() - start);
            return DiagnosticPlace::Span(source, at..at + 1);
        }
        Refusal::BadStep(step) => Field::field(step.field()),
        Refusal::ForkTaken(_) => Field::field("fork"),
        Refusal::NoFork { .. } => Field::field("switch"),
        Refusal::NotUtf8(_)
        | Refusal::TooLong { .. }
        | Refusal::TooLongForTokens { .. }
        | Refusal::SeveralConversations(_)
        | Refusal::Row(_)
        | Refusal::TooManyMessages { .. } => return DiagnosticPlace::Named(source.name.clone()),
        Refusal::Template { source, error, .. } => {
            let offset = error.place().offset;
            return DiagnosticPlace::Span(source, offset..offset + 1);
        }
        Refusal::Library(Error::Request(rolecall_openai::Error::NotJson(error))) => {
            // Text that ends too early is marked at its end, not after trailing line breaks.
            let end = source.text.trim_end().len();
            return match end {
                0 => DiagnosticPlace::Named(source.name.clone()),
                _ => DiagnosticPlace::Span(source, error.offset.min(end)..error.offset.min(end) + 1),
            };
        }
        Refusal::Library(Error::UnknownFormat { .. }) => Field::field("format"),
        Refusal::Library(Error::Render(rolecall_render::Error::Rule { message, rule, .. })) => match *rule {
            "answers" | "max-calls" => Field::message(*message, "tool_calls"),
            _ => Field::message(*message, "role"),
        },
        Refusal::Library(error) => match name_of_option(error) {
            Some(name) if has_option(source, "options", name) => Field::field(format!("options.{name}")),
            Some(name) => Field::field(format!("chat_template_kwargs.{name}")),
            None => error.place().unwrap_or_default(),
        },
    };
    place_in_input(source, &field)
}

/// Returns the option that caused the refusal, if it came from the command line and not from the
/// input.
fn option_of_command_line<'a>(refusal: &'a Refusal, source: &Source) -> Option<&'a str> {
    let Refusal::Library(error) = refusal else { return None };
    let name = name_of_option(error)?;
    let in_input = has_option(source, "options", name) || has_option(source, "chat_template_kwargs", name);
    (!in_input).then_some(name)
}

fn name_of_option(error: &Error) -> Option<&str> {
    match error {
        Error::Render(
            rolecall_render::Error::UnknownOption { name, .. } | rolecall_render::Error::BadOption { name, .. },
        )
        | Error::MisspeltSwitch { name, .. } => Some(name),
        _ => None,
    }
}

fn has_option(source: &Source, key: &str, name: &str) -> bool {
    let input = json::parse(&source.text).ok();
    let options = input.as_ref().and_then(|input| input.as_object()?.get(key)?.as_object());
    options.is_some_and(|options: &Object| options.get(name).is_some())
}

/// Returns the file, line and column of a damaged model file.
fn place_in_model<'a>(error: &FileError) -> DiagnosticPlace<'a> {
    let FileError::Damaged { path, .. } = error else { return DiagnosticPlace::Nowhere };
    let path = path.display();
    DiagnosticPlace::Named(match error.line_and_column() {
        Some((line, column)) => format!("{path}:{line}:{column}"),
        None => path.to_string(),
    })
}

/// `[{"format", "evidence"}, ..]`
fn json_of_candidates(unidentified: &Unidentified) -> Json {
    let each = unidentified.candidates().iter().map(|candidate| {
        let evidence = rolecall::answer::of_evidence(&candidate.evidence);
        Json::Object(object! { "format" => candidate.format.as_str(), "evidence" => evidence })
    });
    Json::Array(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mistakes_are_drawn_and_the_rest_is_counted() {
        let text = "é = 1\n".repeat(1000);
        let source = Source { name: "a.toml".into(), text };
        let mistake = |line: usize| rolecall::format::Diagnostic {
            code: "unknown_key",
            message: String::new(),
            span: line * 7 + 2..line * 7 + 3,
            help: None,
        };
        let error = LoadError { diagnostics: [5, 3].into_iter().chain(6..1000).map(mistake).collect() };
        let drawn = diagnostics_of_format(&source, &error);
        assert_eq!(drawn.len(), DRAWN + 1);
        assert_eq!(drawn[DRAWN].message, "976 more mistakes are not shown");
        let json = json_of_mistakes(&source, &error);
        let json = json::write(&json, &json::Layout::compact());
        assert!(json.contains("\"line\":6,\"column\":2") && json.contains("\"line\":4,\"column\":2"), "{json}");
        assert!(json.contains("\"line\":1000,\"column\":2"), "{json}");
    }
}
