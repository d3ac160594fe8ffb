//! Runs every case of `fixtures/grammar/`: a format, tools and options; the grammar in three
//! languages, and texts that it accepts and rejects. proofs/grammar tries the same texts on the
//! engines' own libraries.

#[path = "common/matcher.rs"]
mod matcher;

use matcher::matches;
use rolecall_conversation::{Json, Tool, json};
use rolecall_fixture::Fixture;
use rolecall_format::{Format, builtin, load, shared_calls};
use rolecall_grammar::{Answer, Options, PrintedGrammar, Reasoning, Token, ToolChoice, grammar};

#[test]
fn every_case_is_as_it_says() {
    Fixture::check_all("grammar", check);
}

fn check(case: &mut Fixture) {
    let path = case.path.display().to_string();
    let format = format_of(case.needed("format"));
    let options = options_of(case);
    let grammar = match grammar(&format, &options) {
        Ok(grammar) => grammar,
        Err(error) => return case.expect("error", &format!("{}: {error}\n{}", error.code(), error.help())),
    };
    for (section, takes) in [("accepts", true), ("refuses", false)] {
        for line in case.section(section).unwrap_or_default().lines() {
            let Ok(Json::String(text)) = json::parse(line) else { panic!("{path}: `{section}` has {line}") };
            assert_eq!(matches(&grammar, &text), takes, "{path}: {section} {line}\n{}", grammar.to_gbnf().text);
        }
    }
    let printed: [(&str, PrintedGrammar); 3] =
        [("structural-tag", grammar.to_structural_tag()), ("lark", grammar.to_lark()), ("gbnf", grammar.to_gbnf())];
    // The tokens that the proof's tokenizer needs: the emitted control tokens, by text.
    let emitted = format.controls.iter().filter(|control| control.emitted).map(|control| control.text.as_str());
    let tokens: Vec<Json> = emitted.map(Json::from).collect();
    if !tokens.is_empty() {
        case.expect("tokens", &json::write(&Json::Array(tokens), &json::Layout::default()));
    }
    let mut notes = String::new();
    for (name, printed) in &printed {
        for note in &printed.notes {
            notes.push_str(&format!("{name}: {note}\n"));
        }
    }
    if !notes.is_empty() || case.section("notes").is_some() {
        case.expect("notes", notes.trim_end());
    }
    for (name, printed) in &printed {
        case.expect(name, printed.text.trim_end());
    }
}

/// Returns a format by its name, or parses one.
fn format_of(section: &str) -> Format {
    if let Some(format) = builtin().get(section) {
        return Format::clone(format);
    }
    let shared = shared_calls().find(|(name, _)| *name == section);
    let file = shared.map_or(section, |(_, file)| file);
    load(file).unwrap_or_else(|error| panic!("{file}\n{error}"))
}

fn options_of(case: &Fixture) -> Options {
    let read = |section: &str| json::parse(section).unwrap_or_else(|error| panic!("{section}: {error}"));
    let tools = match case.section("tools").map(read) {
        Some(Json::Array(tools)) => tools,
        _ => Vec::new(),
    };
    let tools = tools.into_iter().map(|tool| Tool::from_json(tool).unwrap_or_else(|error| panic!("{error}")));
    let mut options = Options { tools: tools.collect(), ..Options::default() };
    for (key, value) in read(case.section("options").unwrap_or("{}")).as_object().into_iter().flat_map(|all| all.iter())
    {
        match (key, value.as_str()) {
            ("choice", Some("none")) => options.choice = ToolChoice::None,
            ("choice", Some("auto")) => options.choice = ToolChoice::Auto,
            ("choice", Some("required")) => options.choice = ToolChoice::Required,
            ("choice", Some(name)) => options.choice = ToolChoice::Named(name.to_owned()),
            ("reasoning", Some("off")) => options.reasoning = Reasoning::Off,
            ("reasoning", Some("optional")) => options.reasoning = Reasoning::Optional,
            ("reasoning", Some("required")) => options.reasoning = Reasoning::Required,
            ("reasoning", Some("over")) => options.reasoning = Reasoning::Over,
            ("prompt", Some(tail)) => options.prompt_tail = Some(tail.to_owned()),
            ("tokens", _) => options.tokens = tokens_of(value),
            ("answer", Some("object")) => options.answer = Answer::Object,
            ("answer", _) => options.answer = Answer::Schema(value.clone()),
            ("one-call", _) => options.one_call = value.as_bool() == Some(true),
            _ => panic!("{}: no option `{key}`", case.path.display()),
        }
    }
    options
}

/// Parses an object of token texts with their ids.
fn tokens_of(value: &Json) -> Vec<Token> {
    let each = value.as_object().into_iter().flat_map(|all| all.iter());
    let id = |id: &Json| match id {
        Json::Number(number) => number.as_i64().and_then(|id| u32::try_from(id).ok()),
        _ => None,
    };
    each.map(|(text, value)| Token { text: text.to_owned(), id: id(value) }).collect()
}
