//! Loads mutated tokenizer files. Each must give a typed error or a tokenizer that works, and none
//! may panic.
//!
//!     cargo run --release -p rolecall --example mutate_tokenizers -- SECONDS [SEED] [FILE ..]
//!
//! The mutations start from the small files of the tests and from the given files, whose configs
//! are not read.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use common::files::whole;
use common::{attacks::run, cpu_time, peak_kilobytes};

#[path = "../tests/common/mod.rs"]
mod common;

const TEXT: &str = "ab <s> [T] aba\u{301}\u{0} \u{4f60}\u{597d}  <0x41>\n";
/// Bytes and words that have a meaning in the formats.
const WORDS: &[&str] = &[
    "\0",
    "\u{7f}",
    "\u{80}",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    "-1",
    "0",
    "1e999",
    "4294967295",
    "1099511627776",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\n",
    " ",
    "=",
    "\u{2581}",
    "\0\0\0\0\0\0\0\0",
    "(a*)*",
    "{1000}",
    "\\\\p{L}",
    "(?=",
    "Replace",
    "ByteLevel",
    "Precompiled",
    "Metaspace",
    "Unigram",
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |or: u64| arguments.next().and_then(|argument| argument.parse().ok()).unwrap_or(or);
    let (seconds, seed) = (number(60), number(1));
    let mut files: Vec<(String, Vec<u8>, Option<Vec<u8>>)> = whole()
        .into_iter()
        .map(|whole| (whole.name.to_owned(), whole.file, whole.config.map(<[u8]>::to_vec)))
        .collect();
    let small = files.len();
    for path in arguments {
        match std::fs::read(&path) {
            Ok(file) => files.push((path, file, None)),
            Err(error) => println!("{path}: {error}"),
        }
    }
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut ends: BTreeMap<(String, String), u64> = BTreeMap::new();
    let (mut slowest, mut count, mut panics) = ((Duration::ZERO, String::new()), 0u64, 0u64);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        // Large files take thousands of times as long.
        let is_large = files.len() > small && random.below(500) == 0;
        let at = if is_large { small + random.below(files.len() - small) } else { random.below(small) };
        let (name, file, config) = &files[at];
        let mut mutated = file.clone();
        for _ in 0..=random.below(4) {
            mutate(&mut mutated, file, &mut random);
        }
        let mut config = config.clone();
        if let Some(config) = config.as_mut().filter(|_| random.below(4) == 0) {
            let whole = config.clone();
            mutate(config, &whole, &mut random);
        }
        let before = cpu_time();
        let end = catch_unwind(|| run(&mutated, config.as_deref(), TEXT)).unwrap_or_else(|_| {
            panics += 1;
            let _ = std::fs::write(std::env::temp_dir().join(format!("rolecall-panic-{panics}.bin")), &mutated);
            "PANIC".to_owned()
        });
        let time = cpu_time() - before;
        if time > slowest.0 {
            let _ = std::fs::write(std::env::temp_dir().join("rolecall-slowest.bin"), &mutated);
            slowest = (time, format!("{name}: {end}"));
        }
        *ends.entry((name.clone(), end)).or_default() += 1;
        count += 1;
    }
    for ((name, end), count) in &ends {
        println!("{count:9}  {name}: {end}");
    }
    println!(
        "{count} files, {panics} panics; slowest {:.0} ms ({}); at most {:.0} MB",
        slowest.0.as_secs_f64() * 1e3,
        slowest.1,
        peak_kilobytes() as f64 / 1024.0
    );
}

fn mutate(bytes: &mut Vec<u8>, whole: &[u8], random: &mut Random) {
    let at = random.below(bytes.len().max(1)).min(bytes.len());
    let most = 1 << random.below(8);
    let length = 1 + random.below(most);
    let end = (at + length).min(bytes.len());
    match random.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.next() as u8,
        2 => drop(bytes.drain(at..end)),
        3 => bytes.truncate(at),
        // Copies a part of the file to another place.
        4 => {
            let from = random.below(whole.len().max(1)).min(whole.len());
            let part = whole[from..(from + length).min(whole.len())].to_vec();
            drop(bytes.splice(at..at, part));
        }
        5 => drop(bytes.splice(at..end, WORDS[random.below(WORDS.len())].bytes())),
        6 => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].bytes())),
        _ => {
            // Changes a digit.
            if let Some(digit) = (at..bytes.len()).find(|&at| bytes[at].is_ascii_digit()) {
                bytes[digit] = b'0' + random.below(10) as u8;
            }
        }
    }
}

/// An xorshift generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}
