//! Tokens that a maker's code appends to the vocabulary of its tokenizer: whatever is written with them is read.

use std::sync::Arc;

use rolecall::format::Format;
use rolecall::parse::ParseOptions;
use rolecall::session::Finish;
use rolecall::tokenizer::{SentencePiece, Tokenizer};
use rolecall::{Model, Reading, Request, Stop};
use rolecall_fixture::write_sentencepiece;
use rolecall_testkit::{Toy, generate};

const QUESTION: &str = r#"[{"role": "user", "content": "Hi"}]"#;

/// Returns a model of ChatGLM3 with a sentencepiece file of as many pieces as the maker's, which has
/// none of the appended tokens.
fn chatglm3() -> Model {
    let mut pieces: Vec<(String, f32, u8)> =
        vec![("<unk>".into(), 0.0, 2), ("<s>".into(), 0.0, 3), ("</s>".into(), 0.0, 3)];
    pieces.extend((0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    let characters = (' '..='~').filter(|c| *c != ' ').chain(['▁']);
    pieces.extend(characters.map(|c| (c.to_string(), -1000.0, 1)));
    pieces.extend((pieces.len()..64_789).map(|number| (format!("§{number}"), -2000.0, 1)));
    let file = write_sentencepiece(&pieces, &[0x18, 2, 0x98, 0x02, 1], &[0x18, 1, 0x20, 0]);
    let tokenizer: Arc<dyn Tokenizer> = Arc::new(SentencePiece::from_bytes(&file, None).unwrap());
    assert_eq!((tokenizer.vocabulary_size(), tokenizer.token_text(64_795)), (64_789, None));
    Model::builder().format("chatglm3").loaded_tokenizer(tokenizer).open().unwrap()
}

fn request(messages: &str) -> Request {
    Request::from_text(messages).unwrap()
}

/// Returns the ids of a reply as the format writes it, with the token that ends it.
fn reply(model: &Model, message: &str) -> Vec<u32> {
    let with = format!(r#"[{{"role": "user", "content": "Hi"}}, {message}, {{"role": "user", "content": "x"}}]"#);
    let prompt = model.prompt(request(QUESTION)).unwrap().encode().unwrap().ids();
    let whole = model.prompt(request(&with)).unwrap().encode().unwrap().ids();
    assert_eq!(whole[..prompt.len()], prompt);
    let end = whole[prompt.len()..].iter().position(|id| *id == 64_795).unwrap();
    whole[prompt.len()..=prompt.len() + end].to_vec()
}

fn read(model: &Model, ids: &[u32]) -> Reading {
    let mut reading = Reading::default();
    let mut parser = model.reply_context(request(QUESTION), ParseOptions::default()).unwrap().id_parser().unwrap();
    for id in ids {
        parser.push(*id, &mut |event| reading.add(&event)).unwrap();
    }
    parser.finish(Stop::End, &mut |event| reading.add(&event));
    reading
}

#[test]
fn a_reply_in_ids_is_read_as_the_makers_code_reads_it() {
    let model = chatglm3();
    let said = reply(&model, r#"{"role": "assistant", "content": "Hello there"}"#);
    assert_eq!(read(&model, &said).content, "Hello there");
    for odd in ["  Hello there", "Hello there \\n", "\\n\\nHello there\\n"] {
        let said = reply(&model, &format!(r#"{{"role": "assistant", "content": "{odd}"}}"#));
        assert_eq!(read(&model, &said).content, "Hello there", "{odd:?}");
    }
    let prompt = model.prompt(request(QUESTION)).unwrap();
    let ids = prompt.encode().unwrap().ids();
    assert_eq!(ids[0], 64_790);
    // The tokenizer adds a space where a part of the prompt is encoded on its own.
    let decoded = String::from_utf8(model.decoder().unwrap().decode(&ids).unwrap()).unwrap();
    assert_eq!(decoded, prompt.text().replace("\nHi", "\n Hi"));
    let mut session = model.session(request(QUESTION)).unwrap();
    session.open().unwrap();
    let accepted = session.accept(&said, Finish::Stop).unwrap();
    assert_eq!((accepted.reading.content.as_str(), accepted.stop), ("Hello there", Some(64_795)));
}

#[test]
fn a_call_in_ids_is_read() {
    let model = chatglm3();
    let call = r#"{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]}"#;
    let messages = format!(
        r#"[{{"role": "user", "content": "Hi"}}, {call}, {{"role": "tool", "tool_call_id": "1", "content": "x"}}]"#
    );
    let whole = model.prompt(request(&messages)).unwrap().encode().unwrap().ids();
    let prompt = model.prompt(request(QUESTION)).unwrap().encode().unwrap().ids();
    let rest = &whole[prompt.len()..];
    let end = rest.iter().position(|id| *id == 64_797).unwrap();
    let reading = read(&model, &rest[..=end]);
    assert_eq!((reading.content.as_str(), reading.calls.len(), reading.malformed.len()), ("", 1, 0), "{reading:?}");
}

#[test]
fn every_id_that_a_format_writes_is_read() {
    let registry = rolecall::format::registry();
    for format in generate::variants(&registry) {
        let appended = format.controls.iter().filter(|control| control.appended);
        let texts: Vec<&str> = appended.flat_map(|control| control.texts()).collect();
        let toy = texts.iter().fold(Toy::of(format), |toy, text| toy.without(text));
        let Some(model) = model_of(format, toy) else { continue };
        let Ok(prompt) = model.prompt(request(QUESTION)) else { continue };
        let ids = prompt.encode().unwrap().ids();
        let decoder = model.decoder().unwrap();
        let text = String::from_utf8(decoder.decode(&ids).unwrap()).unwrap();
        assert_eq!(text, prompt.text(), "{}", format.name);
        read(&model, &ids);
        for control in format.controls.iter().filter(|control| control.appended) {
            read(&model, &control.id.into_iter().collect::<Vec<_>>());
        }
    }
}

/// Returns the model of a format that is known by its name.
fn model_of(format: &Format, toy: Toy) -> Option<Model> {
    Model::builder().format(format.name.clone()).loaded_tokenizer(Arc::new(toy)).open().ok()
}
