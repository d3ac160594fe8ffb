//! Runs every case of `fixtures/parse/<layout>/`: the output of a model, the events that it is
//! parsed into, and the message. Each output is parsed whole, character by character and split in
//! many other ways, with the same result.
//!
//! Sections: `output`, or `tokens` (a JSON list: a string is an ordinary token, `{"control": ".."}`
//! a control token, `{"bytes": [..]}` part of a character); the expected `events` and `message`.
//! Optional sections: `layout` (a format's name, `calls/NAME` or `replies/NAME`; the default is the
//! folder), `format` (a format file), `template` (a chat template from which layouts are inferred),
//! `tools`, `tail` (the end of the prompt), `spelling` (of the control tokens), `options`.
#![expect(clippy::panic, reason = "a test fails by a panic, in its helpers too")]

use std::fs;
use std::sync::Arc;

use rolecall::conversation::json;
use rolecall::conversation::json::Layout;
use rolecall::conversation::{Conversation, Json, Message, Tool, object};
use rolecall::format::{Format, FormatPart, Registry, Slot, load, reply_files, shared_calls};
use rolecall::infer::infer;
use rolecall::parse::{
    CallsInReasoning, Ids, JsonPolicy, ParseOptions, Reply, TextAfterCalls, UnclosedReasoning, UnknownNames,
};
use rolecall::render::{Options, Writer};
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall::{Stop, answer};
use rolecall_testkit::Fixture;
use rolecall_testkit::outputs::characters;
use rolecall_testkit::transcript::{TranscriptPiece, random_chunks, read_pieces, read_texts};

/// Outputs up to this length are split at every pair of places.
const SHORT: usize = 48;

#[test]
fn every_case_is_read_as_it_says() {
    let registry = rolecall::format::registry();
    Fixture::check_all("parse", |case| check(case, &registry));
}

#[test]
fn every_layout_that_is_shipped_has_cases_of_every_kind() {
    let registry = rolecall::format::registry();
    let formats = registry
        .iter()
        .filter(|format| [Slot::Call, Slot::CallInterpreter].into_iter().any(|slot| format.layout(slot).is_some()));
    let formats = formats.map(|format| format.name.clone());
    let replies =
        reply_files().filter(|(_, source)| load(source).is_ok_and(|format| format.layout(Slot::Call).is_some()));
    let replies = replies.map(|(name, _)| format!("replies/{name}"));
    let calls = shared_calls().map(|(name, _)| format!("calls/{name}"));
    let layouts: Vec<String> = formats.chain(calls).chain(replies).collect();
    let cases = Fixture::of_folder("parse");
    let names: Vec<(String, String)> = cases.iter().map(|case| (layout(case), name(case))).collect();
    // The name of a case contains its kind.
    let kinds = ["plain", "one-call", "empty-arguments", "nested-arguments", "a-mark-inside-a-string", "cut-off"];
    for layout in &layouts {
        for kind in kinds {
            let has = |(of, name): &(String, String)| of == layout && name.contains(kind);
            assert!(names.iter().any(has), "fixtures/parse has no case `{kind}` for {layout}");
        }
    }
}

/// Returns the name of the layout with which a case is parsed.
fn layout(case: &Fixture) -> String {
    case.section("layout").map_or_else(|| folder(case), str::to_owned)
}

fn name(case: &Fixture) -> String {
    case.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn check(case: &mut Fixture, registry: &Registry) {
    let (reply, tail) = reply_of(case, registry);
    let (options, stop) = options_of(case, tail);
    let pieces = pieces_of(case);
    let (whole, reading) = read_pieces(&reply, &options, pieces.iter().cloned(), stop);
    case.expect("events", &whole.to_string());
    case.expect("message", &written(&answer::of_reading(None, &reading)));
    let path = case.path.display();
    for cut in cuts(&pieces) {
        let (other, _) = read_pieces(&reply, &options, cut.iter().cloned(), stop);
        assert!(other == whole, "{path}: split as {cut:?}\n--- in one piece\n{whole}\n--- split\n{other}");
    }
    if let [TranscriptPiece::Text(output)] = pieces.as_slice() {
        let (one_by_one, _) = read_texts(&reply, &options, characters(output), stop);
        assert!(
            one_by_one == whole,
            "{path}: character by character\n--- in one piece\n{whole}\n--- split\n{one_by_one}"
        );
    }
}

/// Returns the reply that parses the output, and the default end of the prompt.
fn reply_of(case: &Fixture, registry: &Registry) -> (Arc<Reply>, String) {
    let path = case.path.display();
    let hello = Conversation::new(vec![Message::user("Hi")]);
    if let Some(source) = case.section("template") {
        let template = ChatTemplate::compile(source, Vec::new()).unwrap_or_else(|error| panic!("{path}: {error}"));
        let prompt = Writer::template(template.clone(), TemplateOptions::default()).render(&hello);
        let tail = prompt.unwrap_or_else(|error| panic!("{path}: {error}")).text().to_owned();
        return (reply(case, &infer(&template).format), tail);
    }
    let read = |source: &str| load(source).unwrap_or_else(|error| panic!("{path}: {error}"));
    let format = match (case.section("format"), layout(case).as_str()) {
        (Some(source), _) => read(source),
        (None, name) if name.starts_with("calls/") || name.starts_with("replies/") => {
            let source = fs::read_to_string(rolecall_testkit::root().join("formats").join(format!("{name}.toml")));
            read(&source.unwrap_or_else(|error| panic!("{path}: {name}: {error}")))
        }
        (None, name) => Format::clone(registry.get(name).unwrap_or_else(|| panic!("{path}: no format {name}"))),
    };
    let format = match case.section("spelling") {
        Some(spelling) => format.spelled(spelling),
        None => format,
    };
    // A file that describes only the reply renders no prompt, only the layout `generate`.
    let asked = if format.part == FormatPart::Reply { generating() } else { hello };
    let tail = Writer::format(format.clone(), Options::default())
        .render(&asked)
        .map_or(String::new(), |prompt| prompt.text().to_owned());
    (reply(case, &format), tail)
}

/// Returns a conversation without messages that ends with the generation prompt.
fn generating() -> Conversation {
    let mut conversation = Conversation::new(Vec::new());
    conversation.add_generation_prompt = Some(true);
    conversation
}

/// Compiles the reply. For a case of tokens, the tokenizer has all control tokens of the case.
fn reply(case: &Fixture, format: &Format) -> Arc<Reply> {
    let tokens: Vec<String> = match case.section("tokens") {
        None => Vec::new(),
        Some(_) => pieces_of(case)
            .into_iter()
            .filter_map(|piece| match piece {
                TranscriptPiece::Control(text) => Some(text),
                TranscriptPiece::Text(_) | TranscriptPiece::Bytes(_) => None,
            })
            .collect(),
    };
    Arc::new(Reply::with_tokens(format, &tokens))
}

/// Returns `calls/NAME` for a folder inside `calls`, the same for `replies`, otherwise the folder's
/// name. Cases of a framework name their format themselves.
fn folder(case: &Fixture) -> String {
    let name = |path: &std::path::Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let folder = case.path.parent().expect("a case is in a folder");
    let own = name(folder).unwrap_or_default();
    match folder.parent().and_then(name).as_deref() {
        Some(parent @ ("calls" | "replies")) => format!("{parent}/{own}"),
        _ => own,
    }
}

fn options_of(case: &Fixture, tail: String) -> (ParseOptions, Stop) {
    let path = case.path.display();
    let of = |text: &str| json::parse(text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let tools = match case.section("tools") {
        Some(tools) => of(tools),
        None => {
            let file = rolecall_testkit::root().join("fixtures/parse/tools.json");
            of(&fs::read_to_string(file).expect("the tools of the cases exist"))
        }
    };
    let tools = tools.as_array().unwrap_or_default().iter();
    let tools =
        tools.map(|tool| Tool::from_json(tool.clone()).unwrap_or_else(|error| panic!("{path}: {error}"))).collect();
    let mut options = ParseOptions {
        tools,
        prompt_tail: case.section("tail").map_or(tail, str::to_owned),
        ..ParseOptions::default()
    };
    let mut stop = Stop::End;
    let asked = case.section("options").map_or_else(|| Json::Object(object! {}), of);
    for (key, value) in asked.as_object().expect("options are an object").iter() {
        let number = || number(value).and_then(|number| usize::try_from(number).ok());
        match (key, value.as_str(), value) {
            ("calls-in-reasoning", Some(key), _) => options.calls_in_reasoning = CallsInReasoning::from_key(key),
            ("unclosed-reasoning", Some(word), _) => options.unclosed_reasoning = UnclosedReasoning::of_word(word),
            ("unknown-names", Some("text"), _) => options.unknown_names = UnknownNames::Text,
            ("text-after-calls", Some("report"), _) => options.text_after_calls = TextAfterCalls::Report,
            ("strict-json", _, Json::Bool(true)) => options.json = JsonPolicy::Strict,
            ("check-schema", _, Json::Bool(true)) => options.check_schema = true,
            ("max-calls", _, Json::Number(_)) => options.max_calls = number(),
            ("cap", _, Json::Number(_)) => options.cap = number(),
            ("ids", Some("nine"), _) => options.ids = Ids::Nine(0),
            ("seed", _, Json::Number(_)) => options.ids = Ids::Seeded(number().unwrap_or_default() as u64),
            ("finish", Some("length"), _) => stop = Stop::Length,
            ("finish", Some("abort"), _) => stop = Stop::Abort,
            _ => panic!("{path}: unknown option {key} = {value:?}"),
        }
    }
    (options, stop)
}

fn pieces_of(case: &Fixture) -> Vec<TranscriptPiece> {
    let path = case.path.display();
    let Some(tokens) = case.section("tokens") else {
        return vec![TranscriptPiece::Text(case.needed("output").to_owned())];
    };
    let tokens = json::parse(tokens).unwrap_or_else(|error| panic!("{path}: {error}"));
    let piece = |token: &Json| {
        if let Some(text) = token.as_str() {
            return TranscriptPiece::Bytes(text.as_bytes().to_vec());
        }
        let object = token.as_object().unwrap_or_else(|| panic!("{path}: not a token: {token:?}"));
        match (object.get("control").and_then(Json::as_str), object.get("bytes").and_then(Json::as_array)) {
            (Some(text), _) => TranscriptPiece::Control(text.to_owned()),
            (None, Some(bytes)) => {
                let byte = |byte: &Json| u8::try_from(number(byte)?).ok();
                TranscriptPiece::Bytes(bytes.iter().map(|value| byte(value).expect("a byte")).collect())
            }
            _ => panic!("{path}: not a token: {token:?}"),
        }
    };
    tokens.as_array().expect("tokens are a list").iter().map(piece).collect()
}

/// Returns other ways of splitting the output: at each place, at each pair of places if it is
/// short, and at random places.
fn cuts(pieces: &[TranscriptPiece]) -> Vec<Vec<TranscriptPiece>> {
    let [TranscriptPiece::Text(output)] = pieces else {
        // Ordinary tokens byte by byte, which also splits characters.
        let byte_by_byte = pieces.iter().flat_map(|piece| match piece {
            TranscriptPiece::Bytes(bytes) => bytes.iter().map(|byte| TranscriptPiece::Bytes(vec![*byte])).collect(),
            other => vec![other.clone()],
        });
        return vec![byte_by_byte.collect()];
    };
    let text = |text: &str| TranscriptPiece::Text(text.to_owned());
    let places: Vec<usize> = output.char_indices().map(|(at, _)| at).skip(1).collect();
    let mut cuts = Vec::new();
    for (number, place) in places.iter().enumerate() {
        cuts.push(vec![text(&output[..*place]), text(&output[*place..])]);
        if places.len() <= SHORT {
            for behind in &places[number + 1..] {
                cuts.push(vec![text(&output[..*place]), text(&output[*place..*behind]), text(&output[*behind..])]);
            }
        }
    }
    for seed in 0..40 {
        let chunks = random_chunks(output, &mut fastrand::Rng::with_seed(seed));
        cuts.push(chunks.into_iter().map(text).collect());
    }
    cuts
}

fn number(value: &Json) -> Option<i64> {
    match value {
        Json::Number(number) => number.as_i64(),
        _ => None,
    }
}

fn written(json: &Json) -> String {
    json::write(json, &Layout::default())
}
