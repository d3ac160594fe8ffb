//! Whether a new message changes what was already rendered: the cases of `fixtures/stability`, a
//! comparison with renderings of every prefix, and the page about the reference templates.
//!
//! A case may have `options`: `{"pace": "daily"}`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fmt::Write;

use rolecall::Prompt;
use rolecall::conversation::{Conversation, Json, Message, Role, json};
use rolecall::render::{Error as RenderError, Options};
use rolecall::stability::{Case, Kept, KeptIds, Pace, Speaker, Stability, stability_with};
use rolecall::template::{CallForm, ChatTemplate, DateTime, TemplateOptions};
use rolecall_testkit::{Fixture, FolderTemplates};

const NOON: DateTime = DateTime { year: 2026, month: 11, day: 30, hour: 12, minute: 0, second: 0, microsecond: 0 };

#[test]
fn every_case_comes_out_as_it_is_written() {
    Fixture::check_all("stability", |case| {
        let template = ChatTemplate::compile(case.needed("template"), Vec::new()).unwrap();
        let conversation = Conversation::from_json(json::parse(case.needed("request")).unwrap()).unwrap();
        let options = json::parse(case.section("options").unwrap_or("{}")).unwrap();
        let pace = options.as_object().and_then(|options| options.get("pace")).and_then(Json::as_str);
        let pace = if pace == Some("daily") { Pace::Daily } else { Pace::AtOnce };
        let options = TemplateOptions { now: Some(NOON), ..TemplateOptions::default() };
        let found = stability_with(&conversation, Speaker::Template(&template, &options), pace, &mut |_| None);
        case.expect("steps", &told(&found));
    });
}

/// Writes each step on a line, and its generation prompt on another.
fn told(found: &Stability) -> String {
    let mut text = String::new();
    for step in &found.steps {
        let _ = writeln!(text, "{} + {}: {}", step.messages, step.added, told_kept(&step.history));
        if let Some(generation) = &step.generation {
            let _ = writeln!(text, "  generation prompt: {}", told_kept(generation));
        }
    }
    text.trim_end().to_owned()
}

fn told_kept(kept: &Result<Kept, RenderError>) -> String {
    let kept = match kept {
        Ok(kept) => kept,
        Err(error) => return format!("refused: {error}"),
    };
    let Some(change) = &kept.change else { return format!("keeps {} bytes", kept.bytes) };
    let line = |written: &rolecall::stability::Written| {
        let line = written.spot.map_or("no line".to_owned(), |spot| format!("line {}", spot.line));
        let message = written.message.map_or("no message".to_owned(), |message| format!("message {message}"));
        format!("{line} for {message}")
    };
    let later = change.later.as_ref().map_or("the end".to_owned(), line);
    let at = if change.byte == change.character { String::new() } else { format!(" (character {})", change.character) };
    format!("byte {}{at} of {}: {} -> {later}", change.byte, kept.bytes, line(&change.earlier))
}

#[test]
fn every_answer_is_that_of_comparing_all_prefixes() {
    let mut compared = Compared::default();
    let options = Options::default();
    for format in rolecall::format::registry().iter() {
        check(&format.name, Speaker::Format(format, &options), &mut compared);
    }
    assert!(compared.steps > 5_000 && compared.changes > 50, "{compared:?}");
    let options = TemplateOptions { now: Some(NOON), calls: CallForm::AsWanted, ..TemplateOptions::default() };
    for case in Fixture::of_folder("stability") {
        let template = ChatTemplate::compile(case.needed("template"), Vec::new()).unwrap();
        check(&case.path.display().to_string(), Speaker::Template(&template, &options), &mut compared);
    }
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("only formats and templates of our own are compared");
        return;
    };
    for (name, template) in FolderTemplates::read(&shared.join("templates")).unwrap().compiled {
        check(&name, Speaker::Template(&template, &options), &mut compared);
    }
    assert!(compared.changes > 2_000, "{compared:?}");
}

#[derive(Debug, Default)]
struct Compared {
    steps: usize,
    changes: usize,
}

/// Compares each conversation with renderings of all its prefixes.
fn check(name: &str, speaker: Speaker<'_>, compared: &mut Compared) {
    for case in Case::all().into_iter().filter(|case| case.pace == Pace::AtOnce) {
        let messages = &case.conversation.messages;
        let mut asked = 0;
        let mut ids = |prompt: &Prompt| {
            asked += 1;
            Some(ids_of(prompt))
        };
        let found = stability_with(&case.conversation, speaker, Pace::AtOnce, &mut ids);
        let replies = messages[1..].iter().filter(|message| *message.role() == Role::Assistant).count();
        assert!(asked <= messages.len() + replies, "{name}, {}: {asked} renderings", case.name);
        assert_eq!(found.steps.len(), messages.len() - 1);
        for (at, step) in found.steps.iter().enumerate() {
            let what = format!("{name}, {}, step {at}", case.name);
            assert_eq!(step.messages, at + 1, "{what}");
            let prefix = |end: usize, opened| rendered(&case.conversation, &messages[..end], opened, speaker);
            let later = prefix(at + 2, false);
            assert_kept(&step.history, prefix(at + 1, false), &later, &what, compared);
            let is_reply = *messages[at + 1].role() == Role::Assistant;
            assert_eq!(step.generation.is_some(), is_reply, "{what}");
            if let Some(generation) = &step.generation {
                assert_kept(generation, prefix(at + 1, true), &later, &what, compared);
            }
        }
    }
}

fn rendered(
    conversation: &Conversation,
    messages: &[Message],
    opened: bool,
    speaker: Speaker<'_>,
) -> Result<Prompt, RenderError> {
    let mut conversation = conversation.clone();
    conversation.messages = messages.to_vec();
    conversation.add_generation_prompt = Some(opened);
    speaker.render(&conversation)
}

fn assert_kept(
    found: &Result<Kept, RenderError>,
    earlier: Result<Prompt, RenderError>,
    later: &Result<Prompt, RenderError>,
    what: &str,
    compared: &mut Compared,
) {
    compared.steps += 1;
    let (Ok(earlier), Ok(later)) = (&earlier, later) else {
        let error = earlier.as_ref().err().or(later.as_ref().err());
        assert_eq!(found.as_ref().err(), error, "{what}");
        return;
    };
    let kept = found.as_ref().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(kept.bytes, earlier.text().len(), "{what}");
    assert_eq!(kept.characters, earlier.text().chars().count(), "{what}");
    assert_eq!(kept.is_stable(), later.text().starts_with(earlier.text()), "{what}");
    let (ours, theirs) = (ids_of(earlier), ids_of(later));
    let same = (0..=ours.len()).rev().find(|same| theirs.starts_with(&ours[..*same]));
    assert_eq!(kept.ids, Some(KeptIds { of: ours.len(), kept: same.unwrap() }), "{what}");
    let Some(change) = &kept.change else { return };
    compared.changes += 1;
    let (a, b): (Vec<char>, Vec<char>) = (earlier.text().chars().collect(), later.text().chars().collect());
    let at = (0..a.len()).find(|at| a.get(*at) != b.get(*at)).unwrap();
    assert_eq!(change.character, at, "{what}");
    assert_eq!(change.byte, a[..at].iter().map(|character| character.len_utf8()).sum::<usize>(), "{what}");
    assert_eq!(Some(&change.earlier.origin), earlier.origin_at(change.byte).as_ref(), "{what}");
    assert_eq!(change.later.as_ref().map(|written| &written.origin), later.origin_at(change.byte).as_ref(), "{what}");
    // A template has a line for each byte that it wrote.
    let has_line = |written: &rolecall::stability::Written| written.spot.is_some();
    let is_template = earlier.template().is_some();
    assert_eq!(has_line(&change.earlier), is_template, "{what}");
    assert!(change.later.as_ref().is_none_or(|written| has_line(written) == is_template), "{what}");
}

/// Returns ids of a toy tokenizer: an id for every two characters of a line, so that the last id of
/// an earlier prompt may not be one of the later prompt.
fn ids_of(prompt: &Prompt) -> Vec<u32> {
    let characters: Vec<u32> = prompt.text().chars().map(u32::from).collect();
    let lines = characters.split_inclusive(|character| *character == u32::from('\n'));
    lines.flat_map(|line| line.chunks(2).map(|pair| pair.iter().fold(1, |id, next| id * 4096 + next % 4096))).collect()
}
