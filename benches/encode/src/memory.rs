//! The resident memory that a loaded tokenizer adds to a process.

use std::hint::black_box;
use std::time::Duration;

use crate::child::{self, Task, Threads};
use crate::documents::cut;
use crate::{Subject, columns, show};

pub const NAME: &str = "memory";
const LIMIT: Duration = Duration::from_secs(120);

pub fn measure(subjects: &[Subject<'_>], text: &str) -> Result<(), String> {
    let file = crate::model::made("corpus.txt");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let columns = columns(subjects);
    println!("\nresident memory, MB: after loading, and after encoding the corpus in documents of 8 KB\n");
    print!("{:<16}", "tokenizer");
    columns.iter().for_each(|library| print!(" {:>17}", library.name()));
    println!();
    for (model, libraries) in subjects {
        print!("{:<16}", model.name);
        for library in &columns {
            let numbers = match libraries.contains(library) {
                true => child::run(NAME, *library, model, &file.to_string_lossy(), Threads::One, LIMIT),
                false => Vec::new(),
            };
            print!(" {:>8} {:>8}", show(numbers.first().copied()), show(numbers.get(1).copied()));
        }
        println!();
    }
    println!("\nwhat each adds to a process of its own; tokenizers encodes each eighth document");
    Ok(())
}

/// Measures this process.
pub fn run(task: &Task) -> Result<(), String> {
    let text = std::fs::read_to_string(&task.detail).map_err(|error| error.to_string())?;
    let documents = cut(&text, 8 << 10);
    let before = resident();
    let mut encoder = task.library.load(&task.model)?;
    println!("{}", resident() - before);
    for document in documents.iter().step_by(task.library.share()) {
        black_box(encoder.encode(document));
    }
    println!("{}", resident() - before);
    Ok(())
}

/// Returns the resident memory of this process in MB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or_default() * 1024.0 / 1e6
}
