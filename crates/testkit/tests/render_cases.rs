//! Every case of `fixtures/render/<format>/`: a request, and the exact prompt with its segments or the refusal.
#![expect(clippy::panic, reason = "a test fails by a panic, in its helpers too")]

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rolecall::json::{self, Layout};
use rolecall::{Bos, Error, Json, Options, Origin, Prompt, Registry, Request, RuleMode, render};
use rolecall_testkit::Fixture;

#[test]
fn every_case_renders_as_it_says() {
    let registry = Registry::builtin();
    let cases = Fixture::of_folder("render");
    let count = cases.len();
    let mut wrong = Vec::new();
    for mut case in cases {
        // All wrong cases are told at once, not the first alone.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&mut case, &registry))) {
            wrong.push(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| case.path.display().to_string()));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} cases are wrong", wrong.len());
}

#[test]
fn every_built_in_format_has_cases() {
    let cases = Fixture::of_folder("render");
    for format in Registry::builtin().iter() {
        let own = cases.iter().filter(|case| folder(case) == format.name).count();
        assert!(own >= 4, "fixtures/render/{} holds {own} cases", format.name);
    }
}

fn check(case: &mut Fixture, registry: &Registry) {
    let name = folder(case);
    let format = registry.get(&name).unwrap_or_else(|| panic!("{}: no format {name}", case.path.display()));
    let options = case.section("options").map(options).unwrap_or_default();
    let request = Request::from_text(case.needed("request")).map_err(Error::from);
    let rendered = request.and_then(|request| Ok(render(&request.conversation, format, &options)?));
    let (other, found) = match &rendered {
        Ok(_) => ("error", "a prompt"),
        Err(_) => ("prompt", "a refusal"),
    };
    assert!(case.section(other).is_none(), "{}: it expects `{other}`, and {found} came out", case.path.display());
    match rendered {
        Ok(prompt) => {
            case.expect("prompt", prompt.text());
            case.expect("segments", &segments(&prompt));
            let dropped = dropped(&prompt);
            if !dropped.is_empty() || case.section("dropped").is_some() {
                case.expect("dropped", &dropped);
            }
        }
        Err(error) => case.expect("error", &refusal(&error)),
    }
}

fn folder(case: &Fixture) -> String {
    let folder = case.path.parent().and_then(|folder| folder.file_name());
    folder.expect("a case lies in a folder").to_string_lossy().into_owned()
}

/// `{"bos"?: "leave", "rules"?: "reference", "options"?: {..}}`
fn options(text: &str) -> Options {
    let Ok(Json::Object(object)) = json::parse(text) else { panic!("not an object: {text}") };
    let mut options = Options::default();
    for (key, value) in object.iter() {
        match (key, value) {
            ("bos", Json::String(who)) if who == "leave" => options.bos = Bos::LeaveToTokenizer,
            ("rules", Json::String(mode)) if mode == "reference" => options.rules = RuleMode::Reference,
            ("options", Json::Object(choices)) => {
                let each =
                    choices.iter().map(|(name, value)| (name.to_owned(), value.as_str().expect("a text").to_owned()));
                options.choices = each.collect();
            }
            (key, value) => panic!("unknown: {key} = {value:?}"),
        }
    }
    options
}

/// One line each: where it comes from, and the text as JSON. Neighbours of one origin are one; control tokens stay apart.
fn segments(prompt: &Prompt) -> String {
    let mut merged: Vec<(Origin, String)> = Vec::new();
    for segment in prompt.segments() {
        match merged.last_mut() {
            Some((origin, text)) if *origin == segment.origin && !matches!(origin, Origin::Control(_)) => {
                text.push_str(segment.text)
            }
            _ => merged.push((segment.origin, segment.text.to_owned())),
        }
    }
    let lines = merged.into_iter().map(|(origin, text)| {
        let origin = match origin {
            Origin::Control(_) => "control".to_owned(),
            Origin::Format => "format".to_owned(),
            Origin::Message { message, field } => format!("message {message} {field}"),
            Origin::Tool { tool } => format!("tool {tool}"),
            Origin::Option { name } => format!("option {name}"),
        };
        format!("{origin}\t{}", json::write(&Json::from(text), &Layout::default()))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn dropped(prompt: &Prompt) -> String {
    let lines = prompt.dropped.iter().map(|dropped| format!("{}\t{}", dropped.place, dropped.why));
    lines.collect::<Vec<_>>().join("\n")
}

fn refusal(error: &Error) -> String {
    let mut text = format!("code: {}\nmessage: {error}", error.code());
    if let Some(place) = error.place() {
        let _ = write!(text, "\nplace: {place}");
    }
    if let Some(help) = error.help() {
        let _ = write!(text, "\nhelp: {help}");
    }
    text
}
