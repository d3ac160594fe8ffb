//! Compares encoding with named peers, over real text: the same documents, on one core, in one run.
//!
//!     cargo run --release --manifest-path benches/encode/Cargo.toml [-- OPTIONS] [FOLDER]
//!
//! FOLDER contains one folder for each tokenizer; the default is ../shared/tokenizers next to the
//! project. `options.rs` has the options. The ids are compared before anything is measured.

mod child;
mod comparison;
mod corpus;
mod decoding;
mod documents;
mod hostile;
mod long;
mod machine;
mod memory;
mod model;
mod options;
mod peers;
mod random;
mod speed;

use std::process::ExitCode;

use comparison::compare;
use options::{Measure, Options};
use peers::Library;

/// The corpus of `--quick`, in bytes.
const QUICK: usize = 2_000_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match child::Task::read(&arguments) {
        Some(task) => task.run(),
        None if !child::is_single_threaded() => return child::run_single_threaded(&arguments),
        None => Options::read(&arguments).and_then(|options| run(&options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    machine::print_versions(&options.libraries);
    let texts = corpus::read()?;
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for text in &texts {
        match kinds.iter_mut().find(|(kind, _)| *kind == text.kind) {
            Some((_, bytes)) => *bytes += text.text.len(),
            None => kinds.push((text.kind, text.text.len())),
        }
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, bytes)| format!("{kind} {bytes}")).collect();
    println!("corpus: {} texts, in bytes: {}", texts.len(), kinds.join(", "));
    let mut text = documents::mix(texts);
    if options.quick {
        text.truncate(text.floor_char_boundary(QUICK));
        println!("only the first {} bytes of it, because of --quick", text.len());
    }
    let models = model::find(&options.folder)?;
    let models: Vec<&model::Model> = models.iter().filter(|model| options.covers(&model.name)).collect();
    println!("\nids of documents of 8 KB, compared with rolecall's");
    let mut subjects = Vec::new();
    for model in models {
        subjects.push((model, compare(model, &options.libraries, &text)));
    }
    // With spans and without, all other measures are alike.
    let is_other = |library: &Library| *library != Library::Spans;
    let others: Vec<Subject<'_>> = subjects
        .iter()
        .map(|(model, libraries)| (*model, libraries.iter().copied().filter(is_other).collect()))
        .collect();
    for measure in &options.measures {
        match measure {
            Measure::Speed => speed::measure(&subjects, &text, options),
            Measure::Decoding => decoding::measure(&others, &text),
            Measure::Memory => memory::measure(&others, &text)?,
            Measure::Long => long::measure(&others, &text)?,
            Measure::Hostile => hostile::measure(&others),
        }
    }
    Ok(())
}

/// A tokenizer and the libraries that encode with it.
type Subject<'a> = (&'a model::Model, Vec<Library>);

/// Returns the median of a list of numbers.
fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// Returns a number for a table, or a dash.
fn show(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), |number| format!("{number:.1}"))
}

/// Returns the libraries that encode with at least one tokenizer.
fn columns(subjects: &[Subject<'_>]) -> Vec<Library> {
    let used = |library: &Library| subjects.iter().any(|(_, libraries)| libraries.contains(library));
    Library::ALL.into_iter().filter(used).collect()
}
