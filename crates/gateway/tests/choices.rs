//! Engines that have several models, or adapters.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout};
use rolecall_gateway::Gateway;
use rolecall_gateway::engine::EngineKind;

use crate::common::{Server, StandIn, Step, WITH_ADAPTER, at, config, sampled};

async fn server(kind: EngineKind, model: &str) -> Server {
    let steps = vec![Step::Ids(sampled("chatml", "Hi")), Step::End("stop")];
    let engine = StandIn { context: WITH_ADAPTER, ..StandIn::new(kind, steps) };
    let mut config = config("chatml", &engine).await;
    config.models[0].engine_model = Some(model.to_owned());
    Server::open(config, engine).await
}

const HI: &str = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;

#[tokio::test]
async fn an_engine_is_told_which_of_its_models_is_meant() {
    for (kind, model, field, value) in [
        (EngineKind::Vllm, "any", "model", r#""any""#),
        (EngineKind::OpenAi, "any", "model", r#""any""#),
        (EngineKind::LlamaCpp, "own", "model", r#""own""#),
        (EngineKind::LlamaCpp, "sql", "lora", r#"[{"id":1,"scale":1}]"#),
        (EngineKind::LlamaCpp, "sql.gguf", "lora", r#"[{"id":1,"scale":1}]"#),
        (EngineKind::LlamaCpp, "/adapters/sql.gguf", "lora", r#"[{"id":1,"scale":1}]"#),
        (EngineKind::Sglang, "sql", "lora_path", r#""sql""#),
        (EngineKind::Sglang, "own", "lora_path", "null"),
    ] {
        let server = server(kind, model).await;
        let (status, answer) = server.post("/v1/chat/completions", HI).await;
        assert_eq!(status, 200, "{kind:?} {answer:?}");
        let sent = server.engine.body().get(field).cloned().unwrap_or(Json::Null);
        assert_eq!(json::write(&sent, &Layout::compact()), value, "{kind:?} {model}");
    }
}

#[tokio::test]
async fn a_model_that_the_engine_does_not_have_is_refused() {
    for kind in [EngineKind::LlamaCpp, EngineKind::Sglang] {
        let server = server(kind, "other").await;
        let (status, answer) = server.post("/v1/chat/completions", HI).await;
        assert_eq!((status, at(&answer, "error.code").as_str()), (502, Some("unknown_engine_model")), "{answer:?}");
        let help = at(&answer, "error.help").as_str().unwrap();
        assert!(help.contains("own") && help.contains("sql"), "{help}");
        assert!(server.engine.bodies.lock().unwrap().is_empty());
    }
    let engine = StandIn::new(EngineKind::LlamaCpp, Vec::new());
    let mut local = config("chatml", &engine).await;
    local.models[0].engine_model = Some("sql".to_owned());
    local.models[0].engine = "local:model.gguf".to_owned();
    let fault = Gateway::open(local).await.map(|_| ()).unwrap_err();
    assert!(fault.code() == "unusable_engine" && fault.to_string().contains("engine_model"), "{fault}");
}
