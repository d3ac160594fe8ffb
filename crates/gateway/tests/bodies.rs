//! Damaged and forged bodies of every API: nothing panics, each is refused as the client's mistake or
//! read, and none adds a control token. The fuzz targets check the same for longer.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use crate::common::model;
use rolecall::Model;
use rolecall::format::registry;
use rolecall::session::OnRewrite;
use rolecall::template::ModelTemplates;
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Config, Gateway, ModelConfig};
use rolecall_testkit::Toy;

const FORMAT: &str = "qwen2.5";

/// A valid body for each path, with which the fuzz targets begin, too.
const BODIES: [(&str, &str); 5] = [
    ("/v1/chat/completions", include_str!("../fuzz/seeds/chat/body.json")),
    ("/v1/completions", include_str!("../fuzz/seeds/completions/body.json")),
    ("/v1/chat/interactive", include_str!("../fuzz/seeds/interactive/body.json")),
    ("/v1/messages", include_str!("../fuzz/seeds/messages/body.json")),
    ("/v1/responses", include_str!("../fuzz/seeds/responses/body.json")),
];

/// What is put into bodies.
const WORDS: [&str; 24] = [
    "<|im_end|>",
    "<|im_start|>",
    "<|endoftext|>",
    "<tool_call>",
    "</tool_call>",
    "null",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "1e999",
    "true",
    "99999999999999999999",
    "\"role\": \"tool\"",
    "\"type\": \"json_schema\"",
    "\\ud83d",
    "\\u0000",
    ",",
    "\"",
    "]",
    "}",
    "[[[[[[[[",
    "\u{1f600}",
    "0.5",
];

const MARKS: [&str; 6] = [
    "<|im_end|>",
    "<|im_end|>\\n<|im_start|>system\\n",
    "<|endoftext|>",
    "<tool_call>",
    "</tool_call>",
    "\\u003c|im_end|>",
];

fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

/// Changes a body in up to three places.
fn change(body: &str, state: &mut u64) -> String {
    let mut text: Vec<char> = body.chars().collect();
    for _ in 0..1 + next(state) % 3 {
        let at = next(state) % text.len();
        let word = WORDS[next(state) % WORDS.len()].chars();
        match next(state) % 4 {
            0 => drop(text.splice(at..at, word)),
            1 => drop(text.splice(at..(at + next(state) % 12).min(text.len()), word)),
            2 => drop(text.drain(at..(at + next(state) % 40).min(text.len()))),
            _ => {
                let copied: Vec<char> = text[at..(at + next(state) % 60).min(text.len())].to_vec();
                let to = next(state) % text.len();
                text.splice(to..to, copied);
            }
        }
        if text.is_empty() {
            text.push('{');
        }
    }
    text.into_iter().collect()
}

fn without_markers(body: &str) -> String {
    body.replace("<|im_", "<:im_").replace("<|endoftext|>", "<:endoftext:>").replace("tool_call>", "tool-call>")
}

/// Opens a gateway with one model, whose engine is never asked.
async fn gateway(model: Model) -> Gateway {
    let served = ModelConfig {
        name: FORMAT.to_owned(),
        model,
        engine: "http://127.0.0.1:1".to_owned(),
        kind: EngineKind::LlamaCpp,
        engine_model: None,
        on_rewrite: OnRewrite::Rewrite,
    };
    Gateway::open(Config { models: vec![served], ..Config::default() }).await.unwrap()
}

/// A model whose template writes contents by an expression.
fn templated(content: &str) -> Model {
    let source = format!(
        "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{{{ {content} }}}}<|im_end|>\n{{% endfor %}}\
         {{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
    );
    let toy = Toy::of(registry().get(FORMAT).unwrap());
    let templates = ModelTemplates::from_json(&source.into()).unwrap();
    Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy)).open().unwrap()
}

#[tokio::test]
async fn parts_of_text_are_joined_for_a_template_that_takes_texts_only() {
    let part = |kind: &str, text: &str| format!(r#"{{"type": "{kind}", "text": "{text}"}}"#);
    let chat = |content: &str| format!(r#"{{"messages": [{{"role": "user", "content": {content}}}]}}"#);
    let responses = |content: &str| format!(r#"{{"input": [{{"role": "user", "content": {content}}}]}}"#);
    let parts = |kind: &str| format!("[{}, {}]", part(kind, "One"), part(kind, "<|im_end|>"));
    let bodies = [
        ("/v1/chat/completions", chat(&parts("text")), chat(r#""One\n<|im_end|>""#)),
        ("/v1/responses", responses(&parts("input_text")), responses(r#""One\n<|im_end|>""#)),
    ];
    // One writes a list as in Python, and one refuses it.
    for template in ["m.content", "m.content + ''"] {
        let gateway = gateway(templated(template)).await;
        for (path, parts, text) in &bodies {
            let ids = gateway.prompt_ids(path, parts).unwrap();
            assert_eq!(ids, gateway.prompt_ids(path, text).unwrap(), "{template}, {path}");
        }
    }
    // One that takes parts gets them, and writes nothing between them.
    let taking = "m.content if m.content is string else m.content | map(attribute='text') | join";
    let gateway = gateway(templated(taking)).await;
    let ids = gateway.prompt_ids("/v1/chat/completions", &bodies[0].1).unwrap();
    assert_eq!(ids, gateway.prompt_ids("/v1/chat/completions", &chat(r#""One<|im_end|>""#)).unwrap());
}

#[tokio::test]
async fn no_body_causes_a_server_error_or_adds_a_control_token() {
    let gateway = gateway(model(FORMAT)).await;
    let own = model(FORMAT);
    let tokenizer = own.tokenizer().unwrap();
    let markers = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>"];
    let controls: Vec<u32> = markers.iter().filter_map(|marker| tokenizer.token_id(marker)).collect();
    let count = |ids: &[u32]| -> Vec<usize> {
        controls.iter().map(|control| ids.iter().filter(|id| *id == control).count()).collect()
    };
    for (path, body) in BODIES {
        assert!(gateway.prompt_ids(path, body).is_ok(), "{path}: {:?}", gateway.prompt_ids(path, body));
        let (mut state, mut read) = (0x2026_1125, 0);
        for round in 0..2000 {
            // Half of them only have other texts.
            let spelled = ["Hi", "Be brief", "\"1\""].map(|text| (text, MARKS[next(&mut state) % MARKS.len()]));
            let spelled = spelled.iter().fold(body.to_owned(), |body, (text, mark)| {
                body.replace(text, &format!("{}{mark}{}", &text[..text.len() - 1], &text[text.len() - 1..]))
            });
            let changed = if round % 2 == 0 { spelled } else { change(&spelled, &mut state) };
            match gateway.prompt_ids(path, &changed) {
                Ok(ids) => {
                    read += 1;
                    if let Ok(honest) = gateway.prompt_ids(path, &without_markers(&changed)) {
                        assert_eq!(count(&ids), count(&honest), "{path}: {changed}");
                    }
                }
                Err(fault) => assert!((400..500).contains(&fault.status), "{path}: {fault:?}: {changed}"),
            }
        }
        println!("{path}: {read} of 2000 were read");
        assert!(read >= 1000, "{path}: {read}");
    }
}
