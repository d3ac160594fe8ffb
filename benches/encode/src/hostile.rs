//! Texts that make encoders slow, in two sizes. Four times the text should take four times as long.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::child::{self, Task, Threads};
use crate::random::Random;
use crate::{Subject, columns};

pub const NAME: &str = "hostile";
/// The time limit for one kind of text, in both sizes.
const LIMIT: Duration = Duration::from_secs(20);
const ROUNDS: usize = 2;

/// Makes a text of the given number of bytes.
type MakeText = fn(usize) -> String;

const TEXTS: [(&str, MakeText); 10] = [
    ("one word", |bytes| "internationalization".repeat(bytes / 20)),
    ("random letters", |bytes| random_text(bytes, |random| char::from(b'a' + (random % 26) as u8))),
    ("one letter", |bytes| "a".repeat(bytes)),
    ("spaces", |bytes| " ".repeat(bytes)),
    ("newlines", |bytes| "\n".repeat(bytes)),
    ("emoji", |bytes| random_text(bytes, |random| char::from_u32(0x1F600 + random as u32 % 64).unwrap_or('a'))),
    ("random bytes", |bytes| {
        let mut random = Random::new(1);
        let bytes: Vec<u8> = (0..bytes / 2).map(|_| random.next() as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }),
    ("Chinese", |bytes| random_text(bytes, |random| char::from_u32(0x4E00 + random as u32 % 3000).unwrap_or('a'))),
    ("digits", |bytes| random_text(bytes, |random| char::from(b'0' + (random % 10) as u8))),
    ("marks", |bytes| random_text(bytes, |random| char::from_u32(0x300 + random as u32 % 64).unwrap_or('a'))),
];

pub fn measure(subjects: &[Subject<'_>]) {
    let columns = columns(subjects);
    println!("\nhostile texts: ms for 1 MB, and the time for 4 MB relative to it\n");
    print!("{:<16} {:<16}", "tokenizer", "text");
    columns.iter().for_each(|library| print!(" {:>16}", library.name()));
    println!();
    for (model, libraries) in subjects {
        for (at, (kind, _)) in TEXTS.iter().enumerate() {
            print!("{:<16} {kind:<16}", model.name);
            for library in &columns {
                if !libraries.contains(library) {
                    print!(" {:>9} {:>6}", "-", "-");
                    continue;
                }
                let numbers = child::run(NAME, *library, model, &at.to_string(), Threads::One, LIMIT);
                let one = numbers.first().map_or("> 20 s".to_owned(), |one| format!("{one:.1}"));
                let growth = numbers.first().zip(numbers.get(1)).map(|(one, four)| four / one);
                print!(" {one:>9} {:>6}", growth.map_or("> 20 s".to_owned(), |growth| format!("{growth:.2}")));
            }
            println!();
        }
    }
    println!(
        "\nthe first pass of a fresh tokenizer, the faster of {ROUNDS}; > 20 s: stopped after 20 seconds for both sizes"
    );
}

/// Measures one kind of text in this process.
pub fn run(task: &Task) -> Result<(), String> {
    let make = task.detail.parse().ok().and_then(|at: usize| TEXTS.get(at)).ok_or("no such text")?.1;
    for bytes in [1_000_000, 4_000_000] {
        let text = make(bytes);
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            // A tokenizer that has seen the text could take all of it from a cache.
            let mut encoder = task.library.load(&task.model)?;
            let start = Instant::now();
            black_box(encoder.encode(black_box(&text)));
            best = best.min(start.elapsed());
        }
        println!("{}", best.as_secs_f64() * 1e3);
    }
    Ok(())
}

fn random_text(bytes: usize, mut character: impl FnMut(u64) -> char) -> String {
    let mut random = Random::new(7);
    let mut text = String::with_capacity(bytes + 4);
    while text.len() < bytes {
        text.push(character(random.next()));
    }
    text
}
