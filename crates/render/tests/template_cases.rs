//! Runs every case of `fixtures/template`: a conversation rendered by a chat template, and the
//! prompt or the refusal. A case may have `options`:
//! `{"calls": "as-wanted", "now": "2026-11-21T12:34:56", "tokens": {"bos_token": "<s>"}}`.

use rolecall_conversation::{Conversation, Json, json};
use rolecall_fixture::Fixture;
use rolecall_render::{ChatTemplate, Error, Forms, Prompt, TemplateOptions, Writer};

#[test]
fn every_case_comes_out_as_it_is_written() {
    for mut case in Fixture::of_folder("template") {
        let options = json::parse(case.section("options").unwrap_or("{}")).expect("the options are JSON");
        let sections: Vec<String> = case.sections().map(|(name, _)| name.to_owned()).collect();
        // Several conversations of one session have several sections: `request`, `request 2`.
        for name in sections.iter().filter(|name| name.starts_with("request")) {
            let number = name.strip_prefix("request").unwrap_or_default();
            match run(case.needed("template"), case.needed(name), &options) {
                Ok(prompt) => case.expect(&format!("prompt{number}"), prompt.text()),
                Err(words) => case.expect(&format!("error{number}"), &words),
            }
        }
    }
}

fn run(template: &str, request: &str, options: &Json) -> Result<Prompt, String> {
    let option = |name: &str| options.as_object().and_then(|options| options.get(name));
    let tokens = option("tokens").and_then(Json::as_object);
    let tokens = tokens.map(|tokens| {
        tokens.iter().filter_map(|(name, token)| Some((name.to_owned(), token.as_str()?.to_owned()))).collect()
    });
    let template = ChatTemplate::compile(template, tokens.unwrap_or_default()).map_err(|error| told(&error))?;
    let request = json::parse(request).expect("the request is JSON");
    let conversation = Conversation::from_json(request).map_err(|error| format!("{}: {error}", error.code()))?;
    let forms = match option("forms").and_then(Json::as_str) {
        Some("as-wanted") => Forms::AsWanted,
        _ => Forms::AsGiven,
    };
    let now = option("now").and_then(Json::as_str).map(|text| text.parse().expect("`now` is a time"));
    let options = TemplateOptions { now, forms, ..TemplateOptions::default() };
    Writer::template(template, options).render(&conversation).map_err(|error| told(&error))
}

/// Writes the error, its line in the template, and its place in the conversation.
fn told(error: &Error) -> String {
    let mut text = format!("{}: {error}", error.code());
    if let Error::Template { error, .. } = error {
        text.push_str(&format!("\nline {}: {}", error.place().line, error.place().source_line));
    }
    if let Some(place) = error.place() {
        text.push_str(&format!("\nat {place}"));
    }
    text
}
