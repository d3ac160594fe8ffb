//! Compares parsing streamed model output with named peers: the same outputs in chunks of a token's
//! size, in one run.
//!
//!     cargo run --release --manifest-path benches/parse/Cargo.toml [-- FOLDER]
//!
//! FOLDER contains chat templates and their `index.json`; the default is ../shared/templates next
//! to the project. Typical replies come first, then calls of growing size. Before the timing, names
//! and arguments are compared with the written ones.

mod calls;
mod contestant;
mod inference;
mod peers;
mod seen;
mod syntax;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use calls::Call;
use contestant::Contestant;
use seen::{Count, Reply};
use serde_json::Value;
use syntax::{SYNTAXES, Syntax};

const PROSE: &str = "I will look that up for both towns, which takes a moment. What the service says about a day that is \
further away than a week is a guess & not more < than that; here is what I ask it for:\n";

/// The time limit for one reply, after which a contestant is out.
const LIMIT: Duration = Duration::from_secs(5);
/// The time that a contestant gets for a case.
const BUDGET: Duration = Duration::from_millis(250);
const MOST_ROUNDS: usize = 301;
const FEWEST_ROUNDS: usize = 3;
const GROWTH_ROUNDS: usize = 21;
const SIZES: [usize; 4] = [1 << 10, 10 << 10, 100 << 10, 1 << 20];

fn main() {
    let folder = std::env::args().nth(1).map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/templates")),
        PathBuf::from,
    );
    inference::measure(&folder);
    println!();
    println!(
        "{:<18} {:<22} {:<18} {:>7} {:>8} {:>8} {:>11} {:>9}  {}",
        "calls", "reply", "read by", "chunks", "deltas", "longest", "chunks/ms", "× slower", "names and arguments"
    );
    for syntax in &SYNTAXES {
        let prose = if syntax.parallel { PROSE } else { "" };
        let mut short = vec![calls::weather("Oslo", 3), calls::weather("São Paulo", 14)];
        short.truncate(if syntax.parallel { 2 } else { 1 });
        compare(syntax, if syntax.parallel { "prose, 2 short calls" } else { "a short call" }, prose, &short);
        compare(syntax, "a call of 3.5 KB", "", &[calls::write_file(3_584)]);
    }
    println!("\nns per chunk, by the size of the arguments\n");
    println!(
        "{:<18} {:<18} {:>9} {:>9} {:>9} {:>9}  {}",
        "calls", "read by", "1 KB", "10 KB", "100 KB", "1 MB", "1 MB / 1 KB"
    );
    for syntax in &SYNTAXES {
        grow(syntax);
    }
    println!(
        "\nmedians of interleaved rounds; × slower: rolecall's chunks/ms divided by theirs; longest: bytes of the longest single piece of arguments"
    );
}

/// Prints the rows of one reply.
fn compare(syntax: &Syntax, reply: &str, prose: &str, calls: &[Call]) {
    let output = prose.to_owned() + &(syntax.write)(calls);
    let chunks = chunks(&output, syntax.tokens);
    let contestants = Contestant::of(syntax, &calls::tools());
    let verdicts: Vec<(Reply, String)> = contestants.iter().map(|one| check(one, &chunks, prose, calls)).collect();
    let times = race(&contestants, &chunks);
    let ours = times.first().copied().flatten().unwrap_or_default();
    for ((contestant, (read, verdict)), time) in contestants.iter().zip(&verdicts).zip(&times) {
        let speed =
            time.map_or("-".to_owned(), |time| format!("{:.0}", chunks.len() as f64 / time.as_secs_f64() / 1e3));
        let ratio = time.map_or("-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() / ours.as_secs_f64()));
        println!(
            "{:<18} {:<22} {:<18} {:>7} {:>8} {:>8} {:>11} {:>9}  {verdict}",
            syntax.name,
            reply,
            contestant.name(),
            chunks.len(),
            read.deltas,
            read.longest,
            speed,
            ratio
        );
    }
}

/// Prints the time per chunk as the arguments grow. The sizes are interleaved, so that load on the
/// machine affects all of them.
fn grow(syntax: &Syntax) {
    let outputs: Vec<String> = SIZES.iter().map(|size| (syntax.write)(&[calls::write_file(*size)])).collect();
    let chunks: Vec<Vec<&str>> = outputs.iter().map(|output| chunks(output, syntax.tokens)).collect();
    for contestant in Contestant::of(syntax, &calls::tools()) {
        let mut times = vec![Vec::new(); SIZES.len()];
        let mut spent = Duration::ZERO;
        for _ in 0..GROWTH_ROUNDS {
            for (chunks, times) in chunks.iter().zip(&mut times) {
                // After a timeout, do not try this size or a longer one again.
                let Some(time) = time(&contestant, chunks) else { break };
                times.push(time);
                spent += time;
            }
            if spent > LIMIT {
                break;
            }
        }
        let costs: Vec<Option<f64>> = times
            .into_iter()
            .zip(&chunks)
            .map(|(times, chunks)| Some(middle(times)?.as_secs_f64() * 1e9 / chunks.len() as f64))
            .collect();
        let shown: Vec<String> =
            costs.iter().map(|cost| cost.map_or("> 5 s".to_owned(), |cost| format!("{cost:.0}"))).collect();
        let ratio = match costs[..] {
            [Some(first), .., Some(last)] => format!("{:.2}", last / first),
            _ => "-".to_owned(),
        };
        println!(
            "{:<18} {:<18} {:>9} {:>9} {:>9} {:>9}  {ratio}",
            syntax.name,
            contestant.name(),
            shown[0],
            shown[1],
            shown[2],
            shown[3]
        );
    }
}

/// Parses a reply and compares it with the written one.
fn check(contestant: &Contestant, chunks: &[&str], prose: &str, calls: &[Call]) -> (Reply, String) {
    let mut reply = Reply::default();
    if contestant.read(chunks, LIMIT, &mut |seen| reply.add(seen)).is_none() {
        return (reply, "out of time".to_owned());
    }
    let mut wrong = Vec::new();
    if reply.content.trim() != prose.trim() {
        wrong.push(format!("content: {:?}", shorten(&reply.content)));
    }
    if reply.calls.len() != calls.len() {
        wrong.push(format!("{} calls", reply.calls.len()));
    }
    for (call, (name, arguments)) in calls.iter().zip(&reply.calls) {
        if name != call.name {
            wrong.push(format!("name {name:?}"));
        }
        match serde_json::from_str::<Value>(arguments) {
            Ok(arguments) if arguments == Value::from(call.arguments.clone()) => {}
            Ok(_) => wrong.push(format!("different arguments: {}", shorten(arguments))),
            Err(error) => wrong.push(format!("arguments are not JSON: {error}")),
        }
    }
    (reply, if wrong.is_empty() { "as written".to_owned() } else { wrong.join("; ") })
}

/// Returns the median time of each contestant, with interleaved rounds.
fn race(contestants: &[Contestant], chunks: &[&str]) -> Vec<Option<Duration>> {
    let mut times = vec![Vec::new(); contestants.len()];
    let mut spent = vec![Duration::ZERO; contestants.len()];
    for round in 0..MOST_ROUNDS {
        for ((contestant, times), spent) in contestants.iter().zip(&mut times).zip(&mut spent) {
            if *spent > BUDGET && (round >= FEWEST_ROUNDS || *spent > 4 * BUDGET) {
                continue;
            }
            let Some(time) = time(contestant, chunks) else {
                *spent = LIMIT;
                continue;
            };
            times.push(time);
            *spent += time;
        }
    }
    times.into_iter().map(middle).collect()
}

fn time(contestant: &Contestant, chunks: &[&str]) -> Option<Duration> {
    let mut count = Count::default();
    let time = contestant.read(black_box(chunks), LIMIT, &mut |seen| count.add(seen));
    black_box((count.pieces, count.bytes));
    time
}

fn middle(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

/// Splits a text into pieces as a tokenizer does, by a fixed rule: a known token, a word of up to
/// six letters with the space before it, up to three digits, or one to two other characters.
fn chunks<'t>(text: &'t str, tokens: &[&str]) -> Vec<&'t str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.strip_prefix(' ').unwrap_or(rest);
        let length_while = |text: &str, most: usize, is: fn(char) -> bool| -> usize {
            text.chars().take(most).take_while(|c| is(*c)).map(char::len_utf8).sum()
        };
        let letters = length_while(word, 6, char::is_alphabetic);
        let token = tokens.iter().find(|token| rest.starts_with(**token)).map_or(0, |token| token.len());
        let length = match () {
            () if token > 0 => token,
            () if letters > 0 => rest.len() - word.len() + letters,
            () if first.is_ascii_digit() => length_while(rest, 3, |c| c.is_ascii_digit()),
            () if first.is_whitespace() => length_while(rest, 8, char::is_whitespace),
            () if tokens.iter().any(|token| rest[first.len_utf8()..].starts_with(token)) => first.len_utf8(),
            () => length_while(rest, 2, |c| !c.is_alphanumeric() && !c.is_whitespace()),
        };
        let (chunk, behind) = rest.split_at(length.max(first.len_utf8()));
        chunks.push(chunk);
        rest = behind;
    }
    chunks
}

fn shorten(text: &str) -> String {
    let start: String = text.chars().take(60).collect();
    if start.len() < text.len() { start + ".." } else { start }
}
