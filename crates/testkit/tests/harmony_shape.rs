//! Conversations in harmony's own JSON, damaged at random: each is read without losing a text, or
//! refused with its place.

use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Json, object};
use rolecall::dataset::{Sample, Shape, read};

const WHOLE: &str = r#"{"messages": [
    {"role": "system", "name": null, "content": [{"type": "system_content", "model_identity": "I am Nova.",
        "reasoning_effort": "High", "conversation_start_date": "2026-03-04", "knowledge_cutoff": "2024-06",
        "channel_config": {"valid_channels": ["analysis", "commentary", "final"], "channel_required": true},
        "tools": {"python": {"name": "python", "description": "Runs it.", "tools": []}}}]},
    {"role": "developer", "content": [{"type": "developer_content", "instructions": "Be brief.",
        "tools": {"functions": {"name": "functions", "tools": [{"name": "seek", "description": "Seeks.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}]}}}]},
    {"role": "user", "content": [{"type": "text", "text": "Find it."}, {"type": "text", "text": "Quickly."}]},
    {"role": "assistant", "channel": "analysis", "content": [{"type": "text", "text": "Where is it?"}]},
    {"role": "assistant", "channel": "commentary", "content": [{"type": "text", "text": "I look."}]},
    {"role": "assistant", "channel": "commentary", "recipient": "functions.seek",
        "content_type": "<|constrain|>json", "content": [{"type": "text", "text": "{\"q\": \"it all\"}"}]},
    {"role": "tool", "name": "functions.seek", "recipient": "assistant", "channel": "commentary",
        "content": [{"type": "text", "text": "It is here."}]},
    {"role": "assistant", "channel": "analysis", "recipient": "python", "content_type": "code",
        "content": [{"type": "text", "text": "print('there')"}]},
    {"role": "tool", "name": "python", "channel": "analysis", "content": [{"type": "text", "text": "there"}]},
    {"role": "assistant", "channel": "final", "content": "Here and there.", "weight": 0}
]}"#;

/// What is put into a conversation.
const PIECES: [&str; 18] = [
    "null",
    "true",
    "-1.5e300",
    "\"\"",
    "\"a word\"",
    "\"functions.\"",
    "\"final\"",
    "\"assistant\"",
    "[]",
    "{}",
    "[[null]]",
    r#"{"type": "text"}"#,
    r#"{"type": "text", "text": "a part"}"#,
    r#"{"type": "developer_content", "instructions": "more"}"#,
    r#"{"type": "system_content", "reasoning_effort": "Low"}"#,
    r#"{"role": "user", "content": "a message"}"#,
    r#"{"author": {"role": "tool", "name": "seek"}, "content": []}"#,
    r#"[{"id": "1", "function": {"name": "seek", "arguments": "{}"}}]"#,
];

const KEYS: [&str; 14] = [
    "role",
    "name",
    "author",
    "content",
    "channel",
    "recipient",
    "content_type",
    "tool_calls",
    "tools",
    "type",
    "text",
    "instructions",
    "chanel",
    "mood",
];

#[test]
fn a_damaged_conversation_is_refused_or_keeps_its_texts() {
    let whole = json::parse(WHOLE).expect("it is JSON");
    let (shape, samples) = read(WHOLE, None).expect("it is right");
    assert_eq!(shape, Shape::Harmony);
    assert_eq!(lost(&whole, &samples), None);
    let pieces: Vec<Json> = PIECES.iter().map(|piece| json::parse(piece).expect("it is JSON")).collect();
    let mut kept = 0;
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut damaged = whole.clone();
        for _ in 0..random.usize(1..4) {
            damage(&mut damaged, &pieces, &mut random);
        }
        let text = json::write(&damaged, &json::Layout::default());
        match read(&text, Some(Shape::Harmony)) {
            Ok((_, samples)) => {
                assert_eq!(lost(&damaged, &samples), None, "seed {seed}: {text}");
                kept += 1;
            }
            Err(error) => {
                assert!(error.place().is_some() && !error.help().is_empty(), "seed {seed}: {error}\n{text}");
            }
        }
    }
    assert!(kept > 1_000, "only {kept} damaged conversations were read");
}

#[test]
fn deep_and_repeated_json_is_refused_and_a_long_text_is_kept() {
    let of = |part: &str| {
        format!(r#"{{"messages": [{{"role": "system", "content": [{part}]}}, {{"role": "user", "content": "x"}}]}}"#)
    };
    let deep =
        |depth: usize| format!(r#"{{"type": "system_content", "x": {}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert!(read(&of(&deep(100)), None).is_ok());
    assert_eq!(read(&of(&deep(5000)), None).map_err(|error| error.code()).err(), Some("not_json"));
    let twice = r#"{"type": "system_content", "type": "text", "text": "x"}"#;
    assert_eq!(read(&of(twice), None).map_err(|error| error.code()).err(), Some("duplicate_key"));
    let long = "word ".repeat(200_000);
    let text = of(&format!(r#"{{"type": "developer_content", "instructions": "{long}"}}"#));
    let (_, samples) = read(&text, None).expect("it is right");
    assert_eq!(samples[0].request.conversation.messages[0].text(), Some(long));
}

#[test]
fn a_name_without_content_is_reported_and_two_dates_are_refused() {
    let of = |messages: &str| read(&format!(r#"{{"messages": [{messages}]}}"#), Some(Shape::Harmony));
    let asked = r#"{"role": "user", "content": [{"type": "text", "text": "x"}]}"#;
    let (_, samples) =
        of(&format!(r#"{{"role": "user", "name": "ada", "content": []}}, {asked}"#)).expect("it is right");
    let unread = samples[0].request.other.get("messages[0].name");
    assert_eq!(unread.and_then(Json::as_str), Some("ada"));
    let day = |day: &str| {
        let part = format!(r#"{{"type": "system_content", "conversation_start_date": "2026-03-0{day}"}}"#);
        format!(r#"{{"role": "system", "content": [{part}]}}"#)
    };
    let both = |second: &str| of(&format!("{}, {}, {asked}", day("4"), day(second)));
    assert!(both("4").is_ok());
    assert_eq!(both("5").map_err(|error| error.code()).err(), Some("two_ways"));
}

/// Changes, removes or adds one value.
fn damage(value: &mut Json, pieces: &[Json], random: &mut fastrand::Rng) {
    let piece = pieces[random.usize(..pieces.len())].clone();
    let goes_on = random.u8(..8) > 0;
    match value {
        Json::Array(items) if goes_on && !items.is_empty() => {
            let at = random.usize(..items.len());
            match random.u8(..8) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, piece),
                2 => random.shuffle(items),
                _ => damage(&mut items[at], pieces, random),
            }
        }
        Json::Object(object) if goes_on && !object.is_empty() => {
            let keys: Vec<String> = object.iter().map(|(key, _)| key.to_owned()).collect();
            let key = &keys[random.usize(..keys.len())];
            match random.u8(..8) {
                0 => drop(object.remove(key)),
                1 => object.insert(KEYS[random.usize(..KEYS.len())], piece),
                _ => damage(object.get_mut(key).expect("the key is there"), pieces, random),
            }
        }
        value => *value = piece,
    }
}

/// Returns a text of the conversation that is nowhere in the requests.
fn lost(conversation: &Json, samples: &[Sample]) -> Option<String> {
    let mut kept = String::new();
    for Sample { request, .. } in samples {
        let messages = request.conversation.messages.iter().map(|message| Json::Object(message.as_object().clone()));
        let tools = request.conversation.tools.iter().flatten().filter_map(|tool| tool.wrapped());
        let all = object! {
            "messages" => messages.collect::<Vec<Json>>(), "tools" => tools.collect::<Vec<Json>>(),
            "switches" => request.conversation.template_kwargs.clone(), "other" => request.other.clone(),
        };
        kept.push_str(&json::write(&Json::Object(all), &json::Layout::default()));
    }
    let mut texts = Vec::new();
    collect(conversation, &mut texts);
    texts.into_iter().find(|text| {
        let spelled = json::write(&Json::from(text.as_str()), &json::Layout::default());
        !kept.contains(spelled.trim_matches('"'))
    })
}

/// Collects what a person wrote: the values of the keys that hold text.
fn collect(value: &Json, texts: &mut Vec<String>) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Json::Object(object) => collect_keys(object, texts),
        _ => {}
    }
}

fn collect_keys(object: &Object, texts: &mut Vec<String>) {
    for (key, value) in object.iter() {
        match (key, value) {
            ("content" | "text" | "instructions" | "description" | "model_identity" | "mood", Json::String(text)) => {
                texts.push(text.clone());
            }
            (_, value) => collect(value, texts),
        }
    }
}
