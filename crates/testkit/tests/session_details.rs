//! Details of sessions: what ends a reply, calls that were cut off, what is written anew, and what
//! each id weighs.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use crate::session_common::{PLAIN, THINKS, ids, long, messages, model, request, text, toy, turn};
use rolecall::conversation::{Call, Json, Role};
use rolecall::loss::{LossPolicy, RoleLoss};
use rolecall::session::{Author, Delta, Finish, Keep, OnRewrite, Reply, SegmentPart, Session, SessionNote};
use rolecall::template::ModelTemplates;
use rolecall::tokenizer::{HuggingFace, Tokenizer as _};
use rolecall::{Model, Reading, Request, Stop};
use rolecall_testkit::Toy;

/// A template with calls.
const CALLS: &str = "\
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>{\"name\": \"{{ c.function.name }}\", \
\"arguments\": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}";

const CALL: &str = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";

/// A template that writes a token after a reply only at the start of the next turn, and whose first
/// letter depends on the number of messages.
const NEXT_ENDS: &str = "{% if messages | length > 2 %}L{% else %}S{% endif %}{% for m in messages %}\
    {% if m.role == 'user' %}<|im_end|>{{ m.content }}<|im_start|>{% else %}{{ m.content }}{% endif %}{% endfor %}";

/// The next message of the user.
const NEXT: &str = r#"[{"role": "user", "content": "c"}]"#;

/// The result of a call.
const RESULT: &str = r#"[{"role": "tool", "content": "r"}]"#;

fn with_eos(source: &str, eos: &str) -> Model {
    let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
    templates.set_token("eos_token", eos.into());
    Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy())).open().unwrap()
}

/// Asks `a` and takes a reply.
fn replied(model: &Model, reply: &[u32], finish: Finish) -> (Session, Arc<Reply>) {
    let mut session = model.session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap();
    session.open().unwrap();
    let reply = session.accept(reply, finish).unwrap();
    (session, reply)
}

fn append(session: &mut Session, new: &str, on: OnRewrite) -> Delta {
    let plan = session.plan(&messages(new)).unwrap();
    session.append(plan, on).unwrap()
}

fn codes(notes: &[SessionNote]) -> Vec<&str> {
    notes.iter().map(SessionNote::code).collect()
}

#[test]
fn a_token_that_no_file_names_stops_the_model_only_if_the_engine_says_so() {
    let model = model(PLAIN);
    let (mut session, reply) = replied(&model, &ids("b<|end|>"), Finish::Stop);
    assert_eq!((reply.stop, reply.is_unfinished), (Some(ids("<|end|>")[0]), false));
    assert!(session.close().unwrap().ids.is_empty());
    let (mut session, reply) = replied(&model, &ids("b<|end|>"), Finish::Length);
    assert_eq!((reply.stop, reply.is_unfinished), (None, true));
    assert_eq!(session.close().unwrap().ids, ids("<|im_end|>"));
}

#[test]
fn a_stop_token_ends_a_reply_that_also_reached_the_limit() {
    let broken = CALL.replace("{}", "{\"a\"") + "<|im_end|>";
    let (_, reply) = replied(&model(CALLS), &ids(&broken), Finish::Length);
    assert_eq!((codes(&reply.notes), reply.is_unfinished), (vec!["broken_call"], false));
}

#[test]
fn a_call_that_ends_without_a_stop_token_is_cut_off_even_if_the_engine_says_that_the_model_stopped() {
    let (mut session, reply) = replied(&model(CALLS), &ids("b<tool_call>{\"name\": \"f\""), Finish::Stop);
    assert_eq!((codes(&reply.notes), reply.is_unfinished), (vec!["cut_call"], true));
    assert_eq!(session.close().unwrap().ids, ids("<|im_end|>"));
}

#[test]
fn a_call_that_was_cut_off_is_in_the_message_only_if_its_result_follows() {
    let cut = "b<tool_call>{\"name\": \"f\", \"arguments\": {\"a\"";
    for (new, calls) in [(NEXT, 0), (RESULT, 1)] {
        let (mut session, _) = replied(&model(CALLS), &ids(cut), Finish::Length);
        append(&mut session, new, OnRewrite::Keep);
        assert_eq!(session.messages()[1].calls().len(), calls);
        session.open().unwrap();
        assert!(text(&session).contains(&format!("{cut}<|im_end|>\n<|im_start|>")));
    }
}

#[test]
fn a_call_before_one_that_was_cut_off_is_in_the_message() {
    let cut = format!("{CALL}<tool_call>{{\"name\": \"g\", \"arguments\": {{\"a\"");
    for (new, names) in [(NEXT, &["f"][..]), (RESULT, &["f", "g"])] {
        let (mut session, _) = replied(&model(CALLS), &ids(&cut), Finish::Length);
        append(&mut session, new, OnRewrite::Keep);
        let messages = session.messages();
        let calls = messages[1].calls().filter_map(|call| match call {
            Call::Function { name, .. } => Some(name),
            Call::CodeInterpreter { .. } => None,
        });
        assert_eq!(calls.collect::<Vec<_>>(), names);
    }
}

#[test]
fn a_call_whose_arguments_are_no_object_leaves_the_reasoning_and_the_content() {
    let thought = "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or ''";
    let source = CALLS.replace("{{ m.content or ''", thought);
    for arguments in ["[1]", "1"] {
        let text = format!("<think>hm</think>b{}<|im_end|>", CALL.replace("{}", arguments));
        let (_, reply) = replied(&model(&source), &ids(&text), Finish::Stop);
        assert_eq!(reply.reading.calls.len(), 1, "{arguments}");
        let said = &reply.said;
        let reasoning = said.as_object().get("reasoning_content").and_then(Json::as_str);
        assert_eq!((said.text().as_deref(), reasoning, said.calls().len()), (Some("b"), Some("hm"), 0), "{arguments}");
    }
}

/// The layouts of this template read a stop token in the middle of a reply.
#[test]
fn a_stop_token_where_the_layouts_do_not_read_it_is_no_text() {
    let thought =
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think><|im_end|>{% endif %}{{ m.content or ''";
    let source = CALLS.replace("<|im_end|>\n", "<|end|>\n").replace("{{ m.content or ''", thought);
    let (_, reply) = replied(&model(&source), &ids("b<|im_end|>"), Finish::Stop);
    assert_eq!(reply.reading.malformed, []);
    assert_eq!(reply.said.text().unwrap(), "b");
}

#[test]
fn a_reply_as_the_template_writes_it_is_sent_once_though_a_stop_token_stands_in_it() {
    let source = CALLS.replace("</tool_call>", "</tool_call><|im_end|>").replace("<|im_end|>\n{%", "<|end|>\n{%");
    let reply = ids(&format!("{CALL}<|im_end|><|end|>"));
    let (mut session, _) = replied(&model(&source), &reply, Finish::Stop);
    append(&mut session, NEXT, OnRewrite::Refuse);
    assert_eq!(session.open().unwrap().ids, ids("\n<|im_start|>user\nc<|end|>\n<|im_start|>assistant\n"));
}

#[test]
fn a_stop_of_several_ids_that_the_template_writes_too_is_no_other_stop() {
    let bytes = |text: &str| text.bytes().map(|byte| Toy::BYTES + u32::from(byte)).collect::<Vec<_>>();
    let model = with_eos("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}", "｜é｜");
    let (mut session, _) = replied(&model, &bytes("b｜é｜"), Finish::Stop);
    append(&mut session, NEXT, OnRewrite::Refuse);
    let delta = session.open().unwrap();
    assert_eq!((delta.ids, codes(&delta.notes)), (bytes("c｜é｜"), vec![]));
}

#[test]
fn a_reply_is_not_closed_by_the_token_that_begins_the_next_turn() {
    let (mut session, _) = replied(&with_eos(NEXT_ENDS, "<|end|>"), &ids("b"), Finish::Length);
    assert_eq!(append(&mut session, NEXT, OnRewrite::Keep).ids, ids("<|end|>"));
    session.open().unwrap();
    assert_eq!(text(&session), "S<|im_end|>a<|im_start|>b<|end|><|im_end|>c<|im_start|>");
}

#[test]
fn what_is_written_anew_ends_before_the_token_that_begins_the_next_turn() {
    let (mut session, _) = replied(&model(NEXT_ENDS), &ids("b<|im_end|>"), Finish::Stop);
    append(&mut session, NEXT, OnRewrite::Rewrite);
    assert_eq!(text(&session), "L<|im_end|>a<|im_start|>b");
    assert_eq!(session.open().unwrap().ids, ids("<|im_end|>c<|im_start|>"));
}

#[test]
fn text_is_written_anew_from_the_last_control_token_before_the_change() {
    let source =
        PLAIN.replace("{%- for", "<|im_start|>so {% if messages | length > 2 %}long{% else %}short{% endif %}{% for");
    let (mut session, _) = replied(&model(&source), &ids("b<|im_end|>"), Finish::Stop);
    let plan = session.plan(&messages(NEXT)).unwrap();
    assert_eq!(plan.rewrite().map(|rewrite| rewrite.byte), Some("<|im_start|>so ".len()));
    assert_eq!(session.append(plan, OnRewrite::Rewrite).unwrap().keep, 1);
    assert!(text(&session).starts_with("<|im_start|>so long<|im_start|>user\na"));
}

#[test]
fn opening_a_turn_after_an_unfinished_reply_closes_it_once() {
    let (mut session, _) = replied(&model(PLAIN), &ids("b"), Finish::Length);
    assert_eq!(session.open().unwrap().ids, ids("<|im_end|>\n<|im_start|>assistant\n"));
}

#[test]
fn a_message_of_which_only_the_role_is_written_is_left_out() {
    let source = PLAIN.replace("{{ m.content }}", "{% if m.role == 'user' %}{{ m.content }}{% endif %}");
    let two = r#"[{"role": "system", "content": "S"}, {"role": "user", "content": "a"}]"#;
    let notes = model(&source).session(request(two)).unwrap().open().unwrap().notes;
    let found = matches!(notes.as_slice(), [SessionNote::LeftOut { message: 0, field, .. }] if field == "content");
    assert!(found, "{notes:?}");
}

#[test]
fn calls_reasoning_and_messages_that_a_template_does_not_write_are_left_out_by_name() {
    let source = PLAIN.replace("{{ m.content }}", "{{ m.content if m.role != 'user' }}");
    let call = r#"{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}"#;
    let messages = format!(
        r#"[{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "c", "reasoning_content": "r", "tool_calls": [{call}]}},
            {{"role": "tool", "tool_call_id": "c", "content": "d"}}]"#
    );
    let notes = model(&source).session(request(&messages)).unwrap().open().unwrap().notes;
    let place = |note: &SessionNote| match note {
        SessionNote::LeftOut { message, field, .. } => format!("{message} {field}"),
        note => panic!("{note:?}"),
    };
    let places: Vec<String> = notes.iter().map(place).collect();
    assert_eq!(places, ["0 content", "1 tool_calls[0]", "1 reasoning_content"]);
}

/// What was sent is compared, and restored, as it was rendered when it was sent.
#[test]
fn a_session_whose_switches_changed_twice_is_restored() {
    let model = model(&("{{ mood }}".to_owned() + PLAIN));
    let with = |mood: &str| {
        let text = format!(
            r#"{{"messages": [{{"role": "user", "content": "a"}}], "chat_template_kwargs": {{"mood": "{mood}"}}}}"#
        );
        Request::from_text(&text).unwrap()
    };
    let mut session = model.session(with("calm")).unwrap();
    session.open().unwrap();
    session.accept(&ids("b<|im_end|>"), Finish::Stop).unwrap();
    for mood in ["glad", "sad"] {
        let plan = session.plan_with(with(mood), &messages(NEXT)).unwrap();
        assert_eq!(plan.rewrite().map(|rewrite| (rewrite.before.get(..4), rewrite.byte)), Some((Some("calm"), 0)));
        session.append(plan, OnRewrite::Keep).unwrap();
    }
    let mut restored = model.restore_session(&session.save().unwrap()).unwrap();
    assert_eq!(restored.open().unwrap().ids, session.open().unwrap().ids);
    assert!(text(&session).starts_with("calm<|im_start|>user\na<|im_end|>"));
}

#[test]
fn the_ids_of_calls_follow_the_seed_also_in_saved_sessions() {
    let ids_of = |seed: u64, is_saved: bool| {
        let mut session = model(CALLS).session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap();
        session = session.with_call_seed(seed);
        session.open().unwrap();
        session.accept(&ids(&format!("{CALL}<|im_end|>")), Finish::Stop).unwrap();
        if is_saved {
            session = model(CALLS).restore_session(&session.save().unwrap()).unwrap();
        }
        turn(&mut session, "c", &format!("{CALL}<|im_end|>"), Finish::Stop);
        let messages = session.messages();
        let id = |call: &Json| call.as_object().unwrap().get("id").unwrap().as_str().unwrap().to_owned();
        let calls = messages.iter().filter_map(|message| message.as_object().get("tool_calls"));
        calls.flat_map(|calls| calls.as_array().unwrap().iter().map(id)).collect::<Vec<String>>()
    };
    let one = ids_of(u64::MAX, false);
    assert_eq!((one.len(), &one), (2, &ids_of(u64::MAX, true)));
    let other = ids_of(0, false);
    assert!(one[0] != one[1] && one.iter().all(|id| !other.contains(id)), "{one:?} {other:?}");
}

#[test]
fn the_context_of_the_awaited_reply_reads_what_is_accepted() {
    let mut session = model(CALLS).session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap().with_call_seed(7);
    assert_eq!(session.reply_context().unwrap_err().code(), "not_open");
    session.open().unwrap();
    let sampled = ids(&format!("b{CALL}<|im_end|>"));
    let context = session.reply_context().unwrap();
    let (stops, mut parser, mut reading) = (context.stops().unwrap(), context.id_parser().unwrap(), Reading::default());
    for id in sampled.iter().filter(|id| !stops.contains(&(**id, false))) {
        parser.push(*id, &mut |event| reading.add(&event)).unwrap();
    }
    parser.finish(Stop::End, &mut |event| reading.add(&event));
    let reply = session.accept(&sampled, Finish::Stop).unwrap();
    assert_eq!((reading.calls.len(), &reading), (1, &reply.reading));
}

#[test]
fn truncation_keeps_the_ids_of_calls() {
    let (mut session, _) = replied(&model(CALLS), &ids("b<|im_end|>"), Finish::Stop);
    turn(&mut session, "c", &format!("{CALL}<|im_end|>"), Finish::Stop);
    let before = session.messages();
    assert_eq!(before[3].calls().len(), 1);
    session.truncate(Keep::Turns(1)).unwrap();
    assert_eq!(session.messages(), before[2..]);
}

#[test]
fn truncation_keeps_who_closed_a_reply_between_others() {
    let mut session = long(&model(PLAIN), 1);
    turn(&mut session, "c", "half", Finish::Length);
    turn(&mut session, "d", "e<|im_end|>", Finish::Stop);
    session.truncate(Keep::Turns(2)).unwrap();
    let closing: Vec<_> = session.segments().into_iter().filter(|segment| segment.author == Author::Closing).collect();
    let [closing] = closing.as_slice() else { panic!("{closing:?}") };
    assert_eq!((closing.message, closing.part), (Some(2), SegmentPart::Stop));
    // A caller's range may be the wrong way around.
    assert!(session.bytes_of(std::ops::Range { start: closing.ids.end, end: closing.ids.start }).is_empty());
    assert_eq!(session.bytes_of(closing.ids.clone()), b"<|im_end|>");
}

/// A new question changes what is written of all replies since the last one.
#[test]
fn a_long_chain_of_calls_is_compared_without_rendering_the_rest() {
    let thought = ids("<think>\nhm\n</think>\n\nb<|im_end|>");
    let mut session = long(&model(THINKS), 2);
    append(&mut session, NEXT, OnRewrite::Refuse);
    for _ in 0..4 {
        session.open().unwrap();
        session.accept(&thought, Finish::Stop).unwrap();
        append(&mut session, RESULT, OnRewrite::Refuse);
    }
    session.open().unwrap();
    session.accept(&thought, Finish::Stop).unwrap();
    let plan = session.plan(&messages(NEXT)).unwrap();
    assert_eq!(plan.rewrite().and_then(|rewrite| rewrite.message), Some(6));
    assert_eq!(session.append(plan, OnRewrite::Keep).unwrap().proof.code(), "growth");
}

#[test]
fn an_id_with_text_of_two_messages_belongs_to_the_first() {
    let json = br#"{"added_tokens": [], "model": {"type": "BPE",
        "vocab": {"a": 0, "b": 1, "|": 2, "n": 3, "nn": 4}, "merges": ["n n"]}}"#;
    let source = "{% for m in messages %}{{ m.content }}{% endfor %}";
    let templates = ModelTemplates::from_json(&source.into()).unwrap();
    let tokenizer = Arc::new(HuggingFace::from_bytes(json, None).unwrap());
    let model = Model::builder().templates(templates).loaded_tokenizer(tokenizer).open().unwrap();
    let two = r#"[{"role": "user", "content": "an"}, {"role": "user", "content": "nb"}]"#;
    let delta = model.session(request(two)).unwrap().open().unwrap();
    assert_eq!(delta.ids, [0, 4, 1]);
    let owners: Vec<_> = delta.segments.iter().map(|segment| (segment.message, segment.ids.clone())).collect();
    assert_eq!(owners, [(Some(0), 0..2), (Some(1), 2..3)]);
}

/// Returns a session with a reply, ids after it, and another turn.
fn after_a_stop() -> Session {
    let (mut session, _) = replied(&model(PLAIN), &ids("b<|im_end|>xy"), Finish::Stop);
    turn(&mut session, "c", "d<|im_end|>", Finish::Stop);
    session
}

#[test]
fn an_id_that_carries_loss_twice_has_the_higher_weight_and_ids_after_a_stop_have_none() {
    let session = after_a_stop();
    let mut policy = LossPolicy::assistant();
    policy.roles = vec![RoleLoss { role: Role::Assistant, whole_turn: true, weight: 0.5 }];
    let segments = session.rollout(&policy).unwrap().segments;
    let weighed = segments.into_iter().filter(|segment| segment.weight > 0.0 || segment.part == SegmentPart::AfterStop);
    let weighed: Vec<_> =
        weighed.map(|segment| (String::from_utf8(session.bytes_of(segment.ids)).unwrap(), segment.weight)).collect();
    let weighed: Vec<_> = weighed.iter().map(|(text, weight)| (text.as_str(), *weight)).collect();
    let second = [("d", 1.0), ("<|im_end|>", 1.0)];
    assert_eq!(weighed, [&[("b", 1.0), ("<|im_end|>", 1.0), ("xy", 0.0), ("\n", 0.5)][..], &second].concat());
}

#[test]
fn loss_on_a_reply_but_not_on_its_stop_is_refused_unless_it_is_allowed() {
    let session = after_a_stop();
    // The first reply has no weight of its own, and the role covers only its content.
    let mut policy = LossPolicy::last();
    policy.roles = vec![RoleLoss { role: Role::Assistant, whole_turn: false, weight: 0.5 }];
    assert_eq!(session.rollout(&policy).unwrap_err().code(), "masked_stop");
    policy.allow_masked_stop = true;
    assert!(session.rollout(&policy).is_ok());
}

/// Returns the text that the model sampled for a part of a reply.
fn sampled(session: &Session, part: SegmentPart) -> String {
    let segments = session.segments().into_iter();
    let ids = segments.filter(|segment| segment.author == Author::Sampled && segment.part == part);
    let (tokenizer, sampled, mut bytes) = (toy(), session.ids(), Vec::new());
    for at in ids.flat_map(|segment| segment.ids) {
        assert!(tokenizer.token_bytes(sampled[at], &mut bytes));
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn all_ids_of_a_calls_marker_belong_to_the_call() {
    // The marker of calls is text of several ids.
    let reply = [ids("Hm. <tool "), ids(CALL), ids("<|im_end|>")].concat();
    let (session, reply) = replied(&with_eos(CALLS, "<|im_end|>"), &reply, Finish::Stop);
    assert_eq!(reply.reading.calls.len(), 1);
    assert_eq!(sampled(&session, SegmentPart::Content), "Hm. <tool ");
    assert_eq!(sampled(&session, SegmentPart::Calls), CALL);
    let spans = reply.calls.iter().map(|ids| ids.len()).collect::<Vec<_>>();
    assert_eq!(spans, [ids(CALL).len()]);
}

#[test]
fn a_call_in_open_reasoning_is_a_call_in_the_labels_too() {
    let source = CALLS.replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n<think>\n{% endif %}").replace(
        "{{ m.content or '' }}",
        "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content or '' }}",
    );
    let reply = [ids("Hm. "), ids(CALL), ids("<|im_end|>")].concat();
    let (session, reply) = replied(&with_eos(&source, "<|im_end|>"), &reply, Finish::Stop);
    assert_eq!(reply.reading.calls.len(), 1, "{:?}", reply.reading);
    assert_eq!(sampled(&session, SegmentPart::Reasoning), "Hm. ");
    assert_eq!(sampled(&session, SegmentPart::Calls), CALL);
}
