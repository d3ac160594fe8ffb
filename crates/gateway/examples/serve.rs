//! Serves a model on port 8000: `serve MODEL http://ENGINE:PORT [llama.cpp|vllm|sglang] [TOKENIZER]`.
//!
//! `MODEL` is a model's folder, or the name of a format if a tokenizer is given.

use rolecall::Model;
use rolecall::session::OnRewrite;
use rolecall_gateway::engine::Kind;
use rolecall_gateway::{Config, Gateway, ModelConfig, serve};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let (Some(path), Some(engine)) = (argument(0), argument(1)) else {
        return Err("usage: serve MODEL http://ENGINE:PORT [llama.cpp|vllm|sglang] [TOKENIZER]".into());
    };
    let word = argument(2).unwrap_or("llama.cpp");
    let kind = Kind::ALL.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind).ok_or("an unknown engine")?;
    let mut builder = Model::builder().model(path);
    if let Some(tokenizer) = argument(3) {
        builder = builder.tokenizer(tokenizer);
    }
    let model = builder.open()?;
    let name = model.name().to_owned();
    let model = ModelConfig {
        name,
        model,
        engine: engine.to_owned(),
        kind,
        engine_model: None,
        on_rewrite: OnRewrite::Rewrite,
    };
    let gateway = Gateway::open(Config { models: vec![model], ..Config::default() }).await?;
    let listener = TcpListener::bind("127.0.0.1:8000").await?;
    println!("http://{}", listener.local_addr()?);
    serve(gateway, listener, std::future::pending()).await?;
    Ok(())
}
