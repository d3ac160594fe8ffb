//! Which tokens carry loss: laws over every format, in its chat and in its training variant.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::Prompt;
use rolecall::conversation::object;
use rolecall::conversation::{Conversation, Json, Message};
use rolecall::format::{Format, Slot};
use rolecall::loss::LossPolicy;
use rolecall::render::Options;
use rolecall::render::Writer;
use rolecall_testkit::generate;

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

fn learned(prompt: &Prompt, conversation: &Conversation, format: &Format, policy: &LossPolicy) -> Vec<String> {
    let spans = Writer::format(format.clone(), Options::default())
        .loss(prompt, conversation, &[], policy)
        .map(|loss| loss.ranges())
        .unwrap();
    spans.into_iter().map(|span| prompt.text()[span].to_owned()).collect()
}

#[test]
fn the_loss_covers_what_the_model_writes_and_nothing_else() {
    for format in generate::variants(&rolecall::format::registry()) {
        let label = generate::label(format);
        let conversation = Conversation::new(turns(format, 3));
        let prompt = Writer::format(format.clone(), Options::default()).render(&conversation).unwrap();
        let spans = learned(&prompt, &conversation, format, &LossPolicy::assistant());
        assert_eq!(spans.len(), 3, "{label}: {spans:?}");
        for (number, span) in spans.iter().enumerate() {
            assert!(span.contains(&format!("answer {number}")), "{label}: {span:?}");
            assert!(!span.contains("question") && !span.contains("system text"), "{label}: {span:?}");
        }
        let last = learned(&prompt, &conversation, format, &LossPolicy::last());
        assert_eq!(last, spans[2..], "{label}");
        assert_eq!(learned(&prompt, &conversation, format, &LossPolicy::all()), [prompt.text()], "{label}");
    }
}

/// Checks that the generation prompt and the loss of a first answer are what the engine receives
/// and writes. With the rule `loss = "turn"`, the loss covers the whole turn: it begins where the
/// generation prompt begins, and includes it.
#[test]
fn the_generation_prompt_and_the_loss_meet() {
    for format in rolecall::format::registry().iter() {
        let messages = turns(format, 1);
        let asked = Conversation::new(messages[..messages.len() - 1].to_vec());
        let given = Writer::format(format.clone(), Options::default()).render(&asked).unwrap();
        let conversation = Conversation::new(messages);
        let prompt = Writer::format(format.clone(), Options::default()).render(&conversation).unwrap();
        let spans = Writer::format(format.clone(), Options::default())
            .loss(&prompt, &conversation, &[], &LossPolicy::assistant())
            .map(|loss| loss.ranges())
            .unwrap();
        let opening = given.turns().last().filter(|turn| turn.slot == Slot::Generate).map(|turn| turn.start);
        let start = match format.rules.loss.key() {
            "turn" => opening.unwrap_or(given.text().len()),
            _ => given.text().len(),
        };
        assert_eq!(spans[0].start, start, "{}: {:?}", format.name, prompt.text());
        assert!(prompt.text()[start..].starts_with(&given.text()[start..]), "{}: {:?}", format.name, prompt.text());
    }
}

/// Checks that XTuner's separator, and other text after an assistant's turn, never carries loss.
#[test]
fn what_stands_behind_an_answer_is_not_learned() {
    let mut seen = 0;
    for format in generate::variants(&rolecall::format::registry()) {
        let label = generate::label(format);
        let conversation = Conversation::new(turns(format, 2));
        let prompt = Writer::format(format.clone(), Options::default()).render(&conversation).unwrap();
        let spans = Writer::format(format.clone(), Options::default())
            .loss(&prompt, &conversation, &[], &LossPolicy::assistant())
            .map(|loss| loss.ranges())
            .unwrap();
        for (at, _) in prompt.turns().iter().enumerate().filter(|(_, turn)| turn.slot == Slot::AssistantAfter) {
            let after = prompt.turn_span(at);
            assert!(spans.iter().all(|span| span.end <= after.start || span.start >= after.end), "{label}: {spans:?}");
            seen += 1;
        }
    }
    assert!(seen > 60, "only {seen} separators were checked");
}

#[test]
fn a_message_may_carry_no_loss() {
    let registry = rolecall::format::registry();
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
        let prompt = Writer::format(format.clone(), Options::default()).render(&conversation).unwrap();
        assert_eq!(learned(&prompt, &conversation, format, &LossPolicy::assistant()), ["loud<|im_end|>"], "{key}");
        let all = learned(&prompt, &conversation, format, &LossPolicy::all()).concat();
        assert!(!all.contains("quiet") && all.contains("loud"), "{key}: {all}");
    }
}

#[test]
fn no_loss_at_all_is_an_error() {
    let registry = rolecall::format::registry();
    let format = registry.get("chatml").unwrap();
    let conversation = Conversation::new(vec![Message::user("a")]);
    let prompt = Writer::format(format.clone(), Options::default()).render(&conversation).unwrap();
    let error = Writer::format(format.clone(), Options::default())
        .loss(&prompt, &conversation, &[], &LossPolicy::assistant())
        .map(|loss| loss.ranges())
        .unwrap_err();
    assert_eq!(error.code(), "no_loss");
}

#[test]
fn a_family_whose_turns_end_with_the_next_role_learns_that_token() {
    let registry = rolecall::format::registry();
    let format = registry.get("chatglm3").unwrap();
    let messages = vec![Message::user("q"), Message::assistant("a"), Message::user("r"), Message::assistant("b")];
    let conversation = Conversation::new(messages);
    let prompt = Writer::format(format.clone(), Options::default()).render(&conversation).unwrap();
    assert_eq!(learned(&prompt, &conversation, format, &LossPolicy::assistant()), ["\na<|user|>", "\nb"]);
}

#[test]
fn the_spelling_of_control_tokens_does_not_move_the_loss() {
    let registry = rolecall::format::registry();
    let format = registry.get("internlm2").unwrap();
    let options = Options { choices: vec![("spelling".into(), "unused_token".into())], ..Options::default() };
    let conversation = Conversation::new(vec![Message::user("q"), Message::assistant("a")]);
    let prompt = Writer::format(format.clone(), options.clone()).render(&conversation).unwrap();
    assert_eq!(learned(&prompt, &conversation, format, &LossPolicy::assistant()), ["a[UNUSED_TOKEN_145]"]);
}
