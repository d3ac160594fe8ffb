//! Every part of a conversation that a template does not write is reported, and nothing else: for
//! templates of our own, and for every real one.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::conversation::json;
use rolecall::conversation::{Json, Place};
use rolecall::model::{ModelPrompt, Settings};
use rolecall::template::{ChatTemplate, Forms, ModelTemplates};
use rolecall::{Error, Model, Request};
use rolecall_testkit::FolderTemplates;

/// A conversation in which each part has a word that occurs nowhere else.
const SAID: &str = r#"{"messages": [
    {"role": "system", "content": "Systemword"},
    {"role": "user", "content": "Askedword"},
    {"role": "assistant", "reasoning_content": "Earlierword", "content": "Answerword"},
    {"role": "user", "content": [{"type": "text", "text": "Partword"}]},
    {"role": "assistant", "reasoning_content": "Thoughtword", "content": "Callingword", "tool_calls": [{"id": "abcdefghi",
        "type": "function", "function": {"name": "Nameword", "arguments": {"Keyword": "Valueword"}}}]},
    {"role": "tool", "tool_call_id": "abcdefghi", "name": "Nameword", "content": "Resultword"}],
    "tools": [{"type": "function", "function": {"name": "Toolword", "description": "It says", "parameters":
        {"type": "object", "properties": {"Keyword": {"type": "string"}}}}}],
    "documents": [{"title": "Titleword", "text": "Documentword"}], "add_generation_prompt": true}"#;

/// The places that a template may leave out, with their words.
const PLACES: [(Option<usize>, &str, &str); 11] = [
    (Some(0), "content", "Systemword"),
    (Some(1), "content", "Askedword"),
    (Some(2), "reasoning_content", "Earlierword"),
    (Some(2), "content", "Answerword"),
    (Some(3), "content[0]", "Partword"),
    (Some(4), "reasoning_content", "Thoughtword"),
    (Some(4), "content", "Callingword"),
    (Some(4), "tool_calls[0].function.arguments", "Valueword"),
    (Some(5), "content", "Resultword"),
    (None, "tools[0]", "Toolword"),
    (None, "documents[0]", "Documentword"),
];

fn request(without: &[&str]) -> Request {
    let Json::Object(mut object) = json::parse(SAID).unwrap() else { panic!("an object") };
    for key in without {
        object.remove(key);
    }
    Request::from_json(Json::Object(object)).unwrap()
}

fn model(source: &str) -> Model {
    let templates = ModelTemplates::from_json(&Json::from(source)).unwrap();
    Model::builder().templates(templates).now("2026-11-21".parse().unwrap()).open().unwrap()
}

/// Returns a model whose template gets conversations as they are given.
fn as_given(source: &str) -> Model {
    let model = model(source);
    let settings = Settings { forms: Forms::AsGiven, ..model.settings().clone() };
    model.with_settings(settings)
}

/// Reports whether a place, or its message, is left out.
fn is_left_out(prompt: &ModelPrompt, message: Option<usize>, field: &str) -> bool {
    prompt.prompt().dropped().iter().any(|dropped| {
        let Place { message: whose, field: which } = &dropped.place;
        *whose == message && (field == &**which || message.is_some() && field.starts_with(&**which))
    })
}

/// Returns a message's text in a prompt, without quotes: one template writes a list of letters.
fn letters_of(prompt: &ModelPrompt, message: Option<usize>) -> String {
    let its = prompt.segments().filter(|segment| message.is_some() && segment.origin.message() == message);
    its.map(|segment| segment.text.replace('"', "")).collect()
}

#[test]
fn every_part_that_a_real_template_does_not_write_is_told_and_no_other() {
    let Some(shared) = rolecall_testkit::shared() else {
        return rolecall_testkit::say_skipped("the parts that real templates leave out are not checked");
    };
    let templates = FolderTemplates::read(&shared.join("templates")).unwrap().compiled;
    let (mut prompts, mut left_out, mut wrong) = (0, 0, Vec::new());
    for (name, template) in &templates {
        for without in [&[][..], &["documents"], &["documents", "tools"]] {
            let Ok(prompt) = of(template).prompt(request(without)) else { continue };
            prompts += 1;
            for (message, field, word) in PLACES {
                if without.iter().any(|key| field.starts_with(key)) {
                    continue;
                }
                let is_there = prompt.text().contains(word) || letters_of(&prompt, message).contains(word);
                let is_told = is_left_out(&prompt, message, field);
                left_out += usize::from(is_told);
                if is_there == is_told {
                    wrong.push(format!("{name}: {word} is written: {is_there}, reported as left out: {is_told}"));
                }
            }
        }
    }
    println!("{prompts} prompts of {} templates leave out {left_out} parts", templates.len());
    assert!(wrong.is_empty(), "{} of {prompts}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(prompts > templates.len() && left_out > prompts, "{prompts} {left_out}");
}

/// Returns a model with only this template.
fn of(template: &ChatTemplate) -> Model {
    let mut templates = ModelTemplates::from_json(&Json::from(template.source())).unwrap();
    template.tokens().iter().for_each(|(name, text)| templates.set_token(name, text.clone()));
    Model::builder().templates(templates).now("2026-11-21".parse().unwrap()).open().unwrap()
}

#[test]
fn a_kind_is_told_once_with_its_count_and_its_first_place() {
    let prompt = model("{{ messages[0].content }}").prompt(request(&[])).unwrap();
    let told: Vec<(String, usize, bool)> =
        prompt.prompt().left_out().iter().map(|one| (one.first.to_string(), one.count, one.by_design)).collect();
    assert_eq!(
        told,
        [("message 1".to_owned(), 5, false), ("tools[0]".to_owned(), 1, false), ("documents[0]".to_owned(), 1, false),]
    );
}

#[test]
fn earlier_reasoning_is_left_out_by_design() {
    let source = "{% for m in messages %}{{ m.content }}{% endfor %}";
    let text = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "reasoning_content": "b", "content": "c"},
        {"role": "user", "content": "d"}, {"role": "assistant", "reasoning_content": "e", "content": "f"}]}"#;
    let prompt = model(source).prompt(Request::from_text(text).unwrap()).unwrap();
    let told: Vec<(Option<usize>, bool)> =
        prompt.prompt().dropped().iter().map(|dropped| (dropped.place.message, dropped.by_design)).collect();
    assert_eq!(told, [(Some(1), true), (Some(3), false)]);
}

#[test]
fn a_picture_that_changes_nothing_is_left_out() {
    let text = r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "a"}]}]}"#;
    let left_out =
        |source: &str| model(source).prompt(Request::from_text(text).unwrap()).unwrap().prompt().dropped().len();
    let texts = "{% for p in messages[0].content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}";
    assert_eq!(left_out(texts), 1);
    let both = "{% for p in messages[0].content %}{% if p.type == 'text' %}{{ p.text }}{% else %}<image>{% endif %}{% endfor %}";
    assert_eq!(left_out(both), 0);
}

#[test]
fn calls_in_the_other_form_are_offered_where_the_template_writes_them() {
    let call = |arguments: &str| {
        let text = format!(
            r#"{{"messages": [{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "", "tool_calls":
                [{{"type": "function", "function": {{"name": "f", "arguments": {arguments}}}}}]}}]}}"#
        );
        Request::from_text(&text).unwrap()
    };
    let turn = |inner: &str| {
        format!(
            "{{% for m in messages %}}{{{{ m.content }}}}{{% for c in m.tool_calls or [] %}}{{{{ c.function.name }}}}{inner}{{% endfor %}}{{% endfor %}}"
        )
    };
    // It iterates over an object and ignores a text.
    let items = as_given(&turn(
        "{% if c.function.arguments is mapping %}{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endif %}",
    ));
    let prompt = items.prompt(call(r#""{\"x\": \"y\"}""#)).unwrap();
    assert_eq!((prompt.prompt().dropped().len(), prompt.account().offers_forms()), (1, true));
    assert!(items.prompt(call(r#"{"x": "y"}"#)).unwrap().prompt().dropped().is_empty());
    // It refuses a text.
    let refuses = as_given(&turn("{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}"));
    let error = refuses.prompt(call(r#""{\"x\": \"y\"}""#)).unwrap_err();
    assert!(matches!(error, Error::Template { as_wanted: true, .. }), "{error:?}");
    let wanted = |model: &Model| model.with_settings(Settings::default());
    assert!(wanted(&items).prompt(call(r#""{\"x\": \"y\"}""#)).unwrap().prompt().dropped().is_empty());
    // It prints parts as a list.
    let lists = as_given("{% for m in messages %}{{ m.content }}{% endfor %}");
    let parts = r#"[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]"#;
    let request = || Request::from_text(parts).unwrap();
    assert!(lists.prompt(request()).unwrap().account().offers_forms());
    let prompt = wanted(&lists).prompt(request()).unwrap();
    assert_eq!((prompt.text(), prompt.account().leaves()), ("a\nb", &[][..]));
    let forms: Vec<_> = prompt.account().forms().iter().map(|change| (change.kind.name(), change.count)).collect();
    assert_eq!(forms, [("joined_parts", 1)]);
}
