//! `rolecall grammar`: prints a grammar that restricts how an engine samples a reply.

use std::path::Path;
use std::sync::Arc;

use rolecall::Model;
use rolecall::conversation::{Tool, json};
use rolecall::format::Format;
use rolecall::grammar::{Answer, Note, Options, PrintedGrammar, Purpose, Token, ToolChoice, grammar};
use rolecall::parse::ParseOptions;

use crate::args::{Grammar, LanguageArg};
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::job::{load_tokenizer, refused};
use crate::output::Output;
use crate::reading::{ParseRun, tools_of};
use crate::refusal::Refusal;
use crate::source::Source;

pub fn run(args: &Grammar, output: &Output) -> Result<Exit, Failure> {
    let source = match &args.tools {
        Some(path) => files::read_text(path)?,
        None => Source { name: "command line".into(), text: "[]".into() },
    };
    let reader = ParseRun::new(&args.layouts, args.tokenizer.as_deref(), output)?;
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
    let PrintedGrammar { text, notes } = match args.language {
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
            place: DiagnosticPlace::Named(name.clone()),
            help: Vec::new(),
        });
    }
    output.write(&format!("{}\n", text.trim_end()))?;
    Ok(Exit::Good)
}

/// Returns the layouts of the reply, the tools, and the end of the prompt.
fn asked(
    args: &Grammar,
    reader: &ParseRun,
    text: &str,
    output: &Output,
) -> Result<(Format, Vec<Tool>, String), Refusal> {
    let tools = tools_of(text)?.filter(|tools| tools.as_array().is_none_or(|tools| !tools.is_empty()));
    let context = reader.context_of_tools(tools, args.tail.as_deref(), &ParseOptions::default())?;
    reader.warn(context.warnings(), output);
    let format = Arc::unwrap_or_clone(context.layouts()?);
    Ok((format, context.tools().to_vec(), context.prompt_tail().to_owned()))
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
