//! Prints generated cases for proofs/grammar, one JSON object per line: a grammar in three
//! languages, texts that it accepts and texts that it rejects. Arguments: the number of seeds for
//! each format, then the texts that the tokenizer has as tokens.

use std::io::{self, BufWriter, Write};

use rolecall::conversation::{Json, json, object};
use rolecall::format::{Format, load, shared_calls};
use rolecall_testkit::grammars::{Trial, trial};
use rolecall_testkit::matches;
use rolecall_testkit::outputs::{Subject, built_in};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds = arguments.first().and_then(|seeds| seeds.parse().ok()).unwrap_or(5);
    let tokens: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let shared = shared_calls().filter_map(|(name, file)| Subject::new(format!("calls/{name}"), load(file).ok()?));
    let mut out = BufWriter::new(io::stdout().lock());
    for subject in built_in().into_iter().chain(shared) {
        let Some(subject) = Subject::new(subject.label.clone(), without_ids(&subject.format)) else { continue };
        for seed in 0..seeds {
            if let Ok(Some(trial)) = trial(&subject, seed, &tokens) {
                writeln!(out, "{}", json::write(&line(&subject, &trial), &json::Layout::compact()))?;
            }
        }
    }
    out.flush()
}

/// Returns the format without token ids, for a tokenizer that has its tokens under other ids.
fn without_ids(format: &Format) -> Format {
    let mut format = format.clone();
    let controls = format.controls.iter().cloned();
    format.controls = controls.map(|control| rolecall::format::Control { id: None, ..control }).collect();
    format
}

fn line(subject: &Subject, trial: &Trial) -> Json {
    let grammar = &trial.grammar;
    // If the end of the turn is unknown, only one of two texts is accepted.
    let accepts: Vec<Json> =
        trial.accepts.iter().filter(|text| matches(grammar, text)).map(|text| Json::from(text.as_str())).collect();
    let refuses: Vec<Json> = trial.refuses.iter().map(|(_, text)| Json::from(text.as_str())).collect();
    let emitted = subject.format.controls.iter().filter(|control| control.emitted);
    let tokens: Vec<Json> = emitted.map(|control| Json::from(control.text.as_str())).collect();
    object! {
        "name" => trial.label.as_str(),
        "structural-tag" => grammar.to_structural_tag().text,
        "lark" => grammar.to_lark().text,
        "gbnf" => grammar.to_gbnf().text,
        "tokens" => tokens,
        "accepts" => accepts,
        "refuses" => refuses,
    }
    .into()
}
