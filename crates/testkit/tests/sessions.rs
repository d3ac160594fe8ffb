//! Sessions: what a rollout weighs, how a session differs from the stock rendering, truncation, and
//! imported conversations.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use crate::session_common::{PLAIN, THINKS, contents, empty, ids, long, messages, model, request, text, turn};
use rolecall::Model;
use rolecall::conversation::{Message, Role};
use rolecall::loss::{LossPolicy, LossTurns, RoleLoss};
use rolecall::session::{Author, Finish, GapPart, Keep, OnRewrite, Seams, SegmentPart, Session};
use rolecall::template::ModelTemplates;
use rolecall_testkit::Toy;

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
    let after = rollout.segments.iter().find(|segment| segment.part == SegmentPart::AfterStop).unwrap();
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

/// A model whose tokenizer merges the `n` of the generation prompt and that of the reply.
fn merging() -> Model {
    let json = br#"{"added_tokens": [], "model": {"type": "BPE",
        "vocab": {"a": 0, "b": 1, "|": 2, ">": 3, "n": 4, "nn": 5}, "merges": ["n n"]}}"#;
    let source = "{% for m in messages %}>n{{ m.content }}|{% endfor %}{% if add_generation_prompt %}>n{% endif %}";
    let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
    templates.set_token("eos_token", "|".into());
    let tokenizer = Arc::new(rolecall::tokenizer::HuggingFace::from_bytes(json, None).unwrap());
    Model::builder().templates(templates).loaded_tokenizer(tokenizer).open().unwrap()
}

#[test]
fn the_same_text_with_other_ids_is_told_apart() {
    let model = merging();
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

#[test]
fn a_gap_has_whole_characters() {
    // The last bytes of `\u{e9}` and `\u{169}` are the same, and so are the first of `\u{e9}` and `\u{e8}`.
    for written in ["\u{169}", "\u{e8}"] {
        let model = model(&PLAIN.replace("m.content", &format!("m.content | replace('\u{e9}', '{written}')")));
        let mut session = empty(&model);
        turn(&mut session, "u", "a\u{e9}b<|im_end|>", Finish::Stop);
        let found = session.difference().unwrap();
        let [gap] = found.gaps.as_slice() else { panic!("{found:?}") };
        assert_eq!((gap.session.as_str(), gap.stock.as_str()), ("\u{e9}", written));
    }
}

#[test]
fn truncation_keeps_the_system_message_and_the_last_turns() {
    let model = model(PLAIN);
    let mut session = long(&model, 4);
    let before = session.ids();
    let cut = session.truncate(Keep::Turns(2)).unwrap();
    assert_eq!(contents(&session), ["S", "u2", "a2", "u3", "a3"]);
    assert_eq!((cut.dropped.clone(), cut.before, cut.after), (1..5, before.len(), session.len()));
    // What stays is what a session with only these messages would have.
    let mut fresh = model.session(request(r#"[{"role": "system", "content": "S"}]"#)).unwrap();
    turn(&mut fresh, "u2", "a2<|im_end|>", Finish::Stop);
    turn(&mut fresh, "u3", "a3<|im_end|>", Finish::Stop);
    assert_eq!((session.ids(), session.segments()), (fresh.ids(), fresh.segments()));
    // The delta leads from the old ids to the new ones.
    let mut applied = before[..cut.delta.keep].to_vec();
    applied.extend(&cut.delta.ids);
    assert_eq!(applied, session.ids());
    assert_eq!(before[..cut.delta.keep], session.ids()[..cut.delta.keep]);
    let covered: Vec<usize> = cut.delta.segments.iter().flat_map(|segment| segment.ids.clone()).collect();
    assert_eq!(covered, (cut.delta.keep..session.len()).collect::<Vec<_>>());
    assert_eq!(session.branches().collect::<Vec<_>>(), [before]);
    assert_eq!(cut.delta.notes.iter().map(|note| note.code()).collect::<Vec<_>>(), ["truncated"]);
    // It goes on as usual.
    turn(&mut session, "u4", "a4<|im_end|>", Finish::Stop);
    turn(&mut fresh, "u4", "a4<|im_end|>", Finish::Stop);
    assert_eq!((session.ids(), text(&session)), (fresh.ids(), text(&fresh)));
    assert!(session.difference().unwrap().gaps.is_empty());
}

#[test]
fn truncation_to_a_number_of_ids_drops_no_more_turns_than_needed() {
    let model = model(PLAIN);
    let session = long(&model, 6);
    let mut sizes = vec![session.len()];
    for turns in (1..6).rev() {
        let mut fork = session.clone();
        fork.truncate(Keep::Turns(turns)).unwrap();
        sizes.push(fork.len());
    }
    for (dropped, size) in sizes.iter().enumerate() {
        for most in [*size, size + 1] {
            let mut fork = session.clone();
            let cut = fork.truncate(Keep::Ids(most)).unwrap();
            assert_eq!((fork.len(), cut.dropped.len()), (*size, 2 * dropped), "{most}");
        }
    }
    let mut fork = session.clone();
    let error = fork.truncate(Keep::Ids(sizes[5] - 1)).unwrap_err();
    assert_eq!(error.code(), "too_long");
    assert!(error.to_string().contains(&sizes[5].to_string()), "{error}");
    assert_eq!((fork.ids(), fork.messages().len()), (session.ids(), 13));
    // Keeping everything changes nothing.
    let cut = fork.truncate(Keep::Turns(9)).unwrap();
    assert!(cut.dropped.is_empty() && cut.delta.ids.is_empty() && cut.delta.keep == session.len());
    assert_eq!(fork.branches().count(), 0);
}

#[test]
fn truncation_keeps_odd_ids_unfinished_replies_and_pending_messages() {
    let model = model(PLAIN);
    let mut session = long(&model, 2);
    let odd = [ids("x"), vec![Toy::BYTES + 0xff], ids("<|im_end|>zz")].concat();
    let plan = session.plan(&[Message::user("odd")]).unwrap();
    session.append(plan, OnRewrite::Refuse).unwrap();
    session.open().unwrap();
    session.accept(&odd, Finish::Stop).unwrap();
    turn(&mut session, "cut", "half", Finish::Length);
    let mut fork = session.clone();
    fork.truncate(Keep::Turns(2)).unwrap();
    assert_eq!(contents(&fork).len(), 5);
    assert_eq!(fork.messages()[2..], session.messages()[6..]);
    let sampled = |session: &Session| -> Vec<u32> {
        let ids = session.ids();
        let own = session.segments().into_iter().filter(|segment| segment.author == Author::Sampled);
        own.flat_map(|segment| ids[segment.ids].to_vec()).collect()
    };
    assert!(sampled(&session).ends_with(&sampled(&fork)));
    assert_eq!(sampled(&fork), [odd, ids("half")].concat());
    assert!(fork.reply().is_some_and(|reply| reply.is_unfinished));
    let breaks: Vec<&str> = fork.breaks().iter().map(|found| found.code()).collect();
    assert!(breaks.contains(&"after_stop") && breaks.contains(&"truncated"), "{breaks:?}");
    assert_eq!(fork.close().unwrap().ids, session.close().unwrap().ids);
    let plan = fork.plan(&[Message::user("more")]).unwrap();
    fork.append(plan, OnRewrite::Refuse).unwrap();
    let cut = fork.truncate(Keep::Turns(1)).unwrap();
    assert_eq!((contents(&fork), fork.len(), cut.after), (vec!["S".to_owned(), "more".to_owned()], 0, 0));
    fork.open().unwrap();
    assert_eq!(fork.truncate(Keep::Turns(1)).unwrap_err().code(), "awaits_reply");
    assert!(text(&fork).ends_with("more<|im_end|>\n<|im_start|>assistant\n"));
}

#[test]
fn calls_stay_with_their_results() {
    let model = model(PLAIN);
    let mut session = long(&model, 1);
    turn(&mut session, "weather?", "call<|im_end|>", Finish::Stop);
    let plan = session.plan(&messages(r#"[{"role": "tool", "content": "sunny"}]"#)).unwrap();
    session.append(plan, OnRewrite::Refuse).unwrap();
    session.open().unwrap();
    session.accept(&ids("It is sunny<|im_end|>"), Finish::Stop).unwrap();
    session.truncate(Keep::Turns(1)).unwrap();
    assert_eq!(contents(&session), ["S", "weather?", "call", "sunny", "It is sunny"]);
}

#[test]
fn a_reply_that_is_now_written_in_another_way_is_kept_and_reported() {
    // The template marks the first reply of a conversation.
    let source = "\
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content }}{% if m.role == 'assistant' and loop.index0 == 1 %}!{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}";
    let model = model(source);
    let mut session = empty(&model);
    turn(&mut session, "u0", "a0!<|im_end|>", Finish::Stop);
    turn(&mut session, "u1", "a1<|im_end|>", Finish::Stop);
    turn(&mut session, "u2", "a2<|im_end|>", Finish::Stop);
    let cut = session.truncate(Keep::Turns(2)).unwrap();
    assert!(text(&session).contains("a1<|im_end|>"));
    let codes: Vec<&str> = cut.delta.notes.iter().map(|note| note.code()).collect();
    assert!(codes.contains(&"differs") || codes.contains(&"kept"), "{codes:?}");
}

#[test]
fn an_imported_conversation_has_the_ids_that_its_seams_say() {
    let model = merging();
    let finished = r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "nb"}]"#;
    let live = model.import_session(request(finished), Seams::Live).unwrap();
    let whole = model.import_session(request(finished), Seams::Whole).unwrap();
    assert_eq!(live.ids(), [3, 4, 0, 2, 3, 4, 4, 1, 2]);
    assert_eq!(whole.ids(), [3, 4, 0, 2, 3, 5, 1, 2]);
    assert!(whole.difference().unwrap().has_stock_ids);
    assert_eq!(live.difference().unwrap().gaps.len(), 1);
    let weights = |session: &Session| session.rollout(&LossPolicy::assistant()).unwrap().weights;
    assert_eq!(weights(&live), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    // An id that covers a part of the reply belongs to it.
    assert_eq!(weights(&whole), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    assert!(live.segments().iter().all(|segment| segment.author != Author::Sampled));
    for mut session in [live, whole] {
        let before = session.len();
        let plan = session.plan(&[Message::user("b")]).unwrap();
        assert!(plan.is_stable());
        session.append(plan, OnRewrite::Refuse).unwrap();
        let delta = session.open().unwrap();
        assert_eq!((delta.keep, delta.ids), (before, vec![3, 4, 1, 2, 3, 4]));
    }
}

#[test]
fn an_imported_conversation_goes_on_and_is_truncated() {
    let model = model(THINKS);
    let text = r#"[{"role": "system", "content": "S"}, {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning_content": "hm"}, {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d", "reasoning_content": "oh"}, {"role": "user", "content": "e"}]"#;
    let mut session = model.import_session(request(text), Seams::Live).unwrap();
    assert_eq!(session.messages().len(), 6);
    let rendered = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n\
        <|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\nd<|im_end|>";
    assert_eq!(crate::session_common::text(&session), rendered);
    assert_eq!(weighed(&session, &LossPolicy::assistant()), "b<|im_end|>d<|im_end|>");
    session.open().unwrap();
    session.accept(&ids("f<|im_end|>"), Finish::Stop).unwrap();
    assert_eq!(weighed(&session, &LossPolicy::last()), "f<|im_end|>");
    session.truncate(Keep::Turns(2)).unwrap();
    assert_eq!(contents(&session), ["S", "c", "d", "e", "f"]);
    // Truncation does not change who wrote a reply.
    let authors = |message: usize| -> Vec<Author> {
        let own = session.segments().into_iter().filter(|segment| segment.message == Some(message));
        own.map(|segment| segment.author).collect()
    };
    assert!(authors(2).contains(&Author::Caller) && !authors(2).contains(&Author::Sampled), "{:?}", authors(2));
    assert!(authors(4).contains(&Author::Sampled), "{:?}", authors(4));
    assert_eq!(
        weighed(&session, &LossPolicy::assistant()).replace("<think>\noh\n</think>\n\n", ""),
        "d<|im_end|>f<|im_end|>"
    );
    turn(&mut session, "g", "h<|im_end|>", Finish::Stop);
    session.truncate(Keep::Turns(1)).unwrap();
    assert_eq!(weighed(&session, &LossPolicy::assistant()), "h<|im_end|>");
}
