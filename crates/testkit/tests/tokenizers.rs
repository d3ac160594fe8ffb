//! The tokenizer adapters on real files: the ids of every prompt in the id vectors, ordinary and in
//! the reference's way. (`conform` checks how the prompts are made.)

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::fs;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json};
use rolecall::tokenizer;
use rolecall::tokenizer::{TextPlace, Token, Tokenizer};

#[test]
fn real_tokenizers_give_the_ids_of_the_vectors() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("the ids of real tokenizers are not compared");
        return;
    };
    let text = fs::read_to_string(shared.join("golden/ids.jsonl")).unwrap();
    let mut tokenizers: BTreeMap<String, Box<dyn Tokenizer>> = BTreeMap::new();
    let (mut honest, mut forged) = (0, 0);
    for line in text.lines() {
        let Ok(Json::Object(row)) = json::parse(line) else { panic!("not a row: {line}") };
        let expected = row.get("expected").and_then(Json::as_object).unwrap();
        let Some(prompt) = expected.get("prompt").and_then(Json::as_str) else { continue };
        let name = field(&row, "tokenizer");
        let folder = shared.join("tokenizers").join(name);
        let load = || tokenizer::load(&folder).unwrap();
        let tokenizer = &**tokenizers.entry(name.to_owned()).or_insert_with(load);
        let id = field(&row, "id");
        if let Some(ids) = ids(expected, "ids") {
            assert_eq!(by_reference(tokenizer, prompt), ids, "{id}, in the reference's way");
            assert_eq!(between_added_tokens(tokenizer, prompt), ids, "{id}, runs between added tokens");
            honest += 1;
        }
        if let Some(ids) = ids(expected, "reference_ids") {
            assert_eq!(by_reference(tokenizer, prompt), ids, "{id}, as the reference");
            forged += 1;
            let mut ordinary = Vec::new();
            tokenizer.encode_ordinary(prompt, TextPlace::Start, &mut ordinary).unwrap();
            let leaked = ordinary.iter().find(|token| {
                tokenizer.added_tokens().iter().any(|added| added.id == token.id && !added.text.starts_with("<0x"))
            });
            assert_eq!(leaked, None, "{id}: ordinary text became an added token");
        }
    }
    assert!(honest > 0 && forged > 0, "{honest} honest and {forged} forged rows");
}

fn by_reference(tokenizer: &dyn Tokenizer, prompt: &str) -> Vec<u32> {
    let mut tokens = Vec::new();
    tokenizer.encode_reference(prompt, TextPlace::Start, &mut tokens).unwrap();
    tokens.into_iter().map(|token: Token| token.id).collect()
}

/// Finds the prompt's added tokens by longest match, and encodes each text between them as one
/// ordinary run.
fn between_added_tokens(tokenizer: &dyn Tokenizer, prompt: &str) -> Vec<u32> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut run = 0;
    let mut at = 0;
    while at <= prompt.len() {
        let rest = &prompt[at..];
        let known = tokenizer.added_tokens().iter().filter(|added| rest.starts_with(added.text.as_str()));
        let added = known.max_by_key(|added| added.text.len());
        if (added.is_some() || rest.is_empty()) && run < at {
            let place = if run == 0 { TextPlace::Start } else { TextPlace::Inside };
            tokenizer.encode_ordinary(&prompt[run..at], place, &mut tokens).unwrap();
        }
        match added {
            Some(added) => {
                tokens.push(Token::new(added.id, at, at + added.text.len()));
                at += added.text.len();
                run = at;
            }
            None => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    tokens.into_iter().map(|token| token.id).collect()
}

fn ids(expected: &Object, key: &str) -> Option<Vec<u32>> {
    let ids = expected.get(key)?.as_array()?.iter().map(|id| match id {
        Json::Number(number) => u32::try_from(number.as_i64().unwrap()).unwrap(),
        other => panic!("not an id: {other:?}"),
    });
    Some(ids.collect())
}

fn field<'a>(row: &'a Object, key: &str) -> &'a str {
    row.get(key).and_then(Json::as_str).unwrap_or_default()
}
