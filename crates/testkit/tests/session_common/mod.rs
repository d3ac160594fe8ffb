//! Models, requests and steps for the tests of sessions.

#![allow(dead_code, reason = "each test uses only a part of this module")]

use std::sync::Arc;

use rolecall::conversation::{Conversation, Message, json};
use rolecall::session::{Finish, OnRewrite, Session};
use rolecall::template::ModelTemplates;
use rolecall::tokenizer::Tokenizer;
use rolecall::{Model, Request};
use rolecall_testkit::Toy;

/// A template like many: reasoning is written only after the last user message.
pub const THINKS: &str = "\
{%- set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and m.reasoning_content and loop.index0 > ns.last %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}";

pub fn toy() -> Toy {
    let registry = rolecall::format::registry();
    Toy::of(registry.get("chatml").unwrap()).with("<think>").with("</think>").with("<|end|>")
}

pub fn model(source: &str) -> Model {
    let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
    templates.set_token("eos_token", "<|im_end|>".into());
    Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy())).open().unwrap()
}

pub fn request(messages: &str) -> Request {
    Request::from_text(&format!("{{\"messages\": {messages}}}")).unwrap()
}

/// Begins a session without messages.
pub fn empty(model: &Model) -> Session {
    let mut request = request(r#"[{"role": "user", "content": ""}]"#);
    request.conversation.messages.clear();
    model.session(request).unwrap()
}

pub fn messages(text: &str) -> Vec<Message> {
    Conversation::from_json(json::parse(&format!("{{\"messages\": {text}}}")).unwrap()).unwrap().messages
}

/// Returns the ids of a text in which markers are control tokens.
pub fn ids(text: &str) -> Vec<u32> {
    let toy = toy();
    let mut ids = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let markers = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|end|>"];
        match markers.into_iter().find(|marker| rest.starts_with(marker)) {
            Some(marker) => {
                ids.push(toy.token_id(marker).unwrap());
                rest = &rest[marker.len()..];
            }
            None => {
                let (character, after) = rest.split_at(rest.chars().next().map_or(0, char::len_utf8));
                ids.extend(character.bytes().map(|byte| Toy::BYTES + u32::from(byte)));
                rest = after;
            }
        }
    }
    ids
}

/// Says what the user says, and takes the reply.
pub fn turn(session: &mut Session, user: &str, reply: &str, finish: Finish) {
    let new = [Message::user(user)];
    let plan = session.plan(&new).unwrap();
    session.append(plan, OnRewrite::Keep).unwrap();
    session.open().unwrap();
    session.accept(&ids(reply), finish).unwrap();
}

/// A model whose template writes everything in the same way, whatever follows.
pub const PLAIN: &str = "\
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}";

/// Returns a session with a system message and turns `u0 a0 u1 a1 ..`.
pub fn long(model: &Model, turns: usize) -> Session {
    let mut session = model.session(request(r#"[{"role": "system", "content": "S"}]"#)).unwrap();
    for at in 0..turns {
        turn(&mut session, &format!("u{at}"), &format!("a{at}<|im_end|>"), Finish::Stop);
    }
    session
}

pub fn text(session: &Session) -> String {
    String::from_utf8(session.bytes()).unwrap()
}

pub fn contents(session: &Session) -> Vec<String> {
    session.messages().iter().map(|message| message.text().unwrap_or_default()).collect()
}
