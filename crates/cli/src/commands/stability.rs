//! `rolecall stability`: compares the prompts of growing conversations.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rolecall::dataset;
use rolecall::model::Settings;
use rolecall::stability::{self, Case, Report, report};
use rolecall::{Error, Request};

use crate::args::Stability;
use crate::batch::{BatchPlan, Journal, Line, LineCounts, RowContents, Rows, answer_lines};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::job::{Job, check_messages, load_tokenizer, misfit, only_request, refused};
use crate::output::Output;
use crate::reading::ParseRun;
use crate::refusal::Refusal;
use crate::source::Source;
use crate::stability::{Sources, draw};

pub fn run(args: &Stability, output: &Output) -> Result<Exit, Failure> {
    let mut job = ParseRun::new(&args.layouts, args.tokenizer.as_deref(), output)?.job;
    let forms = args.forms.unwrap_or_default();
    job.model = job.model.with_settings(Settings { forms, ..job.model.settings().clone() });
    if job.model.tokenizer_path().is_some() {
        load_tokenizer(&job.model)?;
    }
    if args.batch.jsonl {
        return run_lines(job, args, output);
    }
    let (report, carries) = match args.inputs.as_slice() {
        [] => {
            let report = report(&job.model, &Case::all());
            (report.map_err(|error| failed(error, &job, &Source::default()))?, false)
        }
        [input] => report_on(&job, input)?,
        several => return Err(Failure::SeveralFiles(several.len())),
    };
    match args.batch.json {
        true => output.write_json(&report.to_json())?,
        false => {
            let templates = job.model.templates().filter(|_| !carries);
            let sources = Sources { templates, name: job.model.settings().template_name.as_deref() };
            output.write(&draw(&report, sources, args.all, output.paint))?;
        }
    }
    let is_good = report.is_stable() && report.says_anything();
    Ok(if is_good { Exit::Good } else { Exit::Refused })
}

/// Compares the prompts of the conversations of a file. Also returns whether one of them carries its
/// own template, or names one.
fn report_on(job: &Job, input: &Path) -> Result<(Report, bool), Failure> {
    let source = files::read_text(input)?;
    let (_, samples) = dataset::read(&source.text, None).map_err(|error| refused(error.into(), &source))?;
    let (mut cases, mut carries) = (Vec::new(), false);
    for sample in samples {
        let conversation = &sample.request.conversation;
        check_messages(conversation, source.text.len()).map_err(|refusal| refused(refusal, &source))?;
        let own = ["chat_template", "chat_template_name"];
        carries |= own.iter().any(|key| sample.request.other.get(key).is_some());
        let found = job.model.stability(&sample.request).map_err(|error| failed(error, job, &source))?;
        let name = sample.side.map_or_else(|| source.name.clone(), |side| format!("{} ({})", source.name, side.name()));
        cases.push((Case::of(name, sample.request.conversation), found));
    }
    Ok((Report { cases }, carries))
}

fn run_lines(job: Job, args: &Stability, output: &Output) -> Result<Exit, Failure> {
    let changes = Arc::new(AtomicBool::new(false));
    let plan = BatchPlan {
        inputs: &args.inputs,
        options: &args.batch,
        target: None,
        wanted: RowContents::default(),
        journal: Journal::default(),
        shapes: Some(job.seen()),
    };
    let has_changed = Arc::clone(&changes);
    let exit = answer_lines(plan, output, move |line, rows| {
        if !answer(&job, line, rows)? {
            has_changed.store(true, Ordering::Relaxed);
        }
        Ok(LineCounts::default())
    })?;
    Ok(if changes.load(Ordering::Relaxed) { Exit::Refused } else { exit })
}

/// Adds the comparison of a line's conversation, and reports whether it is stable, as far as it could
/// be compared.
fn answer(job: &Job, line: Line<'_>, rows: &mut Rows) -> Result<bool, Refusal> {
    let (_, samples) = dataset::read(line.text, None)?;
    let request: Request = only_request(samples)?;
    check_messages(&request.conversation, line.text.len())?;
    let found = job.model.stability(&request)?;
    rows.push_json(&stability::to_json(request.id.as_ref(), &found));
    Ok(found.is_stable() && found.says_anything())
}

fn failed(error: Error, job: &Job, source: &Source) -> Failure {
    match error {
        Error::Tokenizer { .. } | Error::File(_) | Error::Encode(_) => misfit(error, &job.model),
        error => refused(error.into(), source),
    }
}
