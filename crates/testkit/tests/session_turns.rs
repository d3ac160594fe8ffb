//! Where the next turn of a session begins, in templates that make this hard to tell.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use crate::session_common::{THINKS, ids, messages, model, request, text, toy};
use rolecall::Model;
use rolecall::session::{Finish, Keep, OnRewrite, Session};
use rolecall::template::ModelTemplates;
use rolecall_testkit::Toy;

/// Asks a question and takes a reply.
fn asked(source: &str, reply: &str) -> Session {
    let mut session = model(source).session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap();
    session.open().unwrap();
    session.accept(&ids(reply), Finish::Stop).unwrap();
    session
}

#[test]
fn forks_have_the_ids_before_them_in_common() {
    let source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}\
                  {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let session = asked(source, "b<|im_end|>");
    let fork = |question: &str| {
        let mut fork = session.clone();
        let new = messages(&format!(r#"[{{"role": "user", "content": "{question}"}}]"#));
        let plan = fork.plan(&new).unwrap();
        fork.append(plan, OnRewrite::Refuse).unwrap();
        fork.open().unwrap();
        fork
    };
    let (one, other) = (fork("c"), fork("d"));
    assert_eq!(one.common_ids(&session), session.len());
    assert_eq!(one.common_ids(&other), session.len());
    assert_eq!(one.common_ids(&one), one.len());
    assert_eq!(one.ids_from(session.len()), ids("<|im_start|>user\nc<|im_end|><|im_start|>assistant\n"));
    assert!(one.ids_from(one.len() + 1).is_empty());
    // Nothing is known of a session with a beginning of its own.
    assert_eq!(one.common_ids(&asked(source, "b<|im_end|>")), 0);
}

#[test]
fn white_space_before_the_next_turn_is_sent() {
    let source = "{% for m in messages %}{% if m.role == 'user' %} <|im_start|>{{ m.content }}<|im_end|>\
                  {% else %}{{ m.content }}{% endif %}{% endfor %}";
    let mut session = asked(source, "b");
    let plan = session.plan(&messages(r#"[{"role": "user", "content": "c"}]"#)).unwrap();
    session.append(plan, OnRewrite::Refuse).unwrap();
    assert_eq!(session.open().unwrap().ids, ids(" <|im_start|>c<|im_end|>"));
    assert!(session.difference().unwrap().gaps.is_empty());
}

#[test]
fn a_reply_that_the_template_leaves_out_is_a_rewrite() {
    let source = "{% for m in messages %}{% if m.content %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
                  {% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let mut session = asked(source, "<|im_end|>");
    let plan = session.plan(&messages(r#"[{"role": "user", "content": ""}]"#)).unwrap();
    assert!(!plan.is_stable());
    assert!(session.append(plan.clone(), OnRewrite::Refuse).is_err());
    session.append(plan, OnRewrite::Keep).unwrap();
    assert_eq!(session.open().unwrap().ids, ids("<|im_start|>assistant\n"));
}

#[test]
fn a_session_is_restored_after_a_rewrite_that_moves_a_message_forward() {
    let source = "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}\
                  {% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}";
    let mut session = asked(source, "b<|im_end|>");
    let late = messages(r#"[{"role": "system", "content": "late"}, {"role": "user", "content": "c"}]"#);
    let plan = session.plan(&late).unwrap();
    session.append(plan, OnRewrite::Rewrite).unwrap();
    let mut restored = model(source).restore_session(&session.save().unwrap()).unwrap();
    assert_eq!(restored.open().unwrap().ids, session.open().unwrap().ids);
    assert!(text(&session).starts_with("late<|im_start|>user\na<|im_end|>"));
}

#[test]
fn a_rewrite_that_was_kept_is_not_planned_again() {
    let mut session = asked(THINKS, "<think>\nhm\n</think>\n\nb<|im_end|>");
    let plan = session.plan(&messages(r#"[{"role": "user", "content": "c"}]"#)).unwrap();
    assert!(!plan.is_stable());
    session.append(plan, OnRewrite::Keep).unwrap();
    let plan = session.plan(&messages(r#"[{"role": "user", "content": "d"}]"#)).unwrap();
    assert!(plan.is_stable(), "{:?}", plan.rewrite());
    session.append(plan, OnRewrite::Refuse).unwrap();
    let new = session.open().unwrap().ids;
    assert_eq!(new, ids("\n<|im_start|>user\nc<|im_end|>\n<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n"));
}

#[test]
fn a_change_before_the_first_reply_is_one_gap() {
    let source = "<|im_start|>system\n{% if messages | length > 2 %}long{% else %}short{% endif %}<|im_end|>\n\
                  {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                  {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let mut session = asked(source, "b<|end|>");
    let plan = session.plan(&messages(r#"[{"role": "user", "content": "c"}]"#)).unwrap();
    session.append(plan, OnRewrite::Keep).unwrap();
    session.open().unwrap();
    let found = session.difference().unwrap();
    let gaps: Vec<_> =
        found.gaps.iter().map(|gap| (gap.code(), gap.session.as_str(), gap.stock.as_str(), gap.byte)).collect();
    let reply = found.stock.find("b<|im_end|>").unwrap() + "b<|".len();
    let opening = "<|im_start|>system\n".len();
    assert_eq!(gaps, [("opening", "short", "long", opening), ("reply", "", "im_", reply)]);
    assert!(text(&session).starts_with("<|im_start|>system\nshort<|im_end|>"));
}

/// Some templates write a line break between a reply and the token that ends it. A finished reply
/// has it among the sampled ids, and nobody knows whether the model would have written it after a
/// reply that was cut, so only the token is written. `renderers` bridges a cut reply of such a
/// template in the same way (op `bridge`, completion `cut`: the first id is the token).
#[test]
fn a_cut_reply_is_closed_by_the_token_alone() {
    let source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\n<|im_end|>\n{% endfor %}\
                  {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let mut session = model(source).session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap();
    session.open().unwrap();
    session.accept(&ids("b"), Finish::Length).unwrap();
    assert_eq!(session.close().unwrap().ids, ids("<|im_end|>"));
    let plan = session.plan(&messages(r#"[{"role": "user", "content": "c"}]"#)).unwrap();
    session.append(plan, OnRewrite::Refuse).unwrap();
    let new = "\n<|im_start|>user\nc\n<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(session.open().unwrap().ids, ids(new));
    let gaps = session.difference().unwrap().gaps;
    let gaps: Vec<_> = gaps.iter().map(|gap| (gap.session.as_str(), gap.stock.as_str())).collect();
    assert_eq!(gaps, [("", "\n")]);
}

#[test]
fn a_closer_of_several_ids_has_its_text_once() {
    let source = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}";
    let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
    templates.set_token("eos_token", "｜é｜".into());
    let model = Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy())).open().unwrap();
    let mut session = model.session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap();
    session.open().unwrap();
    session.accept(&ids("b"), Finish::Length).unwrap();
    let delta = session.close().unwrap();
    let bytes: Vec<u32> = "｜é｜".bytes().map(|byte| Toy::BYTES + u32::from(byte)).collect();
    assert_eq!(delta.ids, bytes);
    assert_eq!(text(&session), "a｜é｜b｜é｜");
    assert!(session.difference().unwrap().gaps.is_empty());
}

#[test]
fn reasoning_that_is_left_open_is_closed_before_the_turn() {
    let mut session = asked(THINKS, "<think>\nhm");
    assert!(session.reply().is_some_and(|reply| reply.in_reasoning && reply.is_unfinished));
    assert_eq!(session.close().unwrap().ids, ids("</think><|im_end|>"));
}

#[test]
fn notes_about_rewritten_ids_are_dropped() {
    let codes = |session: &Session| session.breaks().iter().map(|found| found.code()).collect::<Vec<_>>();
    let mut session = asked(THINKS, "<think>\nhm<|im_end|>");
    assert_eq!(codes(&session), ["stop_in_reasoning"]);
    let plan = session.plan(&messages(r#"[{"role": "user", "content": "c"}]"#)).unwrap();
    assert!(!plan.is_stable());
    session.append(plan, OnRewrite::Rewrite).unwrap();
    assert_eq!(codes(&session), ["rewritten"]);
}

#[test]
fn truncation_keeps_a_closed_reply_closed() {
    let mut session = asked(THINKS, "b<|im_end|>");
    let plan = session.plan(&messages(r#"[{"role": "user", "content": "c"}]"#)).unwrap();
    session.append(plan, OnRewrite::Refuse).unwrap();
    session.open().unwrap();
    session.accept(&ids("half"), Finish::Length).unwrap();
    session.close().unwrap();
    session.truncate(Keep::Turns(1)).unwrap();
    assert_eq!(text(&session), "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\nhalf<|im_end|>");
    assert!(session.close().unwrap().ids.is_empty());
}

/// Searches for the last question from the end on, and writes the reasoning of the replies after it.
const SEARCHES: &str = "{% set ns = namespace(last=0, searches=true) %}{% for m in messages[::-1] %}\
    {% set index = (messages|length - 1) - loop.index0 %}\
    {% if ns.searches and m.role == 'user' %}{% set ns.searches = false %}{% set ns.last = index %}{% endif %}\
    {% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}\n\
    {% if m.role == 'assistant' and loop.index0 > ns.last %}r{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\nr{% endif %}";

#[test]
fn a_chain_of_results_that_is_searched_for_its_question_is_not_rendered_whole() {
    let mut session = model(SEARCHES).session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap();
    session.open().unwrap();
    let next = |session: &mut Session, role: &str, on: OnRewrite| {
        session.accept(&ids("b<|im_end|>"), Finish::Stop).unwrap();
        let plan = session.plan(&messages(&format!(r#"[{{"role": "{role}", "content": "c"}}]"#))).unwrap();
        session.append(plan, on).unwrap();
        session.open().unwrap().proof.code()
    };
    for _ in 0..100 {
        assert_eq!(next(&mut session, "tool", OnRewrite::Refuse), "growth");
    }
    assert!(session.difference().unwrap().gaps.is_empty());
    // Another question takes back the reasoning of the whole chain, and begins another one.
    assert_eq!(next(&mut session, "user", OnRewrite::Rewrite), "whole");
    for _ in 0..100 {
        assert_eq!(next(&mut session, "tool", OnRewrite::Refuse), "growth");
    }
    assert!(session.difference().unwrap().gaps.is_empty());
}
