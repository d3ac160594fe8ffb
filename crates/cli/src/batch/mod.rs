//! Batches: reads one JSON object per line and writes a result for each, in order, as JSON lines or
//! as columns. A line with an error gets the error as its result.
//!
//! `lines` cuts the input into blocks, the library's `pipeline` processes them on several threads, and `rows`
//! converts the results to bytes. These are written here or by `file`, which can resume an
//! interrupted run (`journal`). `progress` shows the progress. Start reading at [`answer_lines`].

#[cfg_attr(not(feature = "parquet"), path = "columns_not_built.rs")]
mod columns;
mod file;
mod input;
mod journal;
mod lines;
mod packed_row;
mod packing;
mod progress;
mod records;
mod row;
mod rows;
mod tally;
mod unwritten;

use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::dataset;
use rolecall::guard::guard;
use rolecall::pipeline::{self, PipelineStep};

pub use columns::ARE_BUILT;
pub use file::{Begin, Target};
pub use journal::{Journal, beside};
pub use packed_row::PackedItem;
pub use row::BatchRow;
pub use rows::Rows;

use crate::args;
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::io_message::io_message;
use crate::output::Output;
use crate::output_problem::OutputProblem;
use crate::refusal::Refusal;
use crate::row_kind::RowKind;
use crate::shapes::SeenShapes;
use file::{OpenOutput, OutputFile};
use input::{Input, InputFiles};
use lines::{LineBlock, LineMark, Lines, Size};
use packing::Packing;
use progress::Progress;
pub use tally::LineCounts;
use tally::Tally;
use unwritten::Unwritten;

/// The block size for JSON lines: small, so that results appear soon.
const LINES: Size = Size { lines: 128, bytes: 128 << 10, prompt: false };
/// The block size for columns. A block becomes a record batch or a row group.
const COLUMNS: Size = Size { lines: 1000, bytes: 1 << 20, prompt: false };

/// The optional columns that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowContents {
    pub mask: bool,
    /// The loss weights as numbers.
    pub weights: bool,
    /// The number of ids before truncation.
    pub truncated: bool,
    /// The number of ids of a sequence, if samples are packed.
    pub pack: Option<u32>,
    pub text: bool,
}

/// The input and output of a batch.
pub struct BatchPlan<'a> {
    /// The input files; empty for standard input.
    pub inputs: &'a [PathBuf],
    pub options: &'a args::Batch,
    /// The output file; `None` for standard output.
    pub target: Option<Target>,
    /// The optional parts of the results on standard output.
    pub wanted: RowContents,
    /// The dependencies of the results.
    pub journal: Journal,
    /// The shapes that the data was read in.
    pub shapes: Option<Arc<SeenShapes>>,
}

/// A line of the input without its line break.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    pub number: u64,
    pub text: &'a str,
}

/// The results of a block.
struct BlockResults {
    rows: AnsweredRows,
    mark: LineMark,
    tally: Tally,
    /// The refused lines with their errors, as JSON lines.
    refused: Vec<u8>,
}

/// The rows of a block, or the samples to be packed.
pub enum AnsweredRows {
    Bytes(Vec<u8>),
    Items(Vec<PackedItem>),
}

impl AnsweredRows {
    /// Returns the bytes to be written.
    fn bytes(self, packing: Option<&mut Packing>) -> io::Result<Vec<u8>> {
        match (self, packing) {
            (AnsweredRows::Bytes(bytes), _) => Ok(bytes),
            (AnsweredRows::Items(items), Some(packing)) => Ok(packing.take(items)?),
            // Samples are only collected if they are packed.
            (AnsweredRows::Items(_), None) => Ok(Vec::new()),
        }
    }
}

/// The reasons why a block has no rows.
enum BlockError {
    Unreadable(io::Error),
    Unwritten(Unwritten),
}

/// Processes every non-blank line on all threads and writes the results in order. `answer` adds a
/// line's rows and returns what is to be counted.
pub fn answer_lines(
    plan: BatchPlan<'_>,
    output: &Output,
    answer: impl Fn(Line<'_>, &mut Rows) -> Result<LineCounts, Refusal> + Send + Sync + 'static,
) -> Result<Exit, Failure> {
    let inputs = match plan.inputs {
        [] => vec![PathBuf::from("-")],
        named => files::expand(named)?,
    };
    let name = name_of(&inputs);
    // The error from `Input` already names the file.
    let unreadable = |error: io::Error| Failure::BrokenInput { why: error.to_string() };
    let (input, begun) = Input::open(&inputs)?;
    if let Some(errors) = plan.options.errors.as_deref() {
        let target = plan.target.as_ref().map(|target| target.path.as_path());
        Errors::check(errors, plan.options.force, inputs.iter().map(PathBuf::as_path).chain(target))?;
    }
    let jsonl = (RowKind::Jsonl, plan.wanted);
    let (kind, wanted) = plan.target.as_ref().map_or(jsonl, |target| (target.kind, target.wanted));
    let mut packing = wanted.pack.map(|length| Packing::new(length, kind, wanted));
    let size = Size { prompt: plan.target.is_none(), ..if kind == RowKind::Jsonl { LINES } else { COLUMNS } };
    let mut lines = Lines::new(Box::new(input), size);
    let mut sink = match Sink::open(plan.target.as_ref(), plan.journal)? {
        Ok(sink) => sink,
        Err(complete) => return Ok(close_complete(complete, plan.target.as_ref(), (&name, &begun), output)),
    };
    let mut errors = plan.options.errors.as_deref().map(Errors::create).transpose()?;
    let (from, mut tally) = sink.begun();
    if from != LineMark::default() && !lines.skip_to(from).map_err(unreadable)? {
        return Err(sink.failed(OutputProblem::OtherInput));
    }
    let mut progress = progress_of(plan.options, &inputs, plan.target.is_some(), (from.bytes, tally.clone()));
    let files = errors.is_some().then(|| begun.clone());
    let work = move |block: Result<LineBlock, BlockError>| answer_block(&block?, kind, wanted, files.as_ref(), &answer);
    let mut answers = pipeline::start(threads(plan.options), blocks_of(lines), work).map_err(Failure::Unwritable)?;
    let patience = progress.as_ref().map_or(Duration::from_secs(3600), Progress::patience);
    let mut at = from;
    let ended = loop {
        match answers.next(patience) {
            Ok(PipelineStep::Done(Ok(answered))) => {
                tally.add(&answered.tally);
                at = answered.mark;
                if let Some(shapes) = &plan.shapes {
                    shapes.tell(output);
                }
                if let Some(errors) = &mut errors {
                    errors.write(&answered.refused)?;
                }
                let written = answered.rows.bytes(packing.as_mut()).and_then(|bytes| sink.write(&bytes, at, &tally));
                if let Err(error) = written {
                    break Err(sink.unwritable(error));
                }
            }
            Ok(PipelineStep::Done(Err(BlockError::Unreadable(error)))) => break Err(unreadable(error)),
            Ok(PipelineStep::Done(Err(BlockError::Unwritten(Unwritten(why))))) => {
                break Err(sink.unwritable(io::Error::other(why)));
            }
            Ok(PipelineStep::Late) => {}
            Ok(PipelineStep::End) => break Ok(()),
            Err(pipeline::LostWorker) => break Err(Failure::LostLines { input: name.clone(), behind: at.lines }),
        }
        if let Some(progress) = &mut progress {
            progress.show(at.bytes, &tally);
        }
    };
    let packed = ended.and_then(|()| finish_packing(packing.as_mut(), &mut sink, at, &tally));
    if let Err(failure) = packed {
        progress.iter().for_each(Progress::clear);
        sink.keep();
        return Err(failure);
    }
    sink.finish()?;
    if let Some(progress) = &mut progress {
        progress.end(&tally);
    }
    if let Some(packing) = &packing {
        output.show(&packing.report());
    }
    Ok(close(&tally, &name, &begun, output))
}

/// Returns the name of a run's input for people.
fn name_of(inputs: &[PathBuf]) -> String {
    match inputs {
        [one] if files::is_stdin(one) => "<stdin>".to_owned(),
        [one] => one.display().to_string(),
        several => format!("{} files", several.len()),
    }
}

/// Returns the blocks of the input up to the first error.
fn blocks_of(lines: Lines) -> impl FnMut() -> Option<Result<LineBlock, BlockError>> {
    let mut source = Some(lines);
    move || match source.as_mut()?.next_block() {
        Ok(block) => block.map(Ok),
        Err(error) => {
            source = None;
            Some(Err(BlockError::Unreadable(error)))
        }
    }
}

/// Writes the sequences that are left.
fn finish_packing(packing: Option<&mut Packing>, sink: &mut Sink, at: LineMark, tally: &Tally) -> Result<(), Failure> {
    let Some(packing) = packing else { return Ok(()) };
    let bytes = packing.finish().map_err(io::Error::from);
    let written = bytes.and_then(|bytes| sink.write(&bytes, at, tally));
    written.map_err(|error| sink.unwritable(error))
}

/// Reports that a run is complete: what it reported itself if its counts are known, and otherwise that
/// nothing is left to do.
fn close_complete(
    tally: Option<Tally>,
    target: Option<&Target>,
    (name, begun): (&str, &InputFiles),
    output: &Output,
) -> Exit {
    if let Some(tally) = tally {
        return close(&tally, name, begun, output);
    }
    output.show(&Diagnostic {
        severity: Severity::Note,
        code: "complete",
        message: "the output is complete: there is nothing to resume".into(),
        place: target
            .map_or(DiagnosticPlace::Nowhere, |target| DiagnosticPlace::Named(target.path.display().to_string())),
        help: vec!["it was not compared with this input and these arguments; `--force` writes it anew".into()],
    });
    Exit::Good
}

/// Adds a refused line: `{"file"?, "line", "id"?, "error", "text"}`. Bytes that are not UTF-8 become
/// replacement characters.
fn write_refused(
    out: &mut Vec<u8>,
    (file, number): (Option<String>, u64),
    line: &[u8],
    id: Option<&Json>,
    refusal: &Refusal,
) {
    let mut row = Object::new();
    if let Some(file) = file {
        row.insert("file", Json::from(file));
    }
    row.insert("line", Json::from(number as i64));
    if let Json::Object(answer) = refusal.to_json(id) {
        answer.iter().for_each(|(key, value)| row.insert(key, value.clone()));
    }
    let text = String::from_utf8_lossy(line);
    row.insert("text", Json::from(text.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r'])));
    out.extend_from_slice(json::write(&Json::Object(row), &Layout::compact()).as_bytes());
    out.push(b'\n');
}

/// Reports which lines have warnings, and which were refused.
fn close(tally: &Tally, name: &str, begun: &InputFiles, output: &Output) -> Exit {
    if let Some(noted) = tally.noted_lines(name) {
        output.show_with(&noted, &tally.notes_told(begun));
    }
    if let Some(refused) = tally.diagnostic(name, begun) {
        output.show_with(&refused, &tally.reasons_told(begun));
    }
    tally.exit()
}

fn answer_block(
    block: &LineBlock,
    kind: RowKind,
    wanted: RowContents,
    files: Option<&InputFiles>,
    answer: &impl Fn(Line<'_>, &mut Rows) -> Result<LineCounts, Refusal>,
) -> Result<BlockResults, BlockError> {
    let mut rows = Rows::new(kind, wanted);
    let (mut tally, mut refused) = (Tally::default(), Vec::new());
    for (number, line) in block.lines() {
        if line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii().is_empty() {
            continue;
        }
        tally.answered += 1;
        let text =
            std::str::from_utf8(line).map(|text| text.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r']));
        let begun = rows.end();
        let answered = match text {
            // A panic in one line is its error, and the others go on.
            Ok(text) => rows.admit(text.len()).and_then(|()| guard(|| answer(Line { number, text }, &mut rows))?),
            Err(error) => Err(Refusal::NotUtf8(error.valid_up_to())),
        };
        match answered {
            Ok(told) => tally.tell(number, told),
            Err(refusal) => {
                tally.refuse(number, &refusal);
                let id = text.ok().and_then(dataset::id_of);
                if let Some(files) = files {
                    write_refused(&mut refused, files.place_of(number), line, id.as_ref(), &refusal);
                }
                rows.undo(begun);
                rows.refuse(number, id.as_ref(), &refusal);
            }
        }
        rows.end_row().map_err(BlockError::Unwritten)?;
    }
    Ok(BlockResults { rows: rows.into_answered().map_err(BlockError::Unwritten)?, mark: block.mark, tally, refused })
}

fn threads(options: &args::Batch) -> NonZeroUsize {
    options.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// Returns the progress display, if it should be shown.
fn progress_of(options: &args::Batch, inputs: &[PathBuf], to_file: bool, from: (u64, Tally)) -> Option<Progress> {
    let terminal = io::stderr().is_terminal();
    // On a terminal that also shows the results, progress lines would be mixed with them.
    let apart = to_file || !io::stdout().is_terminal();
    let wanted = options.progress || (terminal && apart && !options.quiet);
    wanted.then(|| Progress::new(terminal, files::size(inputs), from))
}

/// The file for refused lines.
struct Errors {
    path: String,
    file: io::BufWriter<fs::File>,
}

impl Errors {
    /// Fails if the run itself reads or writes this file, if the file exists and is not to be replaced,
    /// or if it has no folder.
    fn check<'a>(path: &Path, replaces: bool, mut others: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
        let canonical = |path: &Path| path.canonicalize().ok();
        let own = canonical(path);
        let named = || path.display().to_string();
        if others.any(|other| other == path || own.is_some() && canonical(other) == own) {
            return Err(Failure::ErrorsFile { path: named(), why: "the run itself reads or writes this file".into() });
        }
        // A pipe or a device is not replaced.
        if !replaces && path.is_file() {
            return Err(Failure::ErrorsExist { path: named() });
        }
        match path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            Some(folder) => {
                let why = format!("the folder `{}` does not exist", folder.display());
                Err(Failure::ErrorsFile { path: named(), why })
            }
            None => Ok(()),
        }
    }

    fn create(path: &Path) -> Result<Errors, Failure> {
        let named = path.display().to_string();
        match fs::File::create(path) {
            Ok(file) => Ok(Errors { path: named, file: io::BufWriter::new(file) }),
            Err(error) => Err(Failure::ErrorsFile { path: named, why: io_message(&error) }),
        }
    }

    /// Writes the lines and flushes them, so that a later failure does not lose them.
    fn write(&mut self, lines: &[u8]) -> Result<(), Failure> {
        if lines.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(lines).and_then(|()| self.file.flush());
        written.map_err(|error| Failure::ErrorsFile { path: self.path.clone(), why: io_message(&error) })
    }
}

/// The destination of the rows.
enum Sink {
    Stdout(io::Stdout),
    File { path: String, file: Box<OutputFile> },
}

impl Sink {
    /// Opens the destination. A run that is already complete returns only its counts, as far as they are
    /// known.
    fn open(target: Option<&Target>, journal: Journal) -> Result<Result<Sink, Option<Tally>>, Failure> {
        let Some(target) = target else { return Ok(Ok(Sink::Stdout(io::stdout()))) };
        let path = target.path.display().to_string();
        match OutputFile::open(target.clone(), journal) {
            Ok(OpenOutput::Open(file)) => Ok(Ok(Sink::File { path, file })),
            Ok(OpenOutput::Complete(tally)) => Ok(Err(tally)),
            Err(problem) => Err(Failure::Output { path, problem }),
        }
    }

    fn begun(&self) -> (LineMark, Tally) {
        match self {
            Sink::Stdout(_) => Default::default(),
            Sink::File { file, .. } => {
                let (mark, tally) = file.begun();
                (mark, tally.clone())
            }
        }
    }

    fn write(&mut self, bytes: &[u8], mark: LineMark, tally: &Tally) -> io::Result<()> {
        match self {
            Sink::Stdout(stdout) => {
                let mut stdout = stdout.lock();
                // The reader may be waiting for the results of this block.
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
            Sink::File { file, .. } => file.write(bytes, mark, tally),
        }
    }

    /// Saves the progress for a later run, ignoring errors because the run already failed.
    fn keep(&mut self) {
        if let Sink::File { file, .. } = self {
            let _ = file.save();
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Sink::Stdout(_) => Ok(()),
            Sink::File { path, file } => {
                file.finish().map_err(|error| Failure::Output { path, problem: OutputProblem::Unwritable(error) })
            }
        }
    }

    fn failed(&self, problem: OutputProblem) -> Failure {
        match self {
            Sink::File { path, .. } => Failure::Output { path: path.clone(), problem },
            Sink::Stdout(_) => Failure::Output { path: "<stdout>".into(), problem },
        }
    }

    fn unwritable(&self, error: io::Error) -> Failure {
        match self {
            Sink::Stdout(_) => Failure::Unwritable(error),
            Sink::File { .. } => self.failed(OutputProblem::Unwritable(error)),
        }
    }
}

/// The number of bytes of a file that go into its digest. Files that are read whole are never
/// longer, and of a GGUF file, whose weights may have any length, only the beginning is read.
const DIGESTED: u64 = 512 << 20;

/// Returns a digest of the names and contents of files that the results depend on.
pub fn digest_of(files: &[impl AsRef<Path>]) -> String {
    use std::hash::Hasher;
    let mut hasher = twox_hash::XxHash64::with_seed(0);
    for path in files {
        // Unreadable files are reported where they are loaded.
        let Ok(file) = fs::File::open(path) else { continue };
        let name = path.as_ref().file_name().unwrap_or_default().as_encoded_bytes();
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        hasher.write_u64(name.len() as u64);
        hasher.write(name);
        hasher.write_u64(length);
        let mut reader = BufReader::with_capacity(1 << 16, file.take(DIGESTED));
        while let Ok(bytes @ [_, ..]) = reader.fill_buf() {
            hasher.write(bytes);
            let length = bytes.len();
            reader.consume(length);
        }
    }
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use rolecall::conversation::{Json, json};

    use super::*;

    const KINDS: [RowKind; 3] = [RowKind::Jsonl, RowKind::Arrow, RowKind::Parquet];

    /// Answers three lines, of which the second panics after it wrote something.
    fn answered(kind: RowKind) -> BlockResults {
        let text = "{\"id\": 1}\n{\"id\": 2}\n{\"id\": 3}\n";
        let block = Lines::new(Box::new(text.as_bytes()), LINES).next_block().unwrap().unwrap();
        let answer = |line: Line<'_>, rows: &mut Rows| {
            rows.push_json(&Json::from("written"));
            assert_ne!(line.number, 2, "on purpose");
            Ok(LineCounts::default())
        };
        let files = InputFiles::default();
        answer_block(&block, kind, RowContents::default(), Some(&files), &answer)
            .unwrap_or_else(|_| unreachable!("it is written"))
    }

    #[test]
    fn a_panic_in_one_line_is_its_error_and_the_others_go_on() {
        for kind in KINDS.into_iter().filter(|kind| *kind == RowKind::Jsonl || ARE_BUILT) {
            let BlockResults { rows, tally, refused, mark } = answered(kind);
            assert_eq!((tally.answered, tally.refused, mark.lines), (3, 1, 3));
            assert_eq!((tally.named.as_slice(), tally.reasons[0].code.as_str()), (&[2][..], "internal"));
            let kept = json::parse(std::str::from_utf8(&refused).unwrap().trim_end()).unwrap();
            assert_eq!(kept.as_object().unwrap().get("text"), Some(&Json::from("{\"id\": 2}")));
            let AnsweredRows::Bytes(bytes) = rows else { unreachable!("nothing is packed") };
            assert!(!bytes.is_empty());
        }
    }

    #[test]
    fn the_error_of_a_panic_says_what_to_report() {
        let AnsweredRows::Bytes(bytes) = answered(RowKind::Jsonl).rows else { unreachable!("nothing is packed") };
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[2], lines.len()), ("\"written\"", "\"written\"", 3));
        let row = json::parse(lines[1]).unwrap();
        assert_eq!(row.as_object().unwrap().get("id"), Some(&Json::from(2)));
        let error = row.as_object().unwrap().get("error").unwrap().as_object().unwrap();
        let text = |key: &str| error.get(key).unwrap().as_str().unwrap();
        assert_eq!(text("code"), "internal");
        assert!(text("message").contains("this is a bug in rolecall") && text("message").contains("on purpose"));
        assert!(text("help").contains("report"));
    }
}
