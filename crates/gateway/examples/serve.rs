//! Serves models: `serve MODEL http://ENGINE:PORT [llama.cpp|vllm|sglang|openai] [TOKENIZER] [ADDRESS]
//! [KEYS]`.
//!
//! `MODEL` is a model's folder, or the name of a format if a tokenizer is given. Several are separated by
//! commas. `ADDRESS` is `127.0.0.1:8000` if it is not given, and `KEYS` is a file of API keys.

use rolecall::Model;
use rolecall::session::OnRewrite;
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Config, Gateway, Keys, ModelConfig, serve};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let (Some(path), Some(engine)) = (argument(0), argument(1)) else {
        let usage = "MODEL http://ENGINE:PORT [llama.cpp|vllm|sglang|openai] [TOKENIZER] [ADDRESS] [KEYS]";
        return Err(format!("usage: serve {usage}").into());
    };
    let word = argument(2).unwrap_or("llama.cpp");
    let kind = EngineKind::of_word(word).ok_or("an unknown engine")?;
    let mut models = Vec::new();
    for path in path.split(',') {
        let mut builder = Model::builder().model(path);
        if let Some(tokenizer) = argument(3) {
            builder = builder.tokenizer(tokenizer);
        }
        let model = builder.open()?;
        let name = model.name().to_owned();
        let engine = engine.to_owned();
        models.push(ModelConfig { name, model, engine, kind, engine_model: None, on_rewrite: OnRewrite::Rewrite });
    }
    let keys = match argument(5) {
        Some(file) => Keys::read(&std::fs::read_to_string(file)?)?,
        None => Keys::default(),
    };
    let gateway = Gateway::open(Config { models, keys, ..Config::default() }).await?;
    gateway.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
    let listener = TcpListener::bind(argument(4).unwrap_or("127.0.0.1:8000")).await?;
    println!("http://{}", listener.local_addr()?);
    serve(gateway, listener, std::future::pending()).await?;
    Ok(())
}
