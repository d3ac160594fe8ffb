//! Saved sessions: restoring is identity in every state, another model and damaged text are
//! refused, and an operation that fails changes nothing.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fmt::Write;
use std::sync::Arc;

use crate::session_common::{PLAIN, THINKS, empty, ids, long, messages, model, request, toy, turn};
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, Message};
use rolecall::loss::LossPolicy;
use rolecall::model::Settings;
use rolecall::session::{Delta, Finish, Keep, OnRewrite, Seams, Session};
use rolecall::template::{DateTime, ModelTemplates};
use rolecall::{Error, Model, Request};
use rolecall_testkit::Toy;

const THOUGHT: &str = "<think>\nhm\n</think>\n\nb<|im_end|>";

/// Returns sessions in every state, by name.
fn states(model: &Model) -> Vec<(&'static str, Session)> {
    let mut states = vec![("empty", empty(model))];
    let mut session = model.session(request(r#"[{"role": "system", "content": "S"}]"#)).unwrap();
    states.push(("pending", session.clone()));
    let plan = session.plan(&[Message::user("a \u{1f600}")]).unwrap();
    session.append(plan, OnRewrite::Refuse).unwrap();
    states.push(("planned", session.clone()));
    session.open().unwrap();
    states.push(("open", session.clone()));
    let mut fork = session.clone();
    fork.accept(&ids("<think>\nhalf"), Finish::Length).unwrap();
    states.push(("cut in reasoning", fork.clone()));
    fork.close().unwrap();
    states.push(("closed", fork.clone()));
    let plan = fork.plan(&[Message::user("c")]).unwrap();
    fork.append(plan, OnRewrite::Keep).unwrap();
    states.push(("planned after a closed reply", fork.clone()));
    let mut fork = session.clone();
    fork.accept(&[ids("odd"), vec![Toy::BYTES + 0xff], ids("<|im_end|>xyz")].concat(), Finish::Stop).unwrap();
    states.push(("ids after a stop", fork.clone()));
    turn(&mut fork, "more", "fine<|im_end|>", Finish::Stop);
    states.push(("a turn after ids after a stop", fork));
    let mut fork = session.clone();
    fork.accept(&[], Finish::Abort).unwrap();
    states.push(("an empty reply", fork));
    session.accept(&ids(THOUGHT), Finish::Stop).unwrap();
    states.push(("replied", session.clone()));
    for (kept, rewritten, on) in
        [("kept", "a turn after it", OnRewrite::Keep), ("rewritten", "a turn after that", OnRewrite::Rewrite)]
    {
        let mut fork = session.clone();
        let plan = fork.plan(&[Message::user("c")]).unwrap();
        fork.append(plan, on).unwrap();
        states.push((kept, fork.clone()));
        let plan = fork.plan(&[Message::user("d")]).unwrap();
        fork.append(plan, on).unwrap();
        states.push(("more pending", fork.clone()));
        fork.open().unwrap();
        fork.accept(&ids("e<|im_end|>"), Finish::Stop).unwrap();
        states.push((rewritten, fork));
    }
    let mut session = long(model, 4);
    session.truncate(Keep::Turns(2)).unwrap();
    states.push(("truncated", session.clone()));
    let plan = session.plan(&[Message::user("p")]).unwrap();
    session.append(plan, OnRewrite::Keep).unwrap();
    session.truncate(Keep::Turns(1)).unwrap();
    states.push(("truncated to what is pending", session));
    let finished = r#"[{"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning_content": "hm"}, {"role": "user", "content": "c"}]"#;
    for seams in [Seams::Live, Seams::Whole] {
        states.push(("imported", model.import_session(request(finished), seams).unwrap()));
    }
    states
}

/// Says everything of a delta except how it was proved.
fn told(text: &mut String, what: &str, delta: Result<Delta, Error>) {
    let _ = match delta {
        Ok(delta) => writeln!(text, "{what}: {} {:?} {:?} {:?}", delta.keep, delta.ids, delta.segments, delta.notes),
        Err(error) => writeln!(text, "{what}: {} {error}", error.code()),
    };
}

/// Says everything that can be seen of a session.
fn seen(session: &Session) -> String {
    let rollout = session.rollout(&LossPolicy::assistant()).map(|rollout| rollout.weights);
    let said = session.reply().map(|reply| (reply.said.clone(), reply.is_unfinished, reply.in_reasoning, reply.stop));
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {} {said:?} {:?}",
        session.ids(),
        session.bytes(),
        session.segments(),
        session.messages(),
        session.breaks(),
        session.branches().collect::<Vec<_>>(),
        session.is_open(),
        rollout.ok(),
    )
}

/// Does everything that can be done, each on a fork, and goes on from there for some steps.
fn done(session: &Session, steps: usize) -> String {
    let mut text = seen(session);
    text.push('\n');
    let go_on = |text: &mut String, name: &str, fork: Session| {
        let _ = writeln!(text, "after {name}: {}", if steps == 0 { seen(&fork) } else { done(&fork, steps - 1) });
    };
    for on in [OnRewrite::Refuse, OnRewrite::Keep, OnRewrite::Rewrite] {
        let mut fork = session.clone();
        let plan = fork.plan(&[Message::user("next")]);
        let delta = plan.and_then(|plan| fork.append(plan, on));
        let is_done = delta.is_ok();
        told(&mut text, "append", delta);
        if is_done {
            go_on(&mut text, "append", fork);
        }
    }
    let mut each = |name: &str, act: &dyn Fn(&mut Session) -> Result<Delta, Error>| {
        let mut fork = session.clone();
        let delta = act(&mut fork);
        let is_done = delta.is_ok();
        told(&mut text, name, delta);
        if is_done {
            go_on(&mut text, name, fork);
        }
    };
    each("open", &|fork| fork.open());
    each("close", &|fork| fork.close());
    each("truncate", &|fork| fork.truncate(Keep::Turns(1)).map(|cut| cut.delta));
    let mut fork = session.clone();
    let reply = fork.accept(&ids("r<|im_end|>"), Finish::Stop);
    let _ = writeln!(text, "accept: {:?}", reply.as_ref().map(|reply| &reply.said).map_err(Error::code));
    if reply.is_ok() {
        go_on(&mut text, "accept", fork);
    }
    text
}

#[test]
fn a_restored_session_is_the_same_in_every_state() {
    for source in [PLAIN, THINKS] {
        let model = model(source);
        for (name, session) in states(&model) {
            let saved = session.save().unwrap();
            let restored = model.restore_session(&saved).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(seen(&restored), seen(&session), "{name}");
            let (own, theirs) = (done(&session, 1), done(&restored, 1));
            for (own, theirs) in own.lines().zip(theirs.lines()) {
                assert_eq!(own, theirs, "{name}");
            }
            // Saved again, only the last rendering may begin elsewhere.
            let again = model.restore_session(&restored.save().unwrap()).unwrap();
            assert_eq!(seen(&again), seen(&session), "{name}");
        }
    }
}

#[test]
fn every_built_in_format_restores_its_sessions() {
    for format in rolecall::format::registry().iter() {
        let toy = Arc::new(Toy::of(format));
        let Ok(model) = Model::builder().format(&format.name).loaded_tokenizer(toy).open() else { continue };
        let Ok(mut session) = model.session(request(r#"[{"role": "user", "content": "a"}]"#)) else { continue };
        let check = |session: &Session| {
            let restored = model.restore_session(&session.save().unwrap());
            let restored = restored.unwrap_or_else(|error| panic!("{}: {error}", format.name));
            assert_eq!(done(&restored, 0), done(session, 0), "{}", format.name);
        };
        check(&session);
        if session.open().is_err() {
            continue;
        }
        check(&session);
        session.accept(&[Toy::BYTES + 98], Finish::Length).unwrap();
        check(&session);
        let Ok(plan) = session.plan(&[Message::user("c")]) else { continue };
        session.append(plan, OnRewrite::Keep).unwrap();
        check(&session);
        session.open().unwrap();
        check(&session);
    }
}

#[test]
fn tools_documents_switches_and_the_clock_are_restored() {
    let source = "{{ strftime_now('%Y') }}{{ enable }}{{ tools | tojson }}{{ documents | tojson }}\
        {% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}>{% endif %}";
    let model = model(source);
    let text = r#"{"messages": [{"role": "user", "content": "a"}],
        "tools": [{"type": "function", "function": {"name": "f", "x": 1.0}}], "documents": [{"text": "d"}],
        "chat_template_kwargs": {"enable": "yes"}, "now": "2021-02-03T04:05:06", "id": 7}"#;
    let mut session = model.session(Request::from_text(text).unwrap()).unwrap();
    session.open().unwrap();
    let written = String::from_utf8(session.bytes()).unwrap();
    assert!(written.starts_with("2021yes[{") && written.contains("1.0"), "{written}");
    let restored = model.restore_session(&session.save().unwrap()).unwrap();
    assert_eq!(done(&restored, 1), done(&session, 1));
    // Without a clock in the request, the session keeps the time at which it began.
    let now = |year| Some(DateTime { year, month: 1, day: 1, hour: 0, minute: 0, second: 0, microsecond: 0 });
    let at = |year| model.with_settings(Settings { now: now(year), ..Settings::default() });
    let mut session = at(1999).session(request(r#"[{"role": "user", "content": "a"}]"#)).unwrap();
    session.open().unwrap();
    let saved = session.save().unwrap();
    assert_eq!(seen(&model.restore_session(&saved).unwrap()), seen(&session));
    assert_eq!(code(&at(2000), &saved), "other_model");
}

/// A template that writes a switch before the conversation.
const SWITCHED: &str = "{{ mood }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[test]
fn what_was_sent_with_other_switches_is_restored() {
    let model = model(SWITCHED);
    let with = |mood: &str| {
        let text = format!(
            r#"{{"messages": [{{"role": "user", "content": "a"}}], "chat_template_kwargs": {{"mood": "{mood}"}}}}"#
        );
        Request::from_text(&text).unwrap()
    };
    for (reply, finish) in [("b<|im_end|>", Finish::Stop), ("b", Finish::Length)] {
        let mut session = model.session(with("calm")).unwrap();
        session.open().unwrap();
        session.accept(&ids(reply), finish).unwrap();
        for on in [OnRewrite::Keep, OnRewrite::Rewrite] {
            let mut fork = session.clone();
            let plan = fork.plan_with(with("glad"), &[Message::user("c")]).unwrap();
            assert_eq!(plan.rewrite().map(|rewrite| rewrite.byte), Some(0));
            fork.append(plan, on).unwrap();
            let check = |session: &Session| {
                let restored = model.restore_session(&session.save().unwrap()).unwrap();
                assert_eq!(done(&restored, 1), done(session, 1), "{on:?}");
            };
            check(&fork);
            // Planned again with the first switch, nothing is rewritten that was kept.
            let plan = fork.plan_with(with("calm"), &[Message::user("d")]).unwrap();
            assert_eq!(plan.is_stable(), on == OnRewrite::Keep);
            let plan = fork.plan(&[Message::user("d")]).unwrap();
            assert!(plan.is_stable(), "{on:?}: {:?}", plan.rewrite());
            fork.append(plan, OnRewrite::Refuse).unwrap();
            check(&fork);
            fork.open().unwrap();
            check(&fork);
            let text = String::from_utf8(fork.bytes()).unwrap();
            assert!(text.starts_with(if on == OnRewrite::Keep { "calm<" } else { "glad<" }), "{text}");
            assert!(text.ends_with("d<|im_end|>\n<|im_start|>assistant\n"), "{text}");
            fork.accept(&ids("e<|im_end|>"), Finish::Stop).unwrap();
            turn(&mut fork, "f", "g<|im_end|>", Finish::Stop);
            check(&fork);
        }
    }
}

#[test]
fn restored_branches_share_their_ids() {
    let model = model(THINKS);
    let mut session = long(&model, 20);
    for name in ["c", "d", "e", "f"] {
        session.open().unwrap_or_else(|error| panic!("{error}"));
        session.accept(&ids(THOUGHT), Finish::Stop).unwrap();
        let plan = session.plan(&[Message::user(name)]).unwrap();
        session.append(plan, OnRewrite::Rewrite).unwrap();
    }
    let saved = session.save().unwrap();
    let Json::Object(object) = json::parse(&saved).unwrap() else { panic!("an object") };
    let own = |branch: &Json| branch.as_object().and_then(|branch| branch.get("runs")?.as_array().map(<[Json]>::len));
    let own: Vec<usize> = object.get("branches").unwrap().as_array().unwrap().iter().filter_map(own).collect();
    assert_eq!(own.len(), 4);
    assert!(own.iter().all(|runs| *runs <= 3), "{own:?}");
    let mut restored = model.restore_session(&saved).unwrap();
    for _ in 0..3 {
        let again = restored.save().unwrap();
        assert_eq!(again.len(), saved.len());
        assert_eq!(seen(&restored), seen(&session));
        restored = model.restore_session(&again).unwrap();
    }
}

fn code(model: &Model, saved: &str) -> &'static str {
    match model.restore_session(saved) {
        Ok(_) => "restored",
        Err(error) => error.code(),
    }
}

#[test]
fn another_model_is_refused_by_its_part() {
    let own = model(THINKS);
    let mut session = long(&own, 2);
    let plan = session.plan(&[Message::user("c")]).unwrap();
    session.append(plan, OnRewrite::Keep).unwrap();
    let saved = session.save().unwrap();
    let templates = |source: &str, eos: &str| {
        let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
        templates.set_token("eos_token", eos.into());
        templates
    };
    let open =
        |templates, toy: Toy| Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy)).open().unwrap();
    let part = |model: Model| match model.restore_session(&saved) {
        Ok(_) => "none".to_owned(),
        Err(error) => {
            assert_eq!(error.code(), "other_model");
            error.to_string().replace("the session was saved with another ", "")
        }
    };
    assert_eq!(part(open(templates(THINKS, "<|im_end|>"), toy())), "none");
    assert_eq!(part(open(templates(PLAIN, "<|im_end|>"), toy())), "chat template");
    assert_eq!(part(open(templates(THINKS, "<|end|>"), toy())), "chat template");
    assert_eq!(part(open(templates(THINKS, "<|im_end|>"), toy().with("<extra>"))), "tokenizer");
    assert_eq!(part(open(templates(THINKS, "<|im_end|>"), toy().with_id("<think>", 5))), "tokenizer");
    let settings = Settings { options: vec![("a".into(), "b".into())], ..Settings::default() };
    assert_eq!(part(own.with_settings(settings)), "settings");
    let format = Model::builder().format("chatml").loaded_tokenizer(Arc::new(toy())).open().unwrap();
    assert_eq!(part(format), "format");
}

#[test]
fn tokenizers_with_the_same_tokens_and_other_merges_are_told_apart() {
    let open = |merges: &str| {
        let json = format!(
            r#"{{"added_tokens": [], "model": {{"type": "BPE",
            "vocab": {{"a": 0, "b": 1, "ab": 2, "ba": 3, "aba": 4, "|": 5}}, "merges": [{merges}]}}}}"#
        );
        let tokenizer = rolecall::tokenizer::HuggingFace::from_bytes(json.as_bytes(), None).unwrap();
        let templates =
            ModelTemplates::from_json(&"{% for m in messages %}{{ m.content }}|{% endfor %}".into()).unwrap();
        Model::builder().templates(templates).loaded_tokenizer(Arc::new(tokenizer)).open().unwrap()
    };
    let one = open(r#""a b", "b a", "ab a""#);
    let other = open(r#""b a", "a b", "ab a""#);
    let session = one.session(request(r#"[{"role": "user", "content": "aba"}]"#)).unwrap();
    let saved = session.save().unwrap();
    assert_eq!(code(&one, &saved), "restored");
    assert_eq!(code(&other, &saved), "other_model");
}

/// Changes a saved session and gives it the checksum of what it then says.
fn forged(saved: &str, change: impl FnOnce(&mut Object)) -> String {
    let Json::Object(mut object) = json::parse(saved).unwrap() else { panic!("an object") };
    change(&mut object);
    json::write(&Json::Object(object), &Layout::compact())
}

#[test]
fn damaged_text_is_refused_and_never_panics() {
    let model = model(THINKS);
    for (name, session) in states(&model) {
        let saved = session.save().unwrap();
        let boundaries = (0..saved.len()).filter(|at| saved.is_char_boundary(*at));
        for end in boundaries.step_by(1 + saved.len() / 200) {
            assert_eq!(code(&model, &saved[..end]), "damaged_session", "{name}: {end}");
        }
        let mut bytes = saved.clone().into_bytes();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let at = random.usize(..bytes.len());
            let own = std::mem::replace(&mut bytes[at], random.u8(b' '..b'~'));
            if let Ok(text) = std::str::from_utf8(&bytes)
                && text != saved
            {
                let code = code(&model, text);
                assert!(["damaged_session", "other_version"].contains(&code), "{name}: {at} {code}");
            }
            bytes[at] = own;
        }
    }
    for text in ["", "[]", "null", "{}", "{\"version\": 1}", "{\"version\": 1, \"checksum\": \"0\"}"] {
        assert_eq!(code(&model, text), "damaged_session", "{text}");
    }
    assert_eq!(code(&model, "{\"version\": 2}"), "other_version");
    let saved = long(&model, 1).save().unwrap();
    let changed = forged(&saved, |object| object.insert("is_open", true.into()));
    assert_eq!(code(&model, &changed), "damaged_session");
    // White space does not matter.
    let Json::Object(object) = json::parse(&saved).unwrap() else { panic!("an object") };
    assert_eq!(code(&model, &json::write(&Json::Object(object), &Layout::indented(2))), "restored");
}

#[test]
fn an_operation_that_fails_changes_nothing() {
    for source in [PLAIN, THINKS] {
        let model = model(source);
        for (name, session) in states(&model) {
            let saved = session.save().unwrap();
            let mut failed = 0;
            let mut each = |what: &str, act: &dyn Fn(&mut Session) -> bool| {
                let mut fork = session.clone();
                if !act(&mut fork) {
                    failed += 1;
                    assert_eq!(fork.save().unwrap(), saved, "{name}: {what}");
                }
                // Whatever a fork does, the session stays as it is.
                assert_eq!(session.save().unwrap(), saved, "{name}: {what}");
            };
            each("open", &|fork| fork.open().is_ok());
            each("accept", &|fork| fork.accept(&ids("x<|im_end|>"), Finish::Stop).is_ok());
            each("an unknown id", &|fork| fork.accept(&[Toy::BYTES + 97, 77], Finish::Stop).is_ok());
            each("close", &|fork| fork.close().is_ok());
            each("truncate", &|fork| fork.truncate(Keep::Turns(1)).is_ok());
            each("truncate to nothing", &|fork| fork.truncate(Keep::Ids(0)).is_ok());
            for on in [OnRewrite::Refuse, OnRewrite::Keep, OnRewrite::Rewrite] {
                each("append", &|fork| {
                    let plan = fork.plan(&messages(r#"[{"role": "user", "content": "n"}]"#));
                    plan.and_then(|plan| fork.append(plan, on)).is_ok()
                });
                each("a stale plan", &|fork| {
                    let Ok(plan) = fork.plan(&[Message::user("n")]) else { return false };
                    let stale = plan.clone();
                    let _ = fork.append(plan, on);
                    let now = fork.save().unwrap();
                    assert!(fork.append(stale, on).is_err());
                    assert_eq!(fork.save().unwrap(), now);
                    true
                });
            }
            let mut tagged = LossPolicy::assistant();
            tagged.tagged = true;
            assert!(session.rollout(&tagged).is_err());
            assert!(failed >= 2, "{name}: {failed}");
        }
    }
}
