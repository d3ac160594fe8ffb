//! Nothing of a request is lost in silence: each word of each leaf is in the prompt, or the account
//! says what became of it. For every format and dialect, for every real template, and for every
//! builtin that keeps origins.
//!
//! `ROLECALL_ACCOUNTS` is the number of requests for each format and template, and `ROLECALL_SEED`
//! the first seed.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::env;

use fastrand::Rng;
use rolecall::account::{Account, Leaf, LeafKind};
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Conversation, Json, Place, object};
use rolecall::render::{RuleMode, Writer};
use rolecall::template::{ChatTemplate, Forms, TemplateOptions};
use rolecall::{Origin, Prompt};
use rolecall_testkit::FolderTemplates;
use rolecall_testkit::generate::{self, Spot};

fn number(name: &str, usual: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let first = number("ROLECALL_SEED", 0);
    first..first + number("ROLECALL_ACCOUNTS", usual)
}

/// Reports whether a leaf of an account stands for a place.
fn covers(leaf: &Leaf, place: &Place) -> bool {
    let Place { message, field } = &leaf.place;
    *message == place.message
        && place
            .field
            .strip_prefix(&**field)
            .is_some_and(|rest| field.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns what an account says about a byte range of the text at a place: whether it is in the
/// prompt, or `None` if it is there in another form.
fn is_written(account: &Account, place: &Place, range: std::ops::Range<usize>) -> Option<bool> {
    let leaves: Vec<&Leaf> = account.leaves().iter().filter(|leaf| covers(leaf, place)).collect();
    if leaves.iter().any(|leaf| leaf.kind == LeafKind::Changed) {
        return None;
    }
    let is_missing = |leaf: &&Leaf| match leaf.missing.as_slice() {
        [] => true,
        missing => missing.iter().any(|gap| gap.start < range.end && range.start < gap.end),
    };
    Some(!leaves.iter().any(is_missing))
}

#[test]
fn every_text_of_a_request_is_written_by_a_format_or_in_its_account() {
    let (mut texts, mut lost, mut wrong) = (0, 0, Vec::new());
    let registry = rolecall::format::registry();
    for format in generate::variants(&registry) {
        for (seed, rules) in seeds(12).flat_map(|seed| [(seed, RuleMode::Enforce), (seed, RuleMode::Reference)]) {
            let mut spots: BTreeMap<String, Spot> = BTreeMap::new();
            let generated = generate::conversation(format, seed, rules, &mut |spot| {
                let text = format!("t{}é{seed}x", spots.len());
                spots.insert(text.clone(), spot.clone());
                text
            });
            let conversation = Conversation::from_json(generated.request.clone()).unwrap();
            let Ok(prompt) = Writer::format(format.clone(), generated.options.clone()).render(&conversation) else {
                continue;
            };
            let account = Account::by_origins(&conversation, &prompt);
            let request = json::write(&generated.request, &Layout::compact());
            // The generator drops some of its texts.
            for (text, spot) in spots.iter().filter(|(text, _)| request.contains(text.as_str())) {
                let place = match &spot.origin {
                    Origin::Message { message, field } => Place::message(*message, field.clone().into_owned()),
                    Origin::Tool { tool } => Place::field(format!("tools[{tool}]")),
                    Origin::Document { document } => Place::field(format!("documents[{document}]")),
                    _ => continue,
                };
                texts += 1;
                let is_there =
                    prompt.text().contains(text.as_str()) || prompt.text().contains(&text.replace('é', "\\u00e9"));
                // A tool has several texts, and its place is that of all.
                let is_told = account.leaves().iter().any(|leaf| covers(leaf, &place) || within(leaf, &place));
                lost += usize::from(!is_there);
                if !is_there && !is_told {
                    wrong.push(format!("{}, seed {seed}: {text} of {place}\n  {request}", generate::label(format)));
                }
            }
        }
    }
    println!("{texts} texts, {lost} of them not in the prompt and accounted for");
    assert!(wrong.is_empty(), "{} of {texts}:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(texts > 1_000 && lost > 100, "{texts} {lost}");
}

/// Reports whether a leaf is inside a place.
fn within(leaf: &Leaf, place: &Place) -> bool {
    covers(&Leaf { place: place.clone(), ..leaf.clone() }, &leaf.place)
}

/// The text of each leaf of a generated request by its place.
type Texts = Vec<(Place, String)>;

/// Makes requests for templates.
struct Maker {
    rng: Rng,
    words: usize,
}

impl Maker {
    /// Returns a text of words that occur nowhere else.
    fn text(&mut self) -> String {
        let mut text = String::new();
        let before = ["", "", "", " ", "\n"];
        text.push_str(before[self.rng.usize(..before.len())]);
        for at in 0..self.rng.usize(1..4) {
            let between = [" ", " ", "\n", "\n\n", "<", "\"", "'", "é ", "</think>", " X ", "\\", "bad", "{% "];
            if at > 0 {
                text.push_str(between[self.rng.usize(..between.len())]);
            }
            text.push_str(&self.word());
        }
        if self.rng.u8(..5) == 0 {
            text.push_str(" \n");
        }
        text
    }

    fn word(&mut self) -> String {
        self.words += 1;
        format!("w{}q", self.words)
    }

    fn request(&mut self) -> Json {
        let mut messages = Vec::new();
        if self.rng.bool() {
            messages.push(self.message("system"));
        }
        let has_calls = self.rng.bool();
        for _ in 0..self.rng.usize(1..4) {
            messages.push(self.message("user"));
            if has_calls && self.rng.bool() {
                let mut call = self.message("assistant");
                if let Json::Object(object) = &mut call {
                    object.insert("tool_calls", Json::Array(vec![self.call()]));
                }
                messages.push(call);
                let mut result = self.message("tool");
                if let Json::Object(object) = &mut result {
                    object.insert("tool_call_id", "abcdefghi".into());
                }
                messages.push(result);
            }
            messages.push(self.message("assistant"));
        }
        if self.rng.bool() {
            messages.push(self.message("user"));
        }
        let mut request = object! { "messages" => Json::Array(messages) };
        if has_calls {
            request.insert("tools", Json::Array(vec![self.tool()]));
        }
        if self.rng.u8(..4) == 0 {
            let document = object! { "title" => self.word(), "text" => self.text() };
            request.insert("documents", Json::Array(vec![document.into()]));
        }
        request.into()
    }

    fn message(&mut self, role: &str) -> Json {
        let content: Json = match self.rng.u8(..6) {
            0 if role == "user" => {
                let parts = (0..self.rng.usize(1..3)).map(|_| {
                    let text = self.text();
                    object! { "type" => "text", "text" => text }.into()
                });
                Json::Array(parts.collect())
            }
            _ => self.text().into(),
        };
        let mut message = object! { "role" => role, "content" => content };
        if role == "assistant" && self.rng.u8(..3) == 0 {
            message.insert("reasoning_content", self.text().into());
        }
        let others =
            ["name", "refusal", "audio", "annotations", "observation", "metadata", "plugin", "label", "own_key"];
        if self.rng.u8(..3) == 0 {
            let value: Json = match self.rng.u8(..3) {
                0 => object! { "inner" => self.text() }.into(),
                _ => self.text().into(),
            };
            let key = others[self.rng.usize(..others.len())];
            let value = if key == "name" { self.word().into() } else { value };
            message.insert(key, value);
        }
        message.into()
    }

    fn call(&mut self) -> Json {
        let mut arguments = Object::new();
        for at in 0..self.rng.usize(1..3) {
            let value: Json = match self.rng.u8(..5) {
                0 => object! { "deep" => self.text() }.into(),
                1 => Json::Array(vec![self.text().into(), self.text().into()]),
                _ => self.text().into(),
            };
            arguments.insert(["place", "when", "how"][at], value);
        }
        let function = object! { "name" => self.word(), "arguments" => Json::Object(arguments) };
        object! { "id" => "abcdefghi", "type" => "function", "function" => Json::Object(function) }.into()
    }

    fn tool(&mut self) -> Json {
        let property = object! { "type" => "string", "description" => self.text() };
        let properties = object! { "place" => Json::Object(property) };
        let parameters = object! { "type" => "object", "properties" => Json::Object(properties),
        "required" => Json::Array(vec!["place".into()]) };
        let function = object! { "name" => self.word(), "description" => self.text(),
        "parameters" => Json::Object(parameters), "own" => self.word() };
        object! { "type" => "function", "function" => Json::Object(function) }.into()
    }
}

/// Collects the texts in a value.
fn texts(value: &Json, message: Option<usize>, path: &str, found: &mut Texts) {
    match value {
        Json::String(text) => found.push((Place { message, field: path.to_owned().into() }, text.clone())),
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                texts(item, message, &format!("{path}[{at}]"), found);
            }
        }
        Json::Object(entries) => {
            for (key, value) in entries.iter() {
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                texts(value, message, &path, found);
            }
        }
        _ => {}
    }
}

fn texts_of(request: &Json) -> Texts {
    let mut found = Texts::new();
    for (key, value) in request.as_object().unwrap().iter() {
        match (key, value) {
            ("messages", Json::Array(messages)) => {
                for (at, message) in messages.iter().enumerate() {
                    texts(message, Some(at), "", &mut found);
                }
            }
            _ => texts(value, None, key, &mut found),
        }
    }
    found
}

/// Returns the words of generated texts, with their places in a text.
fn words(text: &str) -> impl Iterator<Item = (&str, std::ops::Range<usize>)> {
    let is_word = |word: &&str| word.starts_with('w') && word.ends_with('q') && word.len() > 2;
    let split = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_word);
    split.map(move |word| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        (word, start..start + word.len())
    })
}

/// Checks each word of a request, and returns the number of words and of those that are not in the
/// prompt.
fn check(request: &Json, prompt: &Prompt, account: &Account) -> Result<(usize, usize), String> {
    let (mut count, mut lost) = (0, 0);
    for (place, text) in texts_of(request) {
        // A template may write a list of letters.
        let letters = || -> String {
            let own = prompt.segments().filter(|segment| segment.origin.message() == place.message);
            own.map(|segment| segment.text.replace('"', "")).collect()
        };
        for (word, range) in words(&text) {
            count += 1;
            let Some(said) = is_written(account, &place, range.clone()) else { continue };
            let is_there = prompt.text().contains(word) || (said && letters().contains(word));
            lost += usize::from(!is_there);
            if is_there != said {
                let leaves: Vec<&Leaf> = account.leaves().iter().filter(|leaf| covers(leaf, &place)).collect();
                return Err(format!(
                    "{word} of {place}, bytes {range:?}: in the prompt: {is_there}, by the account: {said}, {leaves:?}\n  \
                     {}\n  {:?}",
                    json::write(request, &Layout::compact()),
                    prompt.text()
                ));
            }
        }
    }
    Ok((count, lost))
}

/// Renders a conversation with its account, which is the same at once and once it is asked for.
fn account_of(conversation: &Conversation, template: &ChatTemplate, forms: Forms) -> Option<(Prompt, Account)> {
    let options = options(forms);
    let writer = Writer::template(template.clone(), options);
    let at_once = writer.account(conversation).ok();
    let later = writer.record(conversation).ok();
    let later = later.map(|(prompt, record)| (prompt, record.expect("a template's run").account(conversation)));
    assert_eq!(later, at_once, "{}", template.source());
    at_once
}

fn options(forms: Forms) -> TemplateOptions {
    TemplateOptions { now: Some("2026-11-21".parse().unwrap()), forms, ..TemplateOptions::default() }
}

#[test]
fn every_word_of_a_request_is_written_by_a_real_template_or_in_its_account() {
    let Some(shared) = rolecall_testkit::shared() else {
        return rolecall_testkit::say_skipped("the accounts of real templates are not checked");
    };
    let templates = FolderTemplates::read(&shared.join("templates")).unwrap().compiled;
    let (mut prompts, mut all, mut lost, mut wrong) = (0, 0, 0, Vec::new());
    for (name, template) in &templates {
        for seed in seeds(12) {
            let request = Maker { rng: Rng::with_seed(seed), words: 0 }.request();
            let conversation = Conversation::from_json(request.clone()).unwrap();
            for forms in [Forms::AsGiven, Forms::AsWanted] {
                let Some((prompt, account)) = account_of(&conversation, template, forms) else { continue };
                prompts += 1;
                match check(&request, &prompt, &account) {
                    Ok((count, missing)) => (all, lost) = (all + count, lost + missing),
                    Err(why) => wrong.push(format!("{name}, {forms:?}, seed {seed}: {why}")),
                }
            }
        }
    }
    println!("{prompts} prompts of {} templates, {all} words, {lost} of them not in the prompt", templates.len());
    assert!(wrong.is_empty(), "{} of {prompts}:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
    assert!(prompts > templates.len() && lost > prompts, "{prompts} {lost}");
}

/// Expressions over a content `c`, each with a builtin that keeps the origin of what it passes on.
const BUILTINS: &[&str] = &[
    "c",
    "c|string",
    "c|trim",
    "c.strip()",
    "c.lstrip()",
    "c.rstrip('q')",
    "c|safe",
    "c|replace('bad', '')",
    "c.replace('bad', 'good')",
    "c|replace('\\n', ' ')",
    "c.split('X')[0]",
    "c.split('X')[-1]",
    "c.rsplit('X', 1)[0]",
    "c.split('</think>')[-1]",
    "c.split()|join(' ')",
    "c.splitlines()|join('|')",
    "c.partition('X')[2]",
    "c.rpartition('X')[0]",
    "c[:5]",
    "c[3:]",
    "c[-4:]",
    "c[2:-2]",
    "c[1]",
    "c|first",
    "c|last",
    "c|list|join",
    "c|truncate(9, true, '')",
    "c|truncate(9)",
    "c|wordwrap(8)",
    "c|indent(2)",
    "c|center(80)",
    "c ~ '!'",
    "'<' + c",
    "c * 2",
    "'%s!' % c",
    "'{}!'.format(c)",
    "'{0:>30}'.format(c)",
    "c|format",
    "[c, c]|join('-')",
    "[c]|first",
    "{'k': c}.k",
    "{'k': c}|tojson",
    "c|tojson",
    "c[:6]|tojson",
    "('a' ~ c)|tojson",
    "[c]|string",
    "c|e",
    "c|forceescape",
    "(c ~ '<')|e",
    "c|striptags",
    "c|urlencode",
    "c.removeprefix('w')",
    "c.removesuffix('q')",
    "c.expandtabs(2)",
    "c.ljust(90)",
    "c.zfill(90)",
    "c.join(['(', ')'])",
    "c|reverse",
    "c|batch(3)|map('join')|join('/')",
    "[c]|map('trim')|join",
    "[c]|select|join",
    "(c,)|join",
    "c if c else ''",
    "c or 'x'",
    "c|default('x')",
    "dict(k=c).values()|join",
    "namespace(k=c).k",
    "c.encode|default(c)",
    "c|sort|join",
    "[c, 'z']|max",
    "(messages|map(attribute='content')|list)[loop.index0]",
    "(messages|map(attribute='content')|join('|'))",
    "[[c]]|sum(start=[])|join",
];

#[test]
fn every_builtin_keeps_what_the_account_needs() {
    let (mut prompts, mut lost, mut wrong) = (0, 0, Vec::new());
    for expression in BUILTINS {
        let bodies = [
            format!("{{% for m in messages %}}{{% set c = m.content %}}[{{{{ {expression} }}}}]{{% endfor %}}"),
            // A captured block, and a macro.
            format!(
                "{{% for m in messages %}}{{% set c = m.content %}}{{% set d %}}{{{{ {expression} }}}}{{% endset %}}[{{{{ d }}}}]{{% endfor %}}"
            ),
            format!(
                "{{% macro w(c, loop) %}}{{{{ {expression} }}}}{{% endmacro %}}{{% for m in messages %}}[{{{{ w(m.content, loop) }}}}]{{% endfor %}}"
            ),
        ];
        for body in bodies {
            let template =
                ChatTemplate::compile(&body, Vec::new()).unwrap_or_else(|error| panic!("{expression}: {error}"));
            for seed in seeds(12) {
                let mut maker = Maker { rng: Rng::with_seed(seed), words: 0 };
                let message = object! { "role" => "user", "content" => maker.text() };
                let other = object! { "role" => "assistant", "content" => maker.text() };
                let request: Json = object! { "messages" => Json::Array(vec![message.into(), other.into()]) }.into();
                let conversation = Conversation::from_json(request.clone()).unwrap();
                let Some((prompt, account)) = account_of(&conversation, &template, Forms::AsGiven) else { continue };
                prompts += 1;
                match check(&request, &prompt, &account) {
                    Ok((_, missing)) => lost += missing,
                    Err(why) => wrong.push(format!("{expression}, seed {seed}: {why}")),
                }
            }
        }
    }
    println!("{prompts} prompts of {} expressions, {lost} words not in the prompt", BUILTINS.len());
    assert!(wrong.is_empty(), "{} of {prompts}:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
    assert!(prompts > 20 * BUILTINS.len() && lost > 100, "{prompts} {lost}");
}
