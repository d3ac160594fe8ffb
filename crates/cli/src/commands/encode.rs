use std::path::Path;
use std::time::Duration;

use rolecall::Error;
use rolecall::model::ModelPrompt;
use rolecall::training::RowEncoding;

use super::{read_input, warn_of_dropped, warn_of_ends, warn_of_loss, warn_of_reference, warn_of_truncation};
use crate::args::Encode;
use crate::batch::{ARE_BUILT, BatchPlan, Begin, Journal, RowContents, Target, answer_lines, beside, digest_of};
use crate::exit::Exit;
use crate::explain::Tokens;
use crate::failure::Failure;
use crate::files;
use crate::job::{Job, encode_each, load_tokenizer, misfit, refused, render_one};
use crate::output::Output;
use crate::refusal::Refusal;
use crate::row_kind::RowKind;
use crate::source::Source;

pub fn run(args: &Encode, output: &Output) -> Result<Exit, Failure> {
    let mut job = Job::open(&args.chat, &args.own, args.tokenizer.as_deref(), args.text.protect, output)?;
    load_tokenizer(&job.model)?;
    let encoding = RowEncoding { reference: args.text.reference_encoding, limit: args.samples.limit() };
    job.rows.stops = true;
    job.rows.samples = args.samples.samples();
    job.rows.encoding = Some(encoding);
    if args.text.reference_encoding {
        warn_of_reference(output);
    }
    if args.batch.jsonl {
        return run_batch(args, job, output);
    }
    let source = read_input(&args.chat)?;
    let prompt = render_one(&job, &source)?;
    job.seen().tell(output);
    if encoding.limit.is_some() {
        return print_truncated(args, &job, prompt, &source, output);
    }
    let loss = job.loss_of(&prompt).map_err(|refusal| refused(refusal, &source))?;
    if args.batch.json {
        let mut tokens = Tokens::of(prompt.prompt()).map_err(|error| refused(error.into(), &source))?;
        let notes = encode_each(encoding, &job.model, &prompt, &mut |token| tokens.push(token))?;
        job.stream(&prompt, Some((&tokens, &notes)), (loss.as_ref(), None), output)?;
        return Ok(Exit::Good);
    }
    let mut ids: Vec<u32> = Vec::new();
    let notes = encode_each(encoding, &job.model, &prompt, &mut |token| ids.push(token.id))?;
    warn_of_dropped(&prompt, &source, output);
    warn_of_ends(&notes, output);
    warn_of_loss(loss.as_ref(), &source, output);
    print_ids(&ids, output)
}

/// Prints the ids of a conversation that is truncated if it has too many. They are all in memory.
fn print_truncated(
    args: &Encode,
    job: &Job,
    prompt: ModelPrompt,
    source: &Source,
    output: &Output,
) -> Result<Exit, Failure> {
    let ready = job.rows.prepare_prompt(&job.model, prompt).map_err(|error| match error.into() {
        Refusal::Library(error @ Error::Encode(_)) => misfit(error, &job.model),
        refusal => refused(refusal, source),
    })?;
    let encoded = ready.encoded.unwrap_or_default();
    if args.batch.json {
        let mut tokens = Tokens::of(ready.prompt.prompt()).map_err(|error| refused(error.into(), source))?;
        encoded.tokens.iter().for_each(|token| tokens.push(*token));
        let training = (ready.loss.as_ref(), ready.truncated.as_ref());
        job.stream(&ready.prompt, Some((&tokens, &encoded.notes)), training, output)?;
        return Ok(Exit::Good);
    }
    warn_of_dropped(&ready.prompt, source, output);
    warn_of_ends(&encoded.notes, output);
    warn_of_loss(ready.loss.as_ref(), source, output);
    warn_of_truncation(ready.truncated.as_ref(), source, output);
    print_ids(&encoded.ids(), output)
}

fn print_ids(ids: &[u32], output: &Output) -> Result<Exit, Failure> {
    output.stream(|out| {
        for (at, id) in ids.iter().enumerate() {
            write!(out, "{}{id}", if at == 0 { "" } else { " " })?;
        }
        writeln!(out)
    })?;
    Ok(Exit::Good)
}

fn run_batch(args: &Encode, mut job: Job, output: &Output) -> Result<Exit, Failure> {
    let target = args.file.output.as_deref().map(|path| target_of(args, path)).transpose()?;
    // A resumed run passes the same time to its templates.
    let resumed = target.as_ref().filter(|target| target.begin == Begin::Resume);
    let resumed = resumed.and_then(|target| Journal::load(&beside(&target.path, ".resume")).ok().flatten());
    job.set_clock(resumed.map_or(job.clock, |journal| journal.clock));
    let made_of = target.as_ref().map_or_else(Vec::new, |target| made_of(args, target, &job));
    let plan = BatchPlan {
        inputs: &args.chat.inputs,
        options: &args.batch,
        target,
        wanted: wanted(args),
        journal: Journal { made_of, clock: job.clock, ..Journal::default() },
        shapes: Some(job.seen()),
    };
    answer_lines(plan, output, move |line, rows| job.answer(line, rows))
}

/// Returns the optional parts of the rows.
fn wanted(args: &Encode) -> RowContents {
    RowContents {
        mask: args.chat.training.for_training.is_some(),
        weights: args.samples.loss_weights || args.chat.training.has_weights(),
        truncated: args.samples.max_tokens.is_some(),
        pack: args.samples.pack,
        text: args.file.with_text,
    }
}

fn target_of(args: &Encode, path: &Path) -> Result<Target, Failure> {
    let kind = args.file.to.or_else(|| RowKind::of_path(path));
    let kind = kind.ok_or_else(|| Failure::UnknownKind { path: path.display().to_string() })?;
    if kind != RowKind::Jsonl && !ARE_BUILT {
        return Err(Failure::NotBuilt { path: path.display().to_string() });
    }
    Ok(Target {
        path: path.to_path_buf(),
        kind,
        wanted: wanted(args),
        begin: match (args.file.resume, args.batch.force) {
            (true, _) => Begin::Resume,
            (_, true) => Begin::Replace,
            _ => Begin::Fresh,
        },
        often: Duration::from_millis(args.file.journal_ms),
    })
}

/// Returns the dependencies of the rows. A run can only be resumed if they have not changed.
fn made_of(args: &Encode, target: &Target, job: &Job) -> Vec<(String, String)> {
    let kind = match target.kind {
        RowKind::Jsonl => "jsonl",
        RowKind::Arrow => "arrow",
        RowKind::Parquet => "parquet",
    };
    let chat = crate::args::Chat { inputs: Vec::new(), ..args.chat.clone() };
    let arguments = format!(
        "{:?}",
        (chat, &args.own, args.text.reference_encoding, args.text.protect, &args.samples, args.file.with_text)
    );
    let mut formats: Vec<_> = args.chat.named.format.iter().map(|format| Path::new(format).to_path_buf()).collect();
    formats.extend(args.chat.named.more.formats.iter().filter_map(|folder| files::format_files(folder).ok()).flatten());
    vec![
        ("version of rolecall".into(), env!("CARGO_PKG_VERSION").into()),
        ("kind of output".into(), kind.into()),
        ("set of arguments".into(), arguments),
        ("tokenizer".into(), digest_of(&job.model.tokenizer_path().map(files::tokenizer_files).unwrap_or_default())),
        ("format file".into(), digest_of(&formats)),
        ("chat template".into(), job.made_of()),
    ]
}
