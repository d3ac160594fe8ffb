//! One document of 10 MB, with one thread and with all.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::child::{self, Task, Threads};
use crate::peers::Library;
use crate::{Subject, columns, machine, median, show};

pub const NAME: &str = "long";
const BYTES: usize = 10_000_000;
const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(120);

pub fn measure(subjects: &[Subject<'_>], text: &str) -> Result<(), String> {
    let file = crate::model::made("long.txt");
    let text = &text[..text.floor_char_boundary(BYTES)];
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let columns = columns(subjects);
    println!(
        "\none document of {} bytes, MB/s: with one thread, and with {} (one for each core)\n",
        text.len(),
        machine::cores()
    );
    print!("{:<16}", "tokenizer");
    columns.iter().for_each(|library| print!(" {:>17}", library.name()));
    println!();
    for (model, libraries) in subjects {
        print!("{:<16}", model.name);
        for library in &columns {
            let run = |threads| {
                let detail = file.to_string_lossy();
                let numbers = child::run(NAME, *library, model, &detail, threads, LIMIT);
                numbers.first().copied()
            };
            let measured = libraries.contains(library);
            let one = if measured { run(Threads::One) } else { None };
            let all = if measured && divides(*library) { run(Threads::All) } else { None };
            print!(" {:>8} {:>8}", show(one), show(all));
        }
        println!();
    }
    println!(
        "\nthe median of {ROUNDS} passes after one; -: it does not load the tokenizer, or does not divide a document"
    );
    Ok(())
}

/// Reports whether a library divides a document between threads.
fn divides(library: Library) -> bool {
    match library {
        Library::Rolecall | Library::Spans | Library::Fastokens => true,
        Library::Tokenizers | Library::Tiktoken | Library::Kitoken | Library::Bpe => false,
    }
}

/// Measures in this process.
pub fn run(task: &Task) -> Result<(), String> {
    let text = std::fs::read_to_string(&task.detail).map_err(|error| error.to_string())?;
    let mut encoder = task.library.load(&task.model)?;
    encoder.encode(&text);
    let mut speeds = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(encoder.encode(black_box(&text)));
        speeds.push(text.len() as f64 / 1e6 / start.elapsed().as_secs_f64());
    }
    println!("{}", median(speeds).unwrap_or_default());
    Ok(())
}
