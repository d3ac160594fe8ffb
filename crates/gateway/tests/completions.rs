//! OpenAI's older completions through the gateway.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use crate::common::{Sampled, Server, StandIn, Step, at, by_ids, integer, model, sampled};
use rolecall::Model;
use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout};
use rolecall::format::registry;
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Keys, Limits};
use rolecall_testkit::Toy;

fn steps(ids: &[u32], end: &'static str) -> Vec<Step> {
    ids.iter().map(|id| Step::Ids(vec![*id])).chain([Step::End(end)]).collect()
}

async fn server(format: &str, text: &str) -> Server {
    Server::new(format, StandIn::new(EngineKind::LlamaCpp, steps(&sampled(format, text), "eos"))).await
}

/// Returns the ids of ordinary text.
fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(|byte| Toy::BYTES + u32::from(byte)).collect()
}

/// Returns the chunks of a stream as values.
async fn chunks(server: &Server, body: &str) -> Vec<Json> {
    let body = format!("{}, \"stream\": true}}", body.strip_suffix('}').unwrap());
    let response = server.request("/v1/completions", &body).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let mut frames: Vec<&str> =
        text.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap()).collect();
    assert_eq!(frames.pop(), Some("[DONE]"));
    frames.into_iter().map(|frame| json::parse(frame).unwrap()).collect()
}

#[tokio::test]
async fn a_text_is_continued_as_text_and_the_stream_adds_up_to_the_whole() {
    let call = "Hi \u{1f600}<tool_call>\n{\"name\": \"f\"}\n</tool_call>";
    let server = server("qwen2.5", &format!("{call}<|im_end|>")).await;
    let body = r#"{"model": "qwen2.5", "prompt": "Once<|im_end|>"}"#;
    let (status, answer) = server.post("/v1/completions", body).await;
    assert_eq!((status, at(&answer, "object").as_str()), (200, Some("text_completion")), "{answer:?}");
    // A forged marker is text. Calls are not parsed, and their markers are left out.
    assert_eq!(server.engine.prompt(), bytes("Once<|im_end|>"));
    let text = at(&answer, "choices.0.text").as_str().unwrap().to_owned();
    assert_eq!(text, "Hi \u{1f600}\n{\"name\": \"f\"}\n");
    assert_eq!(at(&answer, "choices.0.finish_reason").as_str(), Some("stop"));
    assert_eq!(integer(at(&answer, "usage.prompt_tokens")), 14);
    let with_usage = body.replacen('{', r#"{"stream_options": {"include_usage": true}, "#, 1);
    let (_, refused) = server.post("/v1/completions", &with_usage).await;
    assert_eq!(at(&refused, "error.param").as_str(), Some("stream_options"));
    let streamed = chunks(&server, &with_usage).await;
    let pieces = streamed.iter().filter_map(|chunk| at(chunk, "choices").as_array().unwrap().first());
    assert_eq!(pieces.clone().map(|piece| at(piece, "text").as_str().unwrap()).collect::<String>(), text);
    // The bytes of a character that is not complete are no chunk.
    let is_empty = |piece: &&Json| at(piece, "text").as_str() == Some("") && at(piece, "finish_reason").is_null();
    assert_eq!(pieces.clone().filter(is_empty).count(), 0, "{streamed:?}");
    let reasons: Vec<&str> = pieces.filter_map(|piece| at(piece, "finish_reason").as_str()).collect();
    assert_eq!(reasons, ["stop"]);
    assert_eq!(at(streamed.last().unwrap(), "usage"), at(&answer, "usage"));
    // With control tokens, nothing is left out.
    let body = body.replacen('{', r#"{"skip_special_tokens": false, "#, 1);
    let (_, answer) = server.post("/v1/completions", &body).await;
    assert_eq!(at(&answer, "choices.0.text").as_str(), Some(call));
}

#[tokio::test]
async fn ids_are_sent_as_they_are_and_only_if_the_model_has_them() {
    let server = server("chatml", "Hi<|im_end|>").await;
    let ids = sampled("chatml", "a<|im_start|>b");
    let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": {ids:?}, "echo": true}}"#)).await;
    assert_eq!((status, server.engine.prompt()), (200, ids));
    assert_eq!(at(&answer, "choices.0.text").as_str(), Some("a<|im_start|>bHi"));
    for bad in
        ["[4294967295]", "[5]", "[-1]", "[]", "[[]]", "[1.5]", "\"\"", "null", "7", r#"[["a"]]"#, r#"["a", 1000097]"#]
    {
        let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": {bad}}}"#)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some("prompt")), "{bad} {answer:?}");
    }
}

#[tokio::test]
async fn several_prompts_have_several_replies_each() {
    let server = server("chatml", "Hi<|im_end|>").await;
    let body =
        format!(r#"{{"prompt": ["a", "bc"], "n": 2, "best_of": 2, "echo": true, "seed": 7, "more": {}}}"#, "null");
    let (status, answer) = server.post("/v1/completions", &body).await;
    assert_eq!(status, 200, "{answer:?}");
    let choices = at(&answer, "choices").as_array().unwrap();
    let texts: Vec<&str> = choices.iter().map(|choice| at(choice, "text").as_str().unwrap()).collect();
    assert_eq!(texts, ["aHi", "aHi", "bcHi", "bcHi"]);
    let indexes: Vec<u32> = choices.iter().map(|choice| integer(at(choice, "index"))).collect();
    assert_eq!(indexes, [0, 1, 2, 3]);
    assert_eq!(integer(at(&answer, "usage.prompt_tokens")), 3);
    assert_eq!(integer(at(&answer, "usage.completion_tokens")), 4 * 3);
    // The engine had seven ids of each prompt.
    assert_eq!(integer(at(&answer, "usage.prompt_tokens_details.cached_tokens")), 14);
    let mut added = vec![String::new(); 4];
    for chunk in chunks(&server, &body).await {
        let choice = at(&chunk, "choices.0");
        added[integer(at(choice, "index")) as usize] += at(choice, "text").as_str().unwrap();
    }
    assert_eq!(added, texts);
    let many = format!(r#"{{"prompt": [{}"a"], "n": 64}}"#, "\"a\", ".repeat(2));
    let (status, answer) = server.post("/v1/completions", &many).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (400, Some("too_many_prompts")));
}

#[tokio::test]
async fn the_tokenizer_s_own_first_token_comes_before_a_text() {
    let server = server("llama2", "Hi").await;
    let without = r#"{"prompt": "a", "add_special_tokens": false}"#;
    assert_eq!(server.post("/v1/completions", without).await.0, 200);
    assert_eq!(server.engine.prompt(), bytes("a"));
    assert_eq!(server.post("/v1/completions", r#"{"prompt": "a"}"#).await.0, 200);
    let toy = Toy::of(registry().get("llama2").unwrap());
    let toy: Arc<dyn rolecall::tokenizer::Tokenizer> = Arc::new(toy);
    let wanted: Vec<u32> = toy.adds_bos().into_iter().chain(bytes("a")).collect();
    assert_eq!(server.engine.prompt(), wanted);
}

#[tokio::test]
async fn settings_stops_and_limits_apply() {
    let server = server("chatml", "one, two, three<|im_end|>").await;
    let body =
        r#"{"prompt": "a", "stop": [", th"], "temperature": 0.5, "max_tokens": 19, "logit_bias": {"1000042": 1}}"#;
    let (status, answer) = server.post("/v1/completions", body).await;
    assert_eq!((status, at(&answer, "choices.0.text").as_str()), (200, Some("one, two")));
    let sent = json::write(&server.engine.body().into(), &Layout::compact());
    for part in [r#""temperature":0.5"#, r#""n_predict":19"#, r#""logit_bias":[[1000042,1]]"#] {
        assert!(sent.contains(part), "{sent}");
    }
    let ids = sampled("chatml", "cut");
    let cut = Server::new("chatml", StandIn::new(EngineKind::LlamaCpp, steps(&ids, "limit"))).await;
    let (_, answer) = cut.post("/v1/completions", r#"{"prompt": "a"}"#).await;
    assert_eq!(at(&answer, "choices.0.finish_reason").as_str(), Some("length"));
    for (more, param) in [
        (r#""suffix": "b""#, "suffix"),
        (r#""best_of": 3"#, "best_of"),
        (r#""best_of": "1""#, "best_of"),
        (r#""logprobs": 6"#, "logprobs"),
        (r#""logprobs": -1"#, "logprobs"),
        (r#""logprobs": 1.5"#, "logprobs"),
        (r#""logprobs": "1""#, "logprobs"),
        (r#""logprobs": true"#, "logprobs"),
        (r#""logprobs": 0, "echo": true"#, "logprobs"),
        (r#""ignore_eos": true"#, "ignore_eos"),
        (r#""n": 0"#, "n"),
        (r#""nonsense": 1"#, "nonsense"),
        (r#""messages": []"#, "messages"),
        (r#""stream": 1"#, "stream"),
    ] {
        let (status, answer) = server.post("/v1/completions", &format!(r#"{{"prompt": "a", {more}}}"#)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{more} {answer:?}");
    }
    let engine = StandIn::new(EngineKind::LlamaCpp, steps(&ids, "limit"));
    let limits = Limits { prompt_ids: 2, ..Limits::default() };
    let small = Server::with("chatml", engine, limits, Keys::default()).await;
    for long in [r#""abc""#, "[1000097, 1000097, 1000097]"] {
        let (status, answer) = small.post("/v1/completions", &format!(r#"{{"prompt": {long}}}"#)).await;
        assert_eq!((status, at(&answer, "error.code").as_str()), (400, Some("context_length_exceeded")), "{answer:?}");
    }
}

#[tokio::test]
async fn a_character_that_is_cut_off_is_replaced_and_not_lost() {
    let mut ids = bytes("a\u{1f600}");
    ids.pop();
    let server = Server::new("chatml", StandIn::new(EngineKind::LlamaCpp, steps(&ids, "limit"))).await;
    let (_, answer) = server.post("/v1/completions", r#"{"prompt": "a"}"#).await;
    assert_eq!(at(&answer, "choices.0.text").as_str(), Some("a\u{fffd}"));
    let whole: Model = model("chatml");
    assert!(whole.has_tokenizer());
}

/// Frames whose tokens are as likely as this, next to a token that is more likely and one that is less.
fn odds(frames: &[&[u32]]) -> Vec<Step> {
    let other = bytes("xy");
    let one = |id: &u32| -> Sampled { (*id, -0.5, vec![(other[0], -0.25), (*id, -0.5), (other[1], -4.0)]) };
    frames.iter().map(|ids| Step::Odds(ids.iter().map(one).collect())).collect()
}

/// Returns the tokens of a choice, each with its offset.
fn tokens(logprobs: &Json) -> Vec<(String, u32)> {
    let (tokens, offsets) = (at(logprobs, "tokens").as_array(), at(logprobs, "text_offset").as_array());
    let each = tokens.unwrap_or_default().iter().zip(offsets.unwrap_or_default());
    each.map(|(token, offset)| (token.as_str().unwrap().to_owned(), integer(offset))).collect()
}

/// Adds up the log probabilities of the chunks of each choice.
fn add_up(chunks: &[Json], choices: usize) -> Vec<Json> {
    const LISTS: [&str; 4] = ["tokens", "token_logprobs", "top_logprobs", "text_offset"];
    let mut all = vec![[const { Vec::new() }; 4]; choices];
    for choice in chunks.iter().map(|chunk| at(chunk, "choices.0")).filter(|choice| !at(choice, "logprobs").is_null()) {
        let lists = &mut all[integer(at(choice, "index")) as usize];
        for (list, name) in lists.iter_mut().zip(LISTS) {
            list.extend_from_slice(at(at(choice, "logprobs"), name).as_array().unwrap());
        }
    }
    let object = |lists: [Vec<Json>; 4]| {
        let mut object = json::Object::new();
        LISTS.into_iter().zip(lists).for_each(|(name, list)| object.insert(name, list.into()));
        object.into()
    };
    all.into_iter().map(object).collect()
}

#[tokio::test]
async fn log_probabilities_are_those_of_the_tokens_of_the_text() {
    let (ids, marks) = (bytes("H\u{e9}i"), sampled("qwen2.5", "<tool_call><|im_end|>"));
    let (text, part) = (|text: &str, at: u32| (text.to_owned(), at), "\u{fffd}");
    for kind in by_ids() {
        let mut steps = odds(&[&ids[..1], &[ids[1]], &[ids[2], marks[0], ids[3]], &[ids[3], marks[1]]]);
        steps.push(Step::End("stop"));
        let server = Server::new("qwen2.5", StandIn::new(kind, steps)).await;
        for (more, wanted) in [
            // A control token that is left out of the text is left out here.
            (r#""n": 2"#, vec![text("H", 0), text(part, 1), text(part, 1), text("i", 2), text("i", 3)]),
            (
                r#""skip_special_tokens": false"#,
                vec![text("H", 0), text(part, 1), text(part, 1), text("<tool_call>", 2), text("i", 13), text("i", 14)],
            ),
            // So are a stop text, and what was sampled after it.
            (r#""stop": ["ii"]"#, vec![text("H", 0), text(part, 1), text(part, 1)]),
            (r#""stop": ["iH"]"#, vec![text("H", 0), text(part, 1), text(part, 1), text("i", 2), text("i", 3)]),
        ] {
            let body = format!(r#"{{"prompt": ["a", "bc"], "logprobs": 1, {more}}}"#);
            let (status, answer) = server.post("/v1/completions", &body).await;
            assert_eq!(status, 200, "{answer:?}");
            let choices = at(&answer, "choices").as_array().unwrap();
            assert_eq!(choices.len(), if more.contains("\"n\"") { 4 } else { 2 });
            let whole: Vec<Json> = choices.iter().map(|choice| at(choice, "logprobs").clone()).collect();
            for logprobs in &whole {
                assert_eq!(tokens(logprobs), wanted, "{kind:?} {more}");
                // The sampled token is among the most likely, even if it is none.
                let first = r#"{"x":-0.25,"H":-0.5}"#;
                assert_eq!(json::write(at(logprobs, "top_logprobs.0"), &Layout::compact()), first, "{kind:?}");
                let each = at(logprobs, "token_logprobs").as_array().unwrap();
                assert_eq!(each, vec![json::parse("-0.5").unwrap(); wanted.len()], "{kind:?}");
            }
            let chunks = chunks(&server, &body).await;
            assert_eq!(add_up(&chunks, choices.len()), whole, "{kind:?} {more}");
            // Each token is in the chunk in which its text begins.
            for chunk in chunks.iter().map(|chunk| at(chunk, "choices.0")) {
                let (text, tokens) = (at(chunk, "text").as_str().unwrap(), tokens(at(chunk, "logprobs")));
                assert!(tokens.first().is_none_or(|(token, _)| token == part || text.starts_with(token)), "{chunk:?}");
            }
        }
        let (_, answer) = server.post("/v1/completions", r#"{"prompt": "a", "logprobs": 0}"#).await;
        assert_eq!(tokens(at(&answer, "choices.0.logprobs")).len(), 5, "{kind:?}");
        assert!(at(&answer, "choices.0.logprobs.top_logprobs").is_null(), "{kind:?}");
        let (_, answer) = server.post("/v1/completions", r#"{"prompt": "a"}"#).await;
        assert!(at(&answer, "choices.0").as_object().unwrap().get("logprobs").unwrap().is_null(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_character_that_is_broken_off_has_a_place_of_its_own() {
    let ids = bytes("b\u{1f600}\n\nc");
    let steps = odds(&[&[ids[0], ids[1]], &ids[5..]]).into_iter().chain([Step::End("limit")]).collect();
    let server = Server::new("chatml", StandIn::new(EngineKind::LlamaCpp, steps)).await;
    let (_, answer) = server.post("/v1/completions", r#"{"prompt": "a", "logprobs": 2}"#).await;
    assert_eq!(at(&answer, "choices.0.text").as_str(), Some("b\u{fffd}\n\nc"));
    let offsets: Vec<u32> = tokens(at(&answer, "choices.0.logprobs")).into_iter().map(|(_, offset)| offset).collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn a_character_that_is_cut_off_keeps_its_log_probabilities() {
    let ids = bytes("a\u{1f600}");
    let mut steps = odds(&[&ids[..3]]);
    steps.push(Step::End("limit"));
    let server = Server::new("chatml", StandIn::new(EngineKind::LlamaCpp, steps)).await;
    let body = r#"{"prompt": "a", "logprobs": 2}"#;
    let (_, answer) = server.post("/v1/completions", body).await;
    let part = ("\u{fffd}".to_owned(), 1);
    assert_eq!(tokens(at(&answer, "choices.0.logprobs")), [("a".to_owned(), 0), part.clone(), part]);
    let streamed = add_up(&chunks(&server, body).await, 1);
    assert_eq!(&streamed[0], at(&answer, "choices.0.logprobs"));
}

#[tokio::test]
async fn control_tokens_that_a_text_spells_are_named_unless_they_are_wanted() {
    let server = server("qwen2.5", "Hi<|im_end|>").await;
    let ask = async |more: &str| {
        let body = format!(r#"{{"prompt": ["<|im_start|>user", "a<|im_end|><|im_start|>", "b"]{more}}}"#);
        let response = server.request("/v1/completions", &body).send().await.unwrap();
        let header = response.headers().get("x-rolecall-as-text").map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), header)
    };
    assert_eq!(ask("").await, (200, Some("<|im_end|>, <|im_start|>".to_owned())));
    assert_eq!(ask(r#", "reference_encoding": true"#).await, (200, None));
    assert_eq!(ask(r#", "reference_encoding": 1"#).await.0, 400);
    let body = r#"{"prompt": "a<|im_end|>", "reference_encoding": true}"#;
    assert_eq!(server.post("/v1/completions", body).await.0, 200);
    assert_eq!(server.engine.prompt(), sampled("qwen2.5", "a<|im_end|>"));
    let plain = server.request("/v1/completions", r#"{"prompt": "<im_end>"}"#).send().await.unwrap();
    assert_eq!(plain.headers().get("x-rolecall-as-text"), None);
}
