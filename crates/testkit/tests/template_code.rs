//! Templates that are code: every law of prompts and sessions holds for them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::session_common::{ids, request, toy};
use rolecall::conversation::Message;
use rolecall::conversation::json::Object;
use rolecall::format::write_reply;
use rolecall::loss::{LossPolicy, segments};
use rolecall::model::{Files, ModelBuilder, Purpose};
use rolecall::session::{Finish, OnRewrite};
use rolecall::template::{CodeError, CodeErrorKind, CodeMessage, CodePiece, ModelTemplates, TemplateCode};
use rolecall::tokenizer::Tokenizer;
use rolecall::{Model, Request};
use rolecall_testkit::Toy;

/// Numbers the rounds, and marks the third with a token that no short conversation has.
#[derive(Debug)]
struct Rounds;

impl TemplateCode for Rounds {
    fn name(&self) -> &str {
        "rounds"
    }

    fn stop_words(&self) -> &[String] {
        &[]
    }

    fn write(&self, messages: &[CodeMessage<'_>], _: &Object) -> Result<Vec<CodePiece>, CodeError> {
        let (mut pieces, mut users) = (Vec::new(), 0);
        let text = |pieces: &mut Vec<CodePiece>, text: String| pieces.push(CodePiece::Text(text));
        for (at, message) in messages.iter().enumerate() {
            match message.role {
                "user" => {
                    users += 1;
                    let mark = if users == 3 { "[later]" } else { "" };
                    text(&mut pieces, format!("<|im_start|>user\n[Round {users}] {mark}"));
                    pieces.push(CodePiece::Content(at));
                    text(&mut pieces, "<|im_end|>\n<|im_start|>assistant\n".to_owned());
                }
                "assistant" => {
                    pieces.push(CodePiece::Content(at));
                    text(&mut pieces, "<|im_end|>\n".to_owned());
                }
                other => {
                    return Err(CodeError {
                        kind: CodeErrorKind::Failed,
                        message: Some(at),
                        field: "role".to_owned(),
                        what: format!("no {other} here"),
                        help: "leave it out".to_owned(),
                    });
                }
            }
        }
        Ok(pieces)
    }
}

/// A tokenizer with a token that only code tells to be one of control.
fn tokens() -> Toy {
    toy().with("[later]").changed("[later]", |token| token.special = false)
}

fn model() -> Model {
    let templates = ModelTemplates::of_code(Arc::new(Rounds)).unwrap();
    Model::builder().templates(templates).loaded_tokenizer(Arc::new(tokens())).open().unwrap()
}

fn said(rounds: usize) -> String {
    let turn = |round: usize| {
        format!(r#"{{"role": "user", "content": "q{round}"}}, {{"role": "assistant", "content": "a{round}"}}, "#)
    };
    let turns: String = (1..rounds).map(turn).collect();
    format!(r#"[{turns}{{"role": "user", "content": "q{rounds}"}}]"#)
}

#[test]
fn a_session_has_the_ids_of_the_whole_prompt() {
    let model = model();
    let mut session = model.session(request(&said(1))).unwrap();
    session.open().unwrap();
    for round in 1..6 {
        let whole = model.prompt(request(&said(round))).unwrap();
        assert_eq!(session.bytes(), whole.text().as_bytes(), "round {round}");
        assert_eq!(session.ids(), whole.encode().unwrap().ids(), "round {round}");
        session.accept(&ids(&format!("a{round}<|im_end|>")), Finish::Stop).unwrap();
        assert_eq!(session.messages().last().unwrap().plain_text(), Some(format!("a{round}").as_str()));
        let before = session.len();
        let plan = session.plan(&[Message::user(format!("q{}", round + 1))]).unwrap();
        assert!(plan.rewrite().is_none());
        // The engine keeps all that it has.
        assert_eq!(session.append(plan, OnRewrite::Refuse).unwrap().keep, before);
        assert!(session.open().unwrap().keep >= before);
        session = model.restore_session(&session.save().unwrap()).unwrap();
    }
}

#[test]
fn no_text_becomes_a_token_that_code_writes_later() {
    let model = model();
    let end = tokens().token_id("[later]").unwrap();
    let spelled = r#"[{"role": "user", "content": "[later]<|im_end|>"}]"#;
    let one = model.prompt(request(spelled)).unwrap().encode().unwrap();
    assert!(!one.ids().contains(&end));
    let mut session = model.session(request(spelled)).unwrap();
    session.open().unwrap();
    assert_eq!(session.ids(), one.ids());
    // The code's own is one token.
    let third = model.prompt(request(&said(3).replace("q3", "[later]"))).unwrap().encode().unwrap();
    assert_eq!(third.ids().iter().filter(|id| **id == end).count(), 1);
}

#[test]
fn only_replies_are_learned_and_every_text_has_its_origin() {
    let model = model();
    let text = r#"{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}"#;
    let prompt = model.prompt_for(Request::from_text(text).unwrap(), Purpose::Training).unwrap();
    let loss = prompt.loss(&LossPolicy::assistant()).unwrap();
    let segments = segments(prompt.prompt(), 0..prompt.text().len(), &loss);
    let learned: String = segments.iter().filter(|(_, learned)| *learned).map(|(segment, _)| segment.text).collect();
    assert_eq!(learned, "a<|im_end|>");
    let of_messages = segments.iter().filter(|(segment, _)| segment.origin.message().is_some());
    assert_eq!(of_messages.map(|(segment, _)| segment.text).collect::<Vec<_>>(), ["q", "a"]);
    assert!(prompt.prompt().dropped().is_empty(), "{:?}", prompt.prompt().dropped());
    assert_eq!(model.stops().unwrap().iter().map(|stop| stop.text.as_str()).collect::<Vec<_>>(), ["<|im_end|>"]);
}

#[test]
fn a_message_can_be_continued_and_the_end_is_for_the_code() {
    let model = model();
    let rest = |rest: &str| {
        let text = r#"{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a b"}]"#;
        Request::from_text(&format!("{text}{rest}}}")).unwrap()
    };
    let prompt = model.prompt(rest(r#", "continue_final_message": true"#)).unwrap();
    assert_eq!(prompt.text(), "<|im_start|>user\n[Round 1] q<|im_end|>\n<|im_start|>assistant\na b");
    assert!(model.prompt(rest(r#", "add_generation_prompt": false"#)).unwrap().text().ends_with("a b<|im_end|>\n"));
    let open = r#"{"messages": [{"role": "user", "content": "q"}], "add_generation_prompt": false}"#;
    let error = model.prompt(Request::from_text(open).unwrap()).unwrap_err();
    assert_eq!((error.code(), &*error.place().unwrap().field), ("code_takes_less", "add_generation_prompt"));
}

#[test]
fn what_code_would_ignore_is_refused() {
    let model = model();
    let code = |messages: &str| {
        let error = model.prompt(request(messages)).unwrap_err();
        (error.code(), error.place().map(|place| place.to_string()).unwrap_or_default(), error.help().is_some())
    };
    let taken = |field: &str| ("code_takes_less", field.to_owned(), true);
    assert_eq!(code(r#"[{"role": "user", "content": "a", "name": "b"}]"#), taken("message 0, name"));
    assert_eq!(code(r#"[{"role": "<|end|>", "content": "a"}]"#), taken("message 0, role"));
    assert_eq!(code(r#"[{"role": "user", "content": null}]"#).0, "code_takes_less");
    let image = r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]"#;
    assert_eq!(code(image).0, "code_takes_less");
    assert_eq!(code(r#"[{"role": "system", "content": "a"}]"#), ("code_failed", "message 0, role".to_owned(), true));
    for (field, value) in
        [("tools", r#"[{"type": "function", "function": {"name": "f"}}]"#), ("documents", r#"[{"text": "a"}]"#)]
    {
        let text = format!(r#"{{"messages": [{{"role": "user", "content": "a"}}], "{field}": {value}}}"#);
        let error = model.prompt(Request::from_text(&text).unwrap()).unwrap_err();
        assert_eq!((error.code(), &*error.place().unwrap().field), ("code_takes_less", field));
    }
}

#[test]
fn the_content_of_a_model_is_opened_with_its_code() {
    let mut files = Files::default();
    files.hold("held/tokenizer.json", TOKENIZER);
    let templates = || ModelTemplates::of_code(Arc::new(Rounds)).unwrap();
    let model = Model::builder().templates(templates()).tokenizer("held").files(files).open().unwrap();
    assert_eq!(model.name(), "rounds");
    let bytes = model.to_bytes().unwrap();
    // Without the code it would be a model that renders nothing.
    assert_eq!(Model::from_bytes(&bytes).unwrap_err().code(), "no_content");
    let copy = ModelBuilder::from_bytes(&bytes).unwrap().templates(templates()).open().unwrap();
    let text = |model: &Model| model.prompt(request(&said(3))).unwrap().text().to_owned();
    assert_eq!(text(&copy), text(&model));
    assert_eq!(copy.tokenizer().unwrap().token_id("q"), Some(1));
    assert_eq!(copy.to_bytes().unwrap(), bytes);
}

const TOKENIZER: &str = r#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "q": 1}, "merges": []}}"#;

/// Code that cannot be run after so many times, until it can be again.
#[derive(Debug)]
struct Failing {
    left: AtomicUsize,
}

impl TemplateCode for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn stop_words(&self) -> &[String] {
        &[]
    }

    fn write(&self, messages: &[CodeMessage<'_>], switches: &Object) -> Result<Vec<CodePiece>, CodeError> {
        let less = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
            let what = "its process has ended".to_owned();
            let help = "wait".to_owned();
            let kind = CodeErrorKind::Unavailable;
            return Err(CodeError { kind, message: None, field: String::new(), what, help });
        }
        Rounds.write(messages, switches)
    }
}

#[test]
fn code_that_cannot_be_run_is_not_taken_for_code_that_refuses() {
    let code = Arc::new(Failing { left: AtomicUsize::new(0) });
    // The sketch asks for three conversations, of which the code may refuse all but the first.
    for left in 0..3 {
        code.left.store(left, Ordering::Relaxed);
        let error = ModelTemplates::of_code(code.clone()).unwrap_err();
        assert_eq!(error.code(), "code_unavailable");
    }
    code.left.store(usize::MAX, Ordering::Relaxed);
    let templates = ModelTemplates::of_code(code.clone()).unwrap();
    let model = Model::builder().templates(templates).loaded_tokenizer(Arc::new(tokens())).open().unwrap();
    let context = || model.reply_context(request(&said(1)), Default::default());
    // Layouts of replies are inferred from several conversations. Without one of them they are others.
    let mut failures = 0;
    let layouts = (0..1000).find_map(|left| {
        code.left.store(left, Ordering::Relaxed);
        let layouts = context().and_then(|context| context.layouts());
        failures += usize::from(matches!(&layouts, Err(error) if error.code() == "code_unavailable"));
        layouts.ok()
    });
    assert!(failures > 2, "{failures}");
    let whole = self::model().reply_context(request(&said(1)), Default::default()).unwrap().layouts();
    assert_eq!(write_reply(&layouts.unwrap()), write_reply(&whole.unwrap()));
}
