//! Templates that are code: every law of prompts and sessions holds for them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use crate::session_common::{ids, request, toy};
use rolecall::conversation::Message;
use rolecall::conversation::json::Object;
use rolecall::loss::{LossPolicy, segments};
use rolecall::model::Purpose;
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
}
