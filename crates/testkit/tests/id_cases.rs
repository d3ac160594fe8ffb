//! Runs every case of `fixtures/ids/`: a conversation rendered by a chat template, and the ids of
//! its prompt, token by token.
//!
//! A section `ids NAME` has the ids of a tokenizer: a small one of our own
//! (`rolecall_testkit::forge::small_tokenizers`), or a real one, which is tried if `../shared`
//! exists. A section `reference NAME` is `the same` if the reference gives the same ids, and
//! otherwise has its ids. A section `count NAME` has the number of times that each control token
//! occurs. A section `error NAME` means that the prompt is not encoded.
#![expect(clippy::panic, reason = "a test fails by a panic, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Conversation, Json};
use rolecall::encode::{AddSpecial, EncodedToken, Encoder, Protection};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall::tokenizer;
use rolecall::tokenizer::Tokenizer;
use rolecall::{Encoded, Error, Prompt};
use rolecall_testkit::Fixture;
use rolecall_testkit::forge::small_tokenizers;

#[test]
fn every_case_has_the_ids_that_it_says() {
    let mut known = Tokenizers::default();
    let cases = Fixture::of_folder("ids");
    let count = cases.len();
    let mut wrong = 0;
    for mut case in cases {
        // Report all wrong cases, not only the first.
        wrong += usize::from(catch_unwind(AssertUnwindSafe(|| check(&mut case, &mut known))).is_err());
    }
    for name in &known.missing {
        rolecall_testkit::say_skipped(&format!("no case is tried with the tokenizer {name}"));
    }
    assert!(wrong == 0, "{wrong} of {count} cases fail");
}

/// Tokenizers by name, loaded once.
#[derive(Default)]
struct Tokenizers {
    loaded: BTreeMap<String, Option<Arc<dyn Tokenizer>>>,
    missing: BTreeSet<String>,
}

impl Tokenizers {
    fn get(&mut self, name: &str) -> Option<Arc<dyn Tokenizer>> {
        let load = || match small_tokenizers().into_iter().find(|(small, _)| *small == name) {
            Some((_, tokenizer)) => Some(tokenizer),
            None => {
                let folder = rolecall_testkit::shared()?.join("tokenizers").join(name);
                Some(Arc::from(tokenizer::load(&folder).unwrap_or_else(|error| panic!("{name}: {error}"))))
            }
        };
        let tokenizer = self.loaded.entry(name.to_owned()).or_insert_with(load).clone();
        if tokenizer.is_none() {
            self.missing.insert(name.to_owned());
        }
        tokenizer
    }
}

fn check(case: &mut Fixture, known: &mut Tokenizers) {
    let place = case.path.display().to_string();
    assert!(case.needed("case").starts_with("HARD_CASES "), "{place}: expected `HARD_CASES ..` in `case`");
    let (template, prompt) = match prompt(case) {
        Ok(both) => both,
        Err(error) => return case.expect("error", &error),
    };
    let sections: Vec<String> = case.sections().map(|(name, _)| name.to_owned()).collect();
    let asked = |kind: &str| sections.iter().filter_map(|name| name.strip_prefix(kind)).map(str::to_owned).collect();
    let [ids, references, counts, errors]: [Vec<String>; 4] = ["ids ", "reference ", "count ", "error "].map(asked);
    assert!(!ids.is_empty() || !counts.is_empty() || !errors.is_empty(), "{place}: no expectation");
    let add = match options(case).is_some_and(|options| options.get("add-special").is_some()) {
        true => AddSpecial::Missing,
        false => AddSpecial::Never,
    };
    for name in [&ids, &references, &counts, &errors].into_iter().flatten().collect::<BTreeSet<_>>() {
        let Some(tokenizer) = known.get(name) else { continue };
        let encoder = Encoder::new(&Protection::default().with_template("t", &template), Arc::clone(&tokenizer))
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        let encoder = encoder.adding(add);
        let safe = match encoder.encode(&prompt) {
            Ok(safe) => safe,
            Err(error) => {
                case.expect(&format!("error {name}"), &format!("{}: {error}", error.code()));
                continue;
            }
        };
        assert!(!errors.contains(name), "{place}: expected an error with {name}");
        if ids.contains(name) {
            case.expect(&format!("ids {name}"), &shown(&safe, tokenizer.as_ref()));
        }
        if counts.contains(name) {
            case.expect(&format!("count {name}"), &counted(&safe, tokenizer.as_ref()));
        }
        if references.contains(name) {
            let reference = encoder.encode_reference(&prompt).unwrap_or_else(|error| panic!("{place}: {error}"));
            let found = match safe.ids() == reference.ids() {
                true => "the same".to_owned(),
                false => shown(&reference, tokenizer.as_ref()),
            };
            case.expect(&format!("reference {name}"), &found);
        }
    }
}

/// Parses the options `{"tokens"?: {NAME: TEXT}, "add-special"?: "missing"}`.
fn options(case: &Fixture) -> Option<Object> {
    case.section("options").map(|text| match json::parse(text) {
        Ok(Json::Object(options)) => options,
        other => panic!("{}: not an object: {other:?}", case.path.display()),
    })
}

fn prompt(case: &Fixture) -> Result<(ChatTemplate, Prompt), String> {
    let options = options(case);
    let tokens = options.as_ref().and_then(|options| options.get("tokens")?.as_object());
    let tokens = tokens.into_iter().flat_map(|tokens| tokens.iter());
    let tokens = tokens.filter_map(|(name, token)| Some((name.to_owned(), token.as_str()?.to_owned()))).collect();
    let told = |error: Error| format!("{}: {error}", error.code());
    let request = json::parse(case.needed("request")).map_err(|error| error.to_string())?;
    let template = ChatTemplate::compile(case.needed("template"), tokens).map_err(|error| told(error.into()))?;
    let conversation = Conversation::from_json(request).map_err(|error| told(error.into()))?;
    let prompt = Writer::template(template.clone(), TemplateOptions::default()).render(&conversation);
    prompt.map(|prompt| (template, prompt)).map_err(|error| told(error.into()))
}

/// Writes one line per token: its id and its text, with `*` before a control token.
fn shown(encoded: &Encoded, tokenizer: &dyn Tokenizer) -> String {
    encoded.tokens.iter().map(|token| line(token, tokenizer)).collect::<Vec<_>>().join("\n")
}

fn line(token: &EncodedToken, tokenizer: &dyn Tokenizer) -> String {
    let mark = if token.control { "* " } else { "" };
    let piece = tokenizer.token_text(token.id).unwrap_or_default();
    format!("{mark}{}\t{}", token.id, json::write(&Json::from(piece), &Layout::default()))
}

/// Writes each control token with its number of occurrences.
fn counted(encoded: &Encoded, tokenizer: &dyn Tokenizer) -> String {
    let mut counts: BTreeMap<u32, (usize, String)> = BTreeMap::new();
    for token in encoded.tokens.iter().filter(|token| token.control) {
        counts.entry(token.id).or_insert_with(|| (0, line(token, tokenizer))).0 += 1;
    }
    let mut text = String::new();
    for (count, line) in counts.values() {
        let _ = writeln!(text, "{count} {line}");
    }
    text.pop();
    text
}
