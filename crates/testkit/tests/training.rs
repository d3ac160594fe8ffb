//! What a training loss may touch, and new turns alone: laws over every format.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::{Conversation, Format, Json, LossPolicy, Message, Options, Prompt, Registry, Slot};
use rolecall::{extend, loss_spans, object, render};

fn turns(format: &Format, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    if format.layout(Slot::System).is_some() || format.layout(Slot::Folded).is_some() {
        messages.push(Message::system("the system text"));
    }
    for number in 0..count {
        messages.push(Message::user(format!("question {number}")));
        messages.push(Message::assistant(format!("answer {number}")));
    }
    messages
}

fn learned(prompt: &Prompt, conversation: &Conversation, format: &Format, policy: LossPolicy) -> Vec<String> {
    let spans = loss_spans(prompt, conversation, format, policy).unwrap();
    spans.into_iter().map(|span| prompt.text()[span].to_owned()).collect()
}

#[test]
fn the_loss_covers_what_the_model_writes_and_nothing_else() {
    for format in Registry::builtin().iter() {
        let conversation = Conversation::new(turns(format, 3));
        let prompt = render(&conversation, format, &Options::default()).unwrap();
        let spans = learned(&prompt, &conversation, format, LossPolicy::Assistant);
        assert_eq!(spans.len(), 3, "{}: {spans:?}", format.name);
        for (number, span) in spans.iter().enumerate() {
            assert!(span.contains(&format!("answer {number}")), "{}: {span:?}", format.name);
            assert!(!span.contains("question") && !span.contains("system text"), "{}: {span:?}", format.name);
        }
        let last = learned(&prompt, &conversation, format, LossPolicy::Last);
        assert_eq!(last, spans[2..], "{}", format.name);
        assert_eq!(learned(&prompt, &conversation, format, LossPolicy::All), [prompt.text()], "{}", format.name);
    }
}

/// The generation prompt and the loss of a first answer are what the engine is given and what it writes.
#[test]
fn the_generation_prompt_and_the_loss_meet() {
    for format in Registry::builtin().iter() {
        let messages = turns(format, 1);
        let asked = Conversation::new(messages[..messages.len() - 1].to_vec());
        let given = render(&asked, format, &Options::default()).unwrap();
        let conversation = Conversation::new(messages);
        let prompt = render(&conversation, format, &Options::default()).unwrap();
        let spans = loss_spans(&prompt, &conversation, format, LossPolicy::Assistant).unwrap();
        assert_eq!(spans[0].start, given.text().len(), "{}: {:?}", format.name, prompt.text());
    }
}

#[test]
fn a_message_may_carry_no_loss() {
    let registry = Registry::builtin();
    let format = registry.get("chatml").unwrap();
    for (key, value) in [("weight", Json::from(0)), ("loss", Json::from(false))] {
        let mut silent = object! { "role" => "assistant", "content" => "quiet" };
        silent.insert(key, value);
        let messages = vec![
            Message::user("a"),
            Message::from_object(silent).unwrap(),
            Message::user("b"),
            Message::assistant("loud"),
        ];
        let conversation = Conversation::new(messages);
        let prompt = render(&conversation, format, &Options::default()).unwrap();
        assert_eq!(learned(&prompt, &conversation, format, LossPolicy::Assistant), ["loud<|im_end|>"], "{key}");
        let all = learned(&prompt, &conversation, format, LossPolicy::All).concat();
        assert!(!all.contains("quiet") && all.contains("loud"), "{key}: {all}");
    }
}

#[test]
fn no_loss_at_all_is_an_error() {
    let registry = Registry::builtin();
    let format = registry.get("chatml").unwrap();
    let conversation = Conversation::new(vec![Message::user("a")]);
    let prompt = render(&conversation, format, &Options::default()).unwrap();
    let error = loss_spans(&prompt, &conversation, format, LossPolicy::Assistant).unwrap_err();
    assert_eq!(error.code(), "no_loss");
}

#[test]
fn a_family_whose_turns_end_with_the_next_role_learns_that_token() {
    let registry = Registry::builtin();
    let format = registry.get("chatglm3").unwrap();
    let messages = vec![Message::user("q"), Message::assistant("a"), Message::user("r"), Message::assistant("b")];
    let conversation = Conversation::new(messages);
    let prompt = render(&conversation, format, &Options::default()).unwrap();
    assert_eq!(learned(&prompt, &conversation, format, LossPolicy::Assistant), ["\na<|user|>", "\nb"]);
}

#[test]
fn the_spelling_of_control_tokens_does_not_move_the_loss() {
    let registry = Registry::builtin();
    let format = registry.get("internlm2").unwrap();
    let options = Options { choices: vec![("spelling".into(), "unused_token".into())], ..Options::default() };
    let conversation = Conversation::new(vec![Message::user("q"), Message::assistant("a")]);
    let prompt = render(&conversation, format, &options).unwrap();
    assert_eq!(learned(&prompt, &conversation, format, LossPolicy::Assistant), ["a[UNUSED_TOKEN_145]"]);
}

#[test]
fn a_prompt_and_what_is_new_join_to_the_whole() {
    for format in Registry::builtin().iter() {
        let messages = turns(format, 4);
        let options = Options::default();
        let whole = render(&Conversation::new(messages.clone()), format, &options).unwrap();
        for seen in 2..messages.len() {
            let before = Conversation::new(messages[..seen].to_vec());
            let before = render(&before, format, &options).unwrap();
            let conversation = Conversation::new(messages.clone());
            match extend(&conversation, &before, format, &options) {
                Ok(new) => {
                    assert_eq!(format!("{}{}", before.text(), new.text()), whole.text(), "{} {seen}", format.name);
                    let joined: String = new.segments().map(|segment| segment.text).collect();
                    assert_eq!(joined, new.text(), "{} {seen}", format.name);
                    let turns = new.turns();
                    assert!(turns.windows(2).all(|pair| pair[0].start < pair[1].start), "{} {turns:?}", format.name);
                    assert_eq!(turns.first().map(|turn| turn.start), Some(0), "{} {seen}", format.name);
                }
                // A closing text that only a finished prompt has is not how the longer one goes on.
                Err(error) => {
                    assert!(format.layout(Slot::End).is_some(), "{} {seen}: {error}", format.name);
                    assert_eq!(error.code(), "rewritten", "{} {seen}", format.name);
                }
            }
        }
    }
}
