//! The new turn of a whole prompt is the one that a session sends.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall::conversation::{Conversation, Message};
use rolecall::format::{Format, FormatPart};
use rolecall::model::Purpose;
use rolecall::render::{Options, Writer};
use rolecall::session::{Finish, OnRewrite, Seams};
use rolecall::template::ModelTemplates;
use rolecall::{Model, Prompt, Request};
use rolecall_testkit::{Toy, last_answer, new_turn};

#[test]
fn a_session_sends_the_new_turn_of_the_format() {
    let mut found = Vec::new();
    for format in rolecall::format::registry().iter().filter(|format| format.part == FormatPart::Whole) {
        let rounds = (1..=3).flat_map(|round| {
            [Message::user(format!("question {round}")), Message::assistant(format!("answer {round}"))]
        });
        let messages: Vec<Message> = rounds.collect();
        let toy = Toy::family(format, &rolecall_testkit::generate::marks(format))[1].clone();
        let model = Model::builder().format(format.name.clone()).loaded_tokenizer(Arc::new(toy)).open().unwrap();
        let mut session = model.session(request(&messages[..1])).unwrap();
        session.open().unwrap_or_else(|error| panic!("{}: {error}", format.name));
        for end in [3, 5] {
            let before = rendered(&messages[..end - 2], format);
            let now = rendered(&messages[..end], format);
            let written = last_answer(&before, &now, &messages[..end], format);
            let ids = session.encode_sampled(&written).unwrap();
            session.accept(&ids, Finish::Stop).unwrap();
            let plan = session.plan(&messages[end - 1..end]).unwrap();
            let is_rewritten = !plan.is_stable();
            session.append(plan, OnRewrite::Keep).unwrap();
            let delta = session.open().unwrap();
            let text = String::from_utf8(session.bytes_of(delta.keep..delta.total())).unwrap();
            let conversation = Conversation::new(messages[..end].to_vec());
            let new = new_turn(format, conversation, &Options::default()).unwrap();
            if text != new.text() {
                found.push((format.name.clone(), end, is_rewritten, text, new.text().to_owned()));
            }
            let mut taken_over = model.import_session(request(&messages[..end]), Seams::Live).unwrap();
            let delta = taken_over.open().unwrap();
            let text = String::from_utf8(taken_over.bytes_of(delta.keep..delta.total())).unwrap();
            assert_eq!(text, new.text(), "{} {end}, taken over", format.name);
        }
    }
    assert!(found.is_empty(), "{} differ: {found:#?}", found.len());
}

/// Templates in which a reply ends in its own turn, in the next turn's opening, or nowhere.
#[test]
fn a_session_sends_the_new_turn_of_the_template() {
    let own = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
               {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let between = "{% for m in messages %}{% if m.role == 'user' %}{% if not loop.first %}<|im_end|>{% endif %}\
                   Q: {{ m.content }}{% else %} A: {{ m.content }}{% endif %}{% endfor %}\
                   {% if add_generation_prompt %} A: {% endif %}";
    let forged = "answer<|im_end|>";
    for source in [own, between] {
        let model = of_template(source);
        let messages = [Message::user("question"), Message::assistant(forged), Message::user("next")];
        let mut session = model.session(request(&messages[..1])).unwrap();
        session.open().unwrap();
        let toy = toy();
        let mut ids = Vec::new();
        rolecall::tokenizer::Tokenizer::encode_ordinary(&toy, forged, rolecall::tokenizer::TextPlace::Inside, &mut ids)
            .unwrap();
        let mut ids: Vec<u32> = ids.iter().map(|token| token.id).collect();
        ids.extend(session.encode_sampled("<|im_end|>").unwrap());
        session.accept(&ids, Finish::Stop).unwrap();
        let plan = session.plan(&messages[2..]).unwrap();
        session.append(plan, OnRewrite::Refuse).unwrap();
        let delta = session.open().unwrap();
        let text = String::from_utf8(session.bytes_of(delta.keep..delta.total())).unwrap();
        let mut whole = request(&messages);
        whole.conversation.add_generation_prompt = Some(true);
        let new = model.prompt_for(whole, Purpose::NewTurn).unwrap();
        assert_eq!(new.text(), text, "{source}");
        let mut taken_over = model.import_session(request(&messages), Seams::Live).unwrap();
        let delta = taken_over.open().unwrap();
        let sent = String::from_utf8(taken_over.bytes_of(delta.keep..delta.total())).unwrap();
        assert_eq!(sent, text, "{source}, taken over");
    }
}

#[test]
fn a_template_without_a_stop_token_has_no_new_turn() {
    let model = of_template("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
    let messages = [Message::user("question"), Message::assistant("a<|im_end|>"), Message::user("next")];
    let error = model.prompt_for(request(&messages), Purpose::NewTurn).err().unwrap();
    assert!(matches!(error, rolecall::Error::NoNewTurn { message: 1 }), "{error}");
    let first = model.prompt_for(request(&messages[..1]), Purpose::NewTurn).unwrap();
    assert_eq!(first.text(), "user: question\n");
}

fn toy() -> Toy {
    Toy::of(rolecall::format::registry().get("chatml").unwrap())
}

fn of_template(source: &str) -> Model {
    let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
    templates.set_token("eos_token", "<|im_end|>".into());
    Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy())).open().unwrap()
}

fn request(messages: &[Message]) -> Request {
    let mut request = Request::from_text(r#"[{"role": "user", "content": ""}]"#).unwrap();
    request.conversation.messages = messages.to_vec();
    request
}

fn rendered(messages: &[Message], format: &Format) -> Prompt {
    Writer::format(format.clone(), Options::default())
        .render(&Conversation::new(messages.to_vec()))
        .unwrap_or_else(|error| panic!("{}: {error}", format.name))
}
