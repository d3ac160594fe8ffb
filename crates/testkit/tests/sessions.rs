//! Sessions: what a rollout weighs, how a session differs from the stock rendering, truncation, and
//! saving and restoring.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall::conversation::{Conversation, Message, Role, json};
use rolecall::loss::{LossPolicy, LossTurns, RoleLoss};
use rolecall::session::{Author, Finish, GapPart, OnRewrite, Part, Session};
use rolecall::template::ModelTemplates;
use rolecall::{Model, Request};
use rolecall_testkit::Toy;

/// A template like many: reasoning is written only after the last user message.
const THINKS: &str = "\
{%- set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and m.reasoning_content and loop.index0 > ns.last %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}";

fn toy() -> Toy {
    let registry = rolecall::format::registry();
    Toy::of(registry.get("chatml").unwrap()).with("<think>").with("</think>").with("<|end|>")
}

fn model(source: &str) -> Model {
    let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
    templates.set_token("eos_token", "<|im_end|>".into());
    Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy())).open().unwrap()
}

fn request(messages: &str) -> Request {
    Request::from_text(&format!("{{\"messages\": {messages}}}")).unwrap()
}

/// Begins a session without messages.
fn empty(model: &Model) -> Session {
    let mut request = request(r#"[{"role": "user", "content": ""}]"#);
    request.conversation.messages.clear();
    model.session(request).unwrap()
}

fn messages(text: &str) -> Vec<Message> {
    Conversation::from_json(json::parse(&format!("{{\"messages\": {text}}}")).unwrap()).unwrap().messages
}

/// Returns the ids of a text in which markers are control tokens.
fn ids(text: &str) -> Vec<u32> {
    let toy = toy();
    let mut ids = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let markers = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|end|>"];
        match markers.into_iter().find(|marker| rest.starts_with(marker)) {
            Some(marker) => {
                ids.push(rolecall::tokenizer::Tokenizer::token_id(&toy, marker).unwrap());
                rest = &rest[marker.len()..];
            }
            None => {
                ids.push(Toy::BYTES + u32::from(rest.as_bytes()[0]));
                rest = &rest[1..];
            }
        }
    }
    ids
}

/// Says what the user says, and takes the reply.
fn turn(session: &mut Session, user: &str, reply: &str, finish: Finish) {
    let new = [Message::user(user)];
    let plan = session.plan(&new).unwrap();
    session.append(plan, OnRewrite::Keep).unwrap();
    session.open().unwrap();
    session.accept(&ids(reply), finish).unwrap();
}

/// Returns the text with weight, in brackets where the weight is not 1.
fn weighed(session: &Session, policy: &LossPolicy) -> String {
    let rollout = session.rollout(policy).unwrap();
    assert_eq!(rollout.ids, session.ids());
    assert_eq!(rollout.weights.len(), rollout.ids.len());
    let covered: Vec<usize> = rollout.segments.iter().flat_map(|segment| segment.ids.clone()).collect();
    assert_eq!(covered, (0..rollout.ids.len()).collect::<Vec<_>>());
    for segment in &rollout.segments {
        assert!(rollout.weights[segment.ids.clone()].iter().all(|weight| *weight == segment.weight));
    }
    let mut text = String::new();
    let mut at = 0;
    for same in rollout.weights.chunk_by(|one, other| one == other) {
        let own = String::from_utf8(session.bytes_of(at..at + same.len())).unwrap();
        at += same.len();
        match same[0] {
            0.0 => {}
            1.0 => text.push_str(&own),
            weight => text.push_str(&format!("[{weight} {own}]")),
        }
    }
    text
}

#[test]
fn a_rollout_weighs_what_the_model_sampled() {
    let model = model(THINKS);
    let mut session = model.session(request(r#"[{"role": "system", "content": "S"}]"#)).unwrap();
    turn(&mut session, "a", "<think>\nhm\n</think>\n\nb<|im_end|>", Finish::Stop);
    turn(&mut session, "c", "d<|im_end|>", Finish::Stop);
    let all = "<think>\nhm\n</think>\n\nb<|im_end|>d<|im_end|>";
    assert_eq!(weighed(&session, &LossPolicy::assistant()), all);
    assert_eq!(weighed(&session, &LossPolicy::last()), "d<|im_end|>");
    let mut policy = LossPolicy::assistant();
    policy.weights.reasoning = 0.5;
    policy.weights.closer = 2.0;
    assert_eq!(weighed(&session, &policy), "[0.5 <think>\nhm\n</think>\n\n]b[2 <|im_end|>]d[2 <|im_end|>]");
    let mut policy = LossPolicy::assistant();
    policy.roles = vec![RoleLoss { role: Role::User, whole_turn: false, weight: 0.25 }];
    assert_eq!(weighed(&session, &policy), "[0.25 a]<think>\nhm\n</think>\n\nb<|im_end|>[0.25 c]d<|im_end|>");
    let whole = String::from_utf8(session.bytes()).unwrap();
    assert_eq!(weighed(&session, &LossPolicy::all()), whole);
    let mut tagged = LossPolicy::assistant();
    tagged.tagged = true;
    assert_eq!(session.rollout(&tagged).unwrap_err().code(), "no_tags");
    assert_eq!(session.rollout(&LossPolicy::chosen()).unwrap_err().code(), "no_loss");
    let mut empty = LossPolicy::chosen();
    empty.allow_empty = true;
    assert!(session.rollout(&empty).unwrap().weights.iter().all(|weight| *weight == 0.0));
    let mut bad = LossPolicy::assistant();
    bad.weights.calls = f32::NAN;
    assert_eq!(session.rollout(&bad).unwrap_err().code(), "bad_weight");
}

#[test]
fn a_message_of_the_caller_carries_loss_if_it_asks_for_it() {
    let model = model(THINKS);
    let text = r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0.5},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"},
        {"role": "user", "content": "e"}]"#;
    let mut session = model.session(request(text)).unwrap();
    session.open().unwrap();
    assert_eq!(weighed(&session, &LossPolicy::assistant()), "[0.5 b<|im_end|>]");
    session.accept(&ids("f<|im_end|>"), Finish::Stop).unwrap();
    assert_eq!(weighed(&session, &LossPolicy::assistant()), "[0.5 b<|im_end|>]f<|im_end|>");
    assert_eq!(weighed(&session, &LossPolicy::last()), "f<|im_end|>");
    let mut chosen = LossPolicy::chosen();
    chosen.turns = LossTurns::Chosen;
    assert_eq!(weighed(&session, &chosen), "[0.5 b<|im_end|>]");
}

#[test]
fn a_rollout_names_where_the_session_left_the_stock_rendering() {
    let model = model(THINKS);
    let mut session = empty(&model);
    turn(&mut session, "a", "<think>\nhm\n</think>\n\nb<|im_end|>", Finish::Stop);
    let first = session.len();
    turn(&mut session, "c", "d<|im_end|>xy", Finish::Stop);
    let second = session.len();
    turn(&mut session, "e", "f", Finish::Length);
    session.close().unwrap();
    let rollout = session.rollout(&LossPolicy::assistant()).unwrap();
    let breaks: Vec<(usize, &str)> = rollout.breaks.iter().map(|found| (found.id, found.code())).collect();
    let think = ids("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n").len();
    assert_eq!(breaks, [(think, "kept"), (second - 2, "after_stop"), (session.len() - 1, "closed")]);
    assert!(first < second);
    assert_eq!(rollout.notes.len(), 1, "{:?}", rollout.notes);
    let after = rollout.segments.iter().find(|segment| segment.part == Part::AfterStop).unwrap();
    assert_eq!((after.author, after.weight), (Author::Sampled, 0.0));
    let closing = rollout.segments.last().unwrap();
    assert_eq!((closing.author, closing.weight), (Author::Closing, 0.0));
    assert_eq!(weighed(&session, &LossPolicy::last()), "f");
}

#[test]
fn rewritten_replies_are_no_longer_sampled() {
    let model = model(THINKS);
    let mut session = model.session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap();
    session.open().unwrap();
    session.accept(&ids("<think>\nhm\n</think>\n\nb<|im_end|>"), Finish::Stop).unwrap();
    let fork = session.clone();
    let plan = session.plan(&messages(r#"[{"role": "user", "content": "c"}]"#)).unwrap();
    assert!(!plan.is_stable());
    session.append(plan, OnRewrite::Rewrite).unwrap();
    session.open().unwrap();
    session.accept(&ids("d<|im_end|>"), Finish::Stop).unwrap();
    assert_eq!(weighed(&session, &LossPolicy::assistant()), "d<|im_end|>");
    assert_eq!(session.breaks().iter().map(|found| found.code()).collect::<Vec<_>>(), ["rewritten"]);
    assert!(session.difference().unwrap().gaps.is_empty());
    assert_eq!(session.branches().next().unwrap(), fork.ids());
    assert_eq!(weighed(&fork, &LossPolicy::assistant()), "<think>\nhm\n</think>\n\nb<|im_end|>");
    assert!(fork.breaks().is_empty());
}

#[test]
fn a_difference_shows_what_the_stock_rendering_writes_instead() {
    let model = model(THINKS);
    let mut session = empty(&model);
    assert!(session.difference().unwrap().gaps.is_empty());
    turn(&mut session, "a", "<think>\nhm\n</think>\n\nb<|im_end|>", Finish::Stop);
    let same = session.difference().unwrap();
    assert!(same.gaps.is_empty() && same.has_stock_ids, "{same:?}");
    turn(&mut session, "c", "<think>hm</think>d<|end|>", Finish::Stop);
    let found = session.difference().unwrap();
    assert!(!found.has_stock_ids && !found.has_stock_text());
    let told: Vec<_> = found
        .gaps
        .iter()
        .map(|gap| (gap.code(), gap.message, gap.session.as_str(), gap.stock.as_str(), gap.ids, gap.stock_ids))
        .collect();
    let first = "<think>\nhm\n</think>\n\n";
    assert_eq!(told[0], ("reply", Some(1), first, "", ids(first).len(), 0), "{told:?}");
    assert_eq!(told[1].0, "reply");
    assert_eq!(told[1].1, Some(3));
    assert_eq!(found.gaps[0].id, ids("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n").len());
    let opened = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n".len();
    assert_eq!(found.gaps[0].byte, opened);
    assert_eq!(found.gaps[0].part, GapPart::Reply);
}

#[test]
fn the_same_text_with_other_ids_is_told_apart() {
    // The tokenizer merges the line feed of the generation prompt and that of the reply.
    let json = br#"{"added_tokens": [], "model": {"type": "BPE",
        "vocab": {"a": 0, "b": 1, "|": 2, ">": 3, "n": 4, "nn": 5}, "merges": ["n n"]}}"#;
    let source = "{% for m in messages %}>n{{ m.content }}|{% endfor %}{% if add_generation_prompt %}>n{% endif %}";
    let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
    templates.set_token("eos_token", "|".into());
    let tokenizer = Arc::new(rolecall::tokenizer::HuggingFace::from_bytes(json, None).unwrap());
    let model = Model::builder().templates(templates).loaded_tokenizer(tokenizer).open().unwrap();
    let mut session = model.session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap();
    session.open().unwrap();
    session.accept(&[4, 1, 2], Finish::Stop).unwrap();
    assert_eq!(session.ids(), [3, 4, 0, 2, 3, 4, 4, 1, 2]);
    let found = session.difference().unwrap();
    assert!(found.has_stock_text() && !found.has_stock_ids);
    let [gap] = found.gaps.as_slice() else { panic!("{found:?}") };
    assert_eq!((gap.code(), gap.session.as_str(), gap.stock.as_str()), ("ids", "nn", "nn"));
    assert_eq!((gap.id, gap.ids, gap.stock_ids), (5, 2, 1));
}
