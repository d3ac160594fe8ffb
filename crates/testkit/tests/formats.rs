//! The format files: all load, and a new one needs no Rust.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;

use rolecall::conversation::{Conversation, Message};
use rolecall::format::{Slot, builtin_sources, load};
use rolecall::render::{Options, Writer};

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
fn a_new_family_needs_no_rust() {
    let folder = std::env::temp_dir().join(format!("rolecall-new-family-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("tiny-chat.toml");
    // The file is the example of the manual.
    let manual = include_str!("../../../formats/README.md");
    let example = manual.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    fs::write(&path, example).unwrap();

    let mut registry = rolecall::format::registry();
    registry.add(load(&fs::read_to_string(&path).unwrap()).unwrap()).unwrap();
    fs::remove_dir_all(folder).unwrap();

    let fit = registry.resolve("acme/tiny-chat-7b").unwrap();
    assert_eq!(fit.format.name, "tiny-chat");
    let conversation = Conversation::new(vec![Message::system("Be brief."), Message::user("Hi</s>")]);
    let prompt = Writer::format(fit.format.clone(), Options::default()).render(&conversation).unwrap();
    assert_eq!(prompt.text(), "<s><|im|>system\nBe brief.</s>\n<|im|>user\nHi</s></s>\n<|im|>assistant\n");
    assert_eq!(prompt.stop_ids(), [2]);
}

#[test]
fn every_format_renders_its_plainest_conversation_and_joins_to_its_text() {
    for format in rolecall::format::registry().iter() {
        let mut messages = vec![Message::user("q1"), Message::assistant("a1"), Message::user("q2")];
        if format.layout(Slot::System).is_some() || format.layout(Slot::Folded).is_some() {
            messages.insert(0, Message::system("s"));
        }
        let conversation = Conversation::new(messages);
        let prompt = Writer::format(format.clone(), Options::default())
            .render(&conversation)
            .unwrap_or_else(|error| panic!("{}: {error}", format.name));
        let joined: String = prompt.segments().map(|segment| segment.text).collect();
        assert_eq!(joined, prompt.text(), "{}", format.name);
        for text in ["q1", "a1", "q2"] {
            let at = prompt.text().find(text).unwrap_or_else(|| panic!("{}: no {text}", format.name));
            let origin = prompt.origin_at(at).unwrap();
            assert!(origin.message().is_some(), "{}: {text} is {origin:?}", format.name);
        }
    }
}

#[test]
fn models_are_resolved_or_refused_and_never_guessed() {
    let registry = rolecall::format::registry();
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
