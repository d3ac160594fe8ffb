//! What every body of a request must satisfy.

use std::sync::{Arc, LazyLock};

use rolecall::Model;
use rolecall::format::registry;
use rolecall::session::OnRewrite;
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Config, Gateway, ModelConfig};
use rolecall_testkit::Toy;

const FORMAT: &str = "qwen2.5";

/// The ids of the control tokens.
static CONTROLS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let texts = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>"];
    let model = model();
    let tokenizer = model.tokenizer().expect("it was given");
    texts.iter().filter_map(|text| tokenizer.token_id(text)).collect()
});

static GATEWAY: LazyLock<Gateway> = LazyLock::new(|| {
    let model = ModelConfig {
        name: FORMAT.to_owned(),
        model: model(),
        engine: "http://127.0.0.1:1".to_owned(),
        kind: EngineKind::LlamaCpp,
        engine_model: None,
        on_rewrite: OnRewrite::Rewrite,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(Gateway::open(Config { models: vec![model], ..Config::default() })).expect("a gateway")
});

fn model() -> Model {
    let toy = Toy::of(registry().get(FORMAT).expect("built in"));
    Model::builder().model(FORMAT).loaded_tokenizer(Arc::new(toy)).open().expect("a model")
}

/// Reads a body for a path, and checks what would be sent.
pub fn check(path: &str, body: &[u8]) {
    let Ok(body) = std::str::from_utf8(body) else { return };
    let ids = match GATEWAY.prompt_ids(path, body) {
        Ok(ids) => ids,
        Err(fault) => {
            assert!((400..500).contains(&fault.status), "{fault:?}");
            return;
        }
    };
    let honest =
        body.replace("<|im_", "<:im_").replace("<|endoftext|>", "<:endoftext:>").replace("tool_call>", "tool-call>");
    if let Ok(wanted) = GATEWAY.prompt_ids(path, &honest) {
        assert_eq!(count(&ids), count(&wanted), "the body adds a control token");
    }
}

/// Counts each control token.
fn count(ids: &[u32]) -> Vec<usize> {
    CONTROLS.iter().map(|control| ids.iter().filter(|id| *id == control).count()).collect()
}
