//! `rolecall parse`: parses one output as it arrives, or one output per line.

mod input;
mod line;

use std::hash::{BuildHasher, RandomState};

use rolecall::answer::{Chunks, Completion};
use rolecall::conversation::json::{Layout, write_into};
use rolecall::model::ReplyContext;
use rolecall::parse::{Ids, ParseOptions};
use rolecall::{Event, Reading, answer, dataset};

use crate::args::{ApiArg, FinishArg, Parse};
use crate::batch::{BatchPlan, Journal, LineCounts, RowContents, Rows, answer_lines};
use crate::diagnostic::{DRAWN, Diagnostic, DiagnosticPlace, Severity};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::job::{load_tokenizer, only_request, refused};
use crate::output::Output;
use crate::reading::{ParseRun, request_of_one_word, tools_of};
use crate::refusal::Refusal;
use crate::source::Source;
use input::Parser;

pub fn run(args: &Parse, output: &Output) -> Result<Exit, Failure> {
    let reader = ParseRun::new(&args.layouts, args.tokenizer.as_deref(), output)?;
    if args.ids {
        load_tokenizer(&reader.job.model)?;
    }
    let policies = args.policies.options();
    if args.batch.jsonl {
        return run_batch(args, reader, policies, output);
    }
    // Replies are parsed one by one into one conversation, in which no two calls may have the same id.
    let seed = args.policies.id_seed.unwrap_or_else(random);
    let policies = ParseOptions { ids: Ids::Seeded(seed), ..policies };
    let context = context(args, &reader, &policies)?;
    reader.warn(context.warnings(), output);
    let parser = match args.ids {
        true => Parser::Ids(context.id_parser().map_err(|error| refused(error.into(), &Source::default()))?),
        false => Parser::Text(context.text_parser()),
    };
    let mut reading = Reading::default();
    let mut written = Ok(());
    let model = reader.job.model.name().to_owned();
    let completion = Completion { id: format!("chatcmpl-{seed}"), model, created: 0 };
    let mut chunks = Chunks::new(completion.clone()).holding_calls(context.has_late_ids());
    // The API's response has no place for malformed output.
    let mut malformed = Vec::new();
    let mut sink = |event: Event<'_>| {
        if let (Event::Malformed(one), Some(_)) = (&event, args.shape) {
            malformed.push(one.clone());
        }
        match (args.events, args.shape) {
            (true, None) if written.is_ok() => written = output.write_json(&answer::of_event(&event)),
            (true, Some(ApiArg::Openai)) if written.is_ok() => {
                written = chunks.of_event(&event).iter().try_for_each(|chunk| output.write_json(chunk));
            }
            (true, _) => {}
            (false, _) => reading.add(&event),
        }
    };
    let stop = args.finish.unwrap_or(FinishArg::Stop).stop();
    input::feed(args, &reader.job.model, parser, stop, &mut sink)?;
    written?;
    for one in malformed.iter().take(DRAWN) {
        output.show(&Diagnostic {
            severity: Severity::Warning,
            code: one.why.code(),
            message: format!(
                "bytes {}..{} of the output do not match the layout: {}",
                one.span.start, one.span.end, one.why
            ),
            place: DiagnosticPlace::Named(
                args.input.as_deref().map_or("<stdin>".into(), |path| path.display().to_string()),
            ),
            help: Vec::new(),
        });
    }
    match (args.events, args.shape) {
        (true, _) => {}
        (false, None) => {
            let mut answer = answer::of_reading(None, &reading);
            answer::add_warnings(&mut answer, context.warnings());
            output.write_json(&answer)?;
        }
        (false, Some(ApiArg::Openai)) => output.write_json(&completion.of_reading(&reading))?,
    }
    Ok(Exit::Good)
}

/// Returns a number that no other run has: maps of Rust's library have a random key.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn run_batch(args: &Parse, reader: ParseRun, policies: ParseOptions, output: &Output) -> Result<Exit, Failure> {
    let plan = BatchPlan {
        inputs: args.input.as_slice(),
        options: &args.batch,
        target: None,
        wanted: RowContents::default(),
        journal: Journal::default(),
        shapes: None,
    };
    // Each line has its own warnings. Those of the model itself are shown once.
    if let Ok(request) = request_of_one_word(None) {
        // If the layouts cannot be inferred, each line says so.
        let _ = reader.warn_about(&request, output);
    }
    answer_lines(plan, output, move |line, rows| {
        let answer = line::answer(&reader, &policies, line)?;
        // Columns are only written by `encode`.
        if let Rows::Lines(text) = rows {
            write_into(text, &answer, &Layout::compact());
        }
        Ok(LineCounts::default())
    })
}

/// Returns what is known about the only output of a run.
fn context(args: &Parse, reader: &ParseRun, policies: &ParseOptions) -> Result<ReplyContext, Failure> {
    let tail = args.tail.as_deref();
    if let Some(path) = &args.conversation {
        let source = files::read_text(path)?;
        let samples = dataset::read(&source.text, None).map_err(Refusal::from);
        let request = samples.and_then(|(_, samples)| only_request(samples));
        let context = request.and_then(|request| reader.context(request, tail, policies));
        return context.map_err(|refusal| refused(refusal, &source));
    }
    let Some(path) = &args.tools else {
        let nothing = Source { name: "command line".into(), text: String::new() };
        return reader.context_of_tools(None, tail, policies).map_err(|refusal| refused(refusal, &nothing));
    };
    let source = files::read_text(path)?;
    let context = tools_of(&source.text).and_then(|tools| reader.context_of_tools(tools, tail, policies));
    context.map_err(|refusal| refused(refusal, &source))
}
