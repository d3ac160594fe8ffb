//! `rolecall grammar`: prints a grammar that restricts how an engine samples a reply.

use std::path::Path;
use std::sync::Arc;

use rolecall::Model;
use rolecall::conversation::{Json, Tool, json};
use rolecall::format::Format;
use rolecall::grammar::{Answer, Note, Options, Printed, Purpose, Token, ToolChoice, grammar};

use crate::args::{Grammar, LanguageArg};
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::job::{load_tokenizer, refused};
use crate::output::Output;
use crate::reading::{Reader, request_of_one_word, speaking};
use crate::refusal::Refusal;
use crate::source::Source;

pub fn run(args: &Grammar, output: &Output) -> Result<Exit, Failure> {
    let source = match &args.tools {
        Some(path) => files::read_text(path)?,
        None => Source { name: "command line".into(), text: "[]".into() },
    };
    let reader = Reader::new(&args.layouts, args.tokenizer.as_deref(), false, output)?;
    let (format, tools, tail) =
        asked(args, &reader, &source.text, output).map_err(|refusal| refused(refusal, &source))?;
    let (answer, of_answer) = match &args.answer_schema {
        Some(path) => read_schema(path)?,
        None => (Answer::Free, source.name.clone()),
    };
    let options = Options {
        tools,
        answer,
        choice: choice(&args.choice),
        one_call: args.one_call,
        reasoning: args.reasoning,
        tokens: tokens(&reader.job.model)?,
        prompt_tail: Some(tail),
    };
    let grammar = grammar(&format, &options).map_err(Failure::NoGrammar)?;
    let Printed { text, notes } = match args.language {
        LanguageArg::StructuralTag => grammar.to_structural_tag(),
        LanguageArg::Lark => grammar.to_lark(),
        LanguageArg::Gbnf => grammar.to_gbnf(),
    };
    for note in &notes {
        let is_of_answer = matches!(note, Note::Keyword { purpose: Purpose::Answer, .. });
        let name = if is_of_answer { &of_answer } else { &source.name };
        output.show(&Diagnostic {
            severity: Severity::Warning,
            code: note.code(),
            message: note.to_string(),
            place: Place::Named(name.clone()),
            help: Vec::new(),
        });
    }
    output.write(&format!("{}\n", text.trim_end()))?;
    Ok(Exit::Good)
}

/// Returns the layouts of the reply, the tools, and the end of the prompt.
fn asked(args: &Grammar, reader: &Reader, text: &str, output: &Output) -> Result<(Format, Vec<Tool>, String), Refusal> {
    let tools = match json::parse(text).map_err(rolecall_openai::Error::from)? {
        Json::Object(mut object) if object.get("tools").is_some() => object.remove("tools"),
        other => Some(other),
    };
    let tools = tools.filter(|tools| tools.as_array().is_none_or(|tools| !tools.is_empty()));
    let request = request_of_one_word(tools)?;
    let tools = request.conversation.tools.clone().unwrap_or_default();
    let of = |request: rolecall::Request| -> Result<(Format, String), Refusal> {
        let request = Arc::new(speaking(request));
        let model = &reader.job.model;
        let tail = match &args.tail {
            Some(tail) => tail.clone(),
            None => model.prompt_tail(Arc::clone(&request))?,
        };
        let format = model.layouts(&request)?;
        reader.warn_about(&request, output)?;
        Ok((Arc::unwrap_or_clone(format), tail))
    };
    let (format, tail) = match of(request) {
        // Calls can be written even if the format has no place to offer tools.
        Err(Refusal::Library(rolecall::Error::Render(rolecall::render::Error::NoPlace { .. }))) => {
            of(request_of_one_word(None)?)?
        }
        found => found?,
    };
    Ok((format, tools, tail))
}

/// Returns an answer by its schema, and the name of the file that has the schema.
fn read_schema(path: &Path) -> Result<(Answer, String), Failure> {
    let source = files::read_text(path)?;
    match json::parse(&source.text).map_err(rolecall_openai::Error::from) {
        Ok(schema) => Ok((Answer::Schema(schema), source.name)),
        Err(error) => Err(refused(error.into(), &source)),
    }
}

fn tokens(model: &Model) -> Result<Vec<Token>, Failure> {
    if model.tokenizer_path().is_none() {
        return Ok(Vec::new());
    }
    let each = load_tokenizer(model)?.iter();
    Ok(each.map(|token| Token { text: token.text.clone(), id: Some(token.id) }).collect())
}

fn choice(word: &str) -> ToolChoice {
    match word {
        "none" => ToolChoice::None,
        "auto" => ToolChoice::Auto,
        "required" => ToolChoice::Required,
        name => ToolChoice::Named(name.to_owned()),
    }
}
