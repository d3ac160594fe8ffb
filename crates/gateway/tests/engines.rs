//! What engines are asked, and what they answer, in each wire format.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{StandIn, Step, at, by_ids, engines, integer, kinds};
use rolecall::conversation::Json;
use rolecall::tokenizer::{HuggingFace, Tokenizer};
use rolecall_gateway::engine::{Ask, End, Engine, EngineKind, EnginePiece, Odds, Word};
use rolecall_gateway::{Fault, Limits};

/// Asks an engine, and returns all pieces of its answer.
async fn pieces(engine: &StandIn, ask: &Ask) -> Result<Vec<EnginePiece>, Fault> {
    let address = engine.start().await;
    let mut generating = Engine::new(engine.kind, &address, &Limits::default()).unwrap().generate(ask).await?;
    let mut pieces = Vec::new();
    while let Some(piece) = generating.next().await? {
        pieces.push(piece);
    }
    Ok(pieces)
}

#[tokio::test]
async fn log_probabilities_come_with_the_ids_and_the_most_likely_first() {
    let tokens = [
        (7, -0.25, vec![(7, -0.25), (3, -1.5)]),
        // The sampled token is not among the most likely ones.
        (9, -4.0, vec![(5, -1.0), (4, -0.5)]),
    ];
    for kind in by_ids() {
        for is_cumulative in [true, false] {
            for most in [0, 1, 2] {
                let steps = vec![
                    Step::Ids(vec![]),
                    Step::Odds(tokens[..1].to_vec()),
                    Step::Odds(tokens[1..].to_vec()),
                    Step::End("stop"),
                ];
                let engine = StandIn { is_cumulative, ..StandIn::new(kind, steps) };
                let ask = Ask { ids: vec![1].into(), logprobs: Some(most), ..Ask::default() };
                let pieces = pieces(&engine, &ask).await.unwrap();
                let ids: Vec<u32> = pieces.iter().flat_map(|piece| piece.ids.clone()).collect();
                let odds: Vec<Odds> = pieces.iter().flat_map(|piece| piece.odds.clone()).collect();
                let top = |tops: &[(u32, f64)]| -> Vec<(Word, f64)> {
                    tops.iter().take(most as usize).map(|(id, logprob)| (Word::Id(*id), *logprob)).collect()
                };
                let wanted = [
                    Odds { word: Word::Id(7), logprob: Some(-0.25), top: top(&[(7, -0.25), (3, -1.5)]) },
                    Odds { word: Word::Id(9), logprob: Some(-4.0), top: top(&[(4, -0.5), (5, -1.0)]) },
                ];
                assert_eq!((ids, odds), (vec![7, 9], wanted.to_vec()), "{kind:?} {is_cumulative} {most}");
                let body = Json::Object(engine.body());
                let frames = engines::of(kind);
                let (path, number) = (frames.place_of("top_logprobs"), most.max(frames.least_logprobs()));
                assert_eq!(integer(at(&body, &path)), number, "{kind:?}");
            }
        }
    }
}

#[tokio::test]
async fn no_engine_limits_a_reply_for_which_no_limit_is_given() {
    for kind in kinds() {
        let frames = engines::of(kind);
        let (path, unlimited) = (frames.place_of("max_tokens"), frames.limit_of_all(2045));
        let steps = vec![Step::Ids(vec![7]), Step::End("stop")];
        let engine = StandIn { context: 2048, ..StandIn::new(kind, steps) };
        let address = engine.start().await;
        let asked = Engine::new(kind, &address, &Limits::default()).unwrap();
        for (given, wanted) in [(None, unlimited), (Some(5), Some(5)), (None, unlimited)] {
            let mut ask = Ask { ids: vec![1, 2, 3].into(), ..Ask::default() };
            ask.sampling.max_tokens = given;
            asked.generate(&ask).await.unwrap();
            let body = Json::Object(engine.body());
            let sent = Some(at(&body, &path)).filter(|sent| !sent.is_null());
            assert_eq!(sent.map(integer), wanted, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn an_engine_that_leaves_out_log_probabilities_is_broken() {
    for kind in by_ids() {
        let engine = StandIn::new(kind, vec![Step::Ids(vec![7]), Step::End("stop")]);
        let ask = Ask { ids: vec![1].into(), logprobs: Some(1), ..Ask::default() };
        let fault = pieces(&engine, &ask).await.unwrap_err();
        assert_eq!(fault.code.name(), "engine_broken", "{kind:?}");
        // Without a wish for them, there are none.
        let pieces = pieces(&engine, &Ask { ids: vec![1].into(), ..Ask::default() }).await.unwrap();
        assert!(pieces.iter().all(|piece| piece.odds.is_empty()), "{kind:?}");
        assert_eq!(pieces.last().unwrap().end, Some(End::Stop), "{kind:?}");
    }
}

/// A tokenizer with the bytes of \u{1f984}, \u{e9} and \u{6f22}, and two tokens of two bytes.
const PARTS: &str = r#"{
  "added_tokens": [],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
  "model": {"type": "BPE", "vocab": {"\u00f0": 0, "\u0141": 1, "\u00a6": 2, "\u0126": 3, "a": 4, "\u00c3": 5, "\u00a9": 6,
    "\u00e6": 7, "\u00bc": 8, "\u00a2": 9, "\u00f0\u0141": 10, "\u0141\u00a6": 11},
    "merges": [["\u00f0", "\u0141"], ["\u0141", "\u00a6"]]}
}"#;

#[tokio::test]
async fn ids_that_llama_cpp_keeps_back_are_found_with_the_tokenizer() {
    let tokenizer: Arc<dyn Tokenizer> = Arc::new(HuggingFace::from_bytes(PARTS.as_bytes(), None).unwrap());
    for (text, ids, is_found) in [
        ("\u{1f984}", vec![0, 1, 2, 3], true),
        // Both 0 11 3 and 10 2 3 are possible, and the tokenizer writes the latter.
        ("\u{1f984}", vec![10, 2, 3], true),
        ("\u{1f984}", vec![0, 11, 3], false),
        ("\u{6f22}", vec![7, 8, 9], true),
        // The server would have told the ids of a whole character at once.
        ("\u{e9}\u{6f22}", vec![5, 6, 7, 8, 9], false),
        ("\u{fffd}", vec![0, 9], false),
    ] {
        let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Hidden(ids.clone(), text), Step::End("stop")]);
        let address = engine.start().await;
        let knowing = Engine::new(engine.kind, &address, &Limits::default()).unwrap().knowing(&tokenizer);
        let mut generating = knowing.generate(&Ask::default()).await.unwrap();
        let piece = generating.next().await.unwrap().unwrap();
        match is_found {
            true => assert_eq!((piece.ids, piece.spoken), (ids, None), "{text}"),
            // What is found is never less than what was sampled.
            false => assert_eq!(piece.count(), ids.len(), "{text} {ids:?}"),
        }
    }
}

#[test]
fn the_page_has_a_row_for_each_engine() {
    for (word, kind) in EngineKind::ALL {
        let passes = if kind.is_by_text() { "text | text" } else { "ids | ids" };
        let row = |line: &&str| line.starts_with(&format!("| `{word}` | ")) && line.ends_with(&format!("| {passes} |"));
        assert!(include_str!("../../../docs/gateway.md").lines().any(|line| row(&line)), "{word} has no row");
    }
}

#[tokio::test]
async fn engines_say_what_they_are() {
    for kind in kinds() {
        let address = StandIn { context: 2048, ..StandIn::new(kind, Vec::new()) }.start().await;
        let about = Engine::new(kind, &address, &Limits::default()).unwrap().probe(PATIENCE).await.unwrap();
        // Not all engines by text have a page for it.
        let build = (!kind.is_by_text()).then(|| "b1".to_owned());
        assert_eq!((about.models, about.context, about.build), (vec!["own".to_owned()], Some(2048), build));
    }
    let down = Engine::new(EngineKind::Vllm, "http://127.0.0.1:1", &Limits::default()).unwrap();
    assert_eq!(down.probe(PATIENCE).await.unwrap_err().code.name(), "engine_down");
    // It accepts connections, and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let silent = Engine::new(EngineKind::Sglang, &address, &Limits::default()).unwrap();
    assert_eq!(silent.probe(Duration::from_millis(100)).await.unwrap_err().code.name(), "engine_slow");
}

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn the_reason_of_an_engine_that_gives_up_is_told() {
    let aborted = r#"{"text": "", "output_ids": [], "meta_info": {"completion_tokens": 0, "finish_reason": {"type": "abort", "message": "the input is too long", "status_code": 400, "err_type": "BadRequestError"}}}"#;
    let engine = StandIn::new(EngineKind::Sglang, vec![Step::Raw(format!("data: {aborted}\n\n"))]);
    let fault = pieces(&engine, &Ask::default()).await.unwrap_err();
    assert_eq!((fault.status, fault.code.name()), (400, "engine_aborted"));
    assert!(fault.message.contains("the input is too long"), "{fault:?}");
    let aborted = r#"{"choices": [{"index": 0, "text": "", "token_ids": [], "finish_reason": "abort"}]}"#;
    let engine = StandIn::new(EngineKind::Vllm, vec![Step::Raw(format!("data: {aborted}\n\n"))]);
    let fault = pieces(&engine, &Ask::default()).await.unwrap_err();
    assert_eq!((fault.status, fault.code.name()), (502, "engine_aborted"));
}

#[tokio::test]
async fn counts_that_come_after_the_end_of_a_reply_are_read() {
    let frame = |text: &str| Step::Raw(format!("data: {text}\n\n"));
    let usage = r#"{"choices": [], "usage": {"completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 5}}}"#;
    let ids = r#"{"choices": [{"index": 0, "text": "", "token_ids": [7], "finish_reason": "stop"}]}"#;
    let text = r#"{"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}"#;
    for (kind, last, counted) in [(EngineKind::Vllm, ids, None), (EngineKind::OpenAi, text, Some(9))] {
        for has_usage in [true, false] {
            let mut steps = vec![frame(last), frame(usage), frame("[DONE]"), Step::Wait(Duration::from_secs(600))];
            if !has_usage {
                steps.remove(1);
            }
            let engine = StandIn::new(kind, steps);
            let address = engine.start().await;
            let engine = Engine::new(kind, &address, &Limits::default()).unwrap();
            let mut generating = engine.generate(&Ask::default()).await.unwrap();
            assert_eq!(generating.next().await.unwrap().unwrap().end, Some(End::Stop), "{kind:?}");
            let said = generating.last_word().await;
            let wanted = if has_usage { (Some(5), counted) } else { (None, None) };
            assert_eq!((said.cached, said.counted), wanted, "{kind:?}");
            assert_eq!(generating.has_ended(), !has_usage, "{kind:?}");
            assert_eq!(generating.next().await.unwrap(), None, "{kind:?}");
        }
    }
}
