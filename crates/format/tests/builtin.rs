//! The format files: all load, and models are found by their names.

use rolecall_format::{builtin, builtin_sources, load};

#[test]
fn every_built_in_format_file_is_right() {
    let files = builtin_sources();
    assert!(files.len() >= 25, "{} files", files.len());
    for (file, source) in files {
        let format = load(source).unwrap_or_else(|error| panic!("formats/{file}: {error}"));
        assert_eq!(format!("{}.toml", format.name), *file);
        assert!(!format.sources.is_empty(), "{file} names no source");
    }
}

#[test]
fn models_are_resolved_or_refused_and_never_guessed() {
    let registry = builtin();
    let cases = [
        ("internlm/internlm2-chat-7b", "internlm2"),
        ("Qwen/Qwen1.5-7B-Chat", "qwen1.5"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama2"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama3"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3.1"),
        ("THUDM/chatglm3-6b", "chatglm3"),
        ("THUDM/chatglm2-6b", "chatglm2"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistral"),
        ("HuggingFaceH4/zephyr-7b-beta", "zephyr"),
    ];
    for (model, format) in cases {
        assert_eq!(registry.resolve(model).map(|fit| fit.format.name.as_str()), Ok(format), "{model}");
    }
    assert!(registry.resolve("acme/unheard-of-9b").is_err());
}
