//! Whether a new message changes what was already rendered: the cases of `fixtures/stability`, a
//! comparison with renderings of every prefix, and the page about the reference templates.
//!
//! A case may have `options`: `{"pace": "daily"}`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fmt::Write;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, Message, Role, json};
use rolecall::encode::PlainMarkers;
use rolecall::model::Settings;
use rolecall::render::{Bos, Error as RenderError, Options, Writer};
use rolecall::stability::{ByteSource, Case, KeptIds, KeptLength, Pace, Report, Stability, report, stability_with};
use rolecall::template::{ChatTemplate, DateTime, Forms, ModelTemplates, TemplateOptions};
use rolecall::{Model, Origin, Prompt, Request};
use rolecall_testkit::growth::{Window, grow};
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
        let found =
            stability_with(&conversation, &Writer::template(template.clone(), options.clone()), pace, &mut |_| None);
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

fn told_kept(kept: &Result<KeptLength, RenderError>) -> String {
    let kept = match kept {
        Ok(kept) => kept,
        Err(error) => return format!("refused: {error}"),
    };
    let Some(change) = &kept.change else { return format!("keeps {} bytes", kept.bytes) };
    let line = |written: &ByteSource| {
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
        check(&format.name, &Writer::format(format.clone(), options.clone()), &mut compared);
    }
    assert!(compared.steps > 5_000 && compared.changes > 50, "{compared:?}");
    let options = TemplateOptions { now: Some(NOON), forms: Forms::AsWanted, ..TemplateOptions::default() };
    for case in Fixture::of_folder("stability") {
        let template = ChatTemplate::compile(case.needed("template"), Vec::new()).unwrap();
        check(&case.path.display().to_string(), &Writer::template(template.clone(), options.clone()), &mut compared);
    }
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("only formats and templates of our own are compared");
        return;
    };
    for (name, template) in FolderTemplates::read(&shared.join("templates")).unwrap().compiled {
        check(&name, &Writer::template(template.clone(), options.clone()), &mut compared);
    }
    assert!(compared.changes > 2_000, "{compared:?}");
}

#[derive(Debug, Default)]
struct Compared {
    steps: usize,
    changes: usize,
}

/// Compares each conversation with renderings of all its prefixes.
fn check(name: &str, writer: &Writer, compared: &mut Compared) {
    for case in Case::all().into_iter().filter(|case| case.pace == Pace::AtOnce) {
        let messages = &case.conversation.messages;
        let mut asked = 0;
        let mut ids = |prompt: &Prompt| {
            asked += 1;
            Some(ids_of(prompt))
        };
        let found = stability_with(&case.conversation, writer, Pace::AtOnce, &mut ids);
        let replies = messages[1..].iter().filter(|message| *message.role() == Role::Assistant).count();
        assert!(asked <= messages.len() + replies, "{name}, {}: {asked} renderings", case.name);
        assert_eq!(found.steps.len(), messages.len() - 1);
        for (at, step) in found.steps.iter().enumerate() {
            let what = format!("{name}, {}, step {at}", case.name);
            assert_eq!(step.messages, at + 1, "{what}");
            let prefix = |end: usize, opened| rendered(&case.conversation, &messages[..end], opened, writer);
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
    writer: &Writer,
) -> Result<Prompt, RenderError> {
    let mut conversation = conversation.clone();
    conversation.messages = messages.to_vec();
    conversation.add_generation_prompt = Some(opened);
    writer.render(&conversation)
}

fn assert_kept(
    found: &Result<KeptLength, RenderError>,
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
    let has_line = |written: &ByteSource| written.spot.is_some();
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

const PAGE: &str = "docs/stability.md";

const HEAD: &str = "# Stability of chat templates

An engine keeps the ids that it has processed. They stay valid only if the next prompt begins with
the previous one. This page lists for each of the reference templates whether that is so, over the
conversations that `rolecall stability` uses: each is rendered up to each of its messages, and each
prompt is compared with the next one. `rolecall stability --template FILE --all` shows every change.

- **history**: `stable`, or the number of steps that change what was rendered, without generation
  prompts
- **generation prompt**: `stable`, or the number of replies that do not begin with the generation
  prompt to which they reply
- **kinds**: the kinds of messages whose addition changes the history
- **first change**: the conversation and the message that is added (counted from 0), the first byte
  that differs and its text, the line of the template that wrote it, and the line that now writes
  another text there
- **next turn**: how a session renders the next turn of a plain conversation. If everything that a
  template read, compared and wrote before is shown to be unchanged, its rendering is taken up at the
  top of a loop, and the turn costs the same after any number of messages. The line is that of the
  loop; the number is how many of the messages before the new ones are rendered again. `whole` is
  followed by the reason why the whole conversation is rendered.
- Steps that a template refuses are not compared.

A test writes this page (`crates/testkit/tests/stability.rs`, `UPDATE=1`), and checks it if the
reference templates are available.

";

#[test]
fn the_page_lists_every_template() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("the page about the stability of templates is not checked");
        return;
    };
    let mut rows = String::new();
    let mut counts = [0; 5];
    for (file, template) in FolderTemplates::read(&shared.join("templates")).unwrap().compiled {
        let report = report_on(&file, &template);
        let (history, generation) = (report_of(&report, false), report_of(&report, true));
        let is_refused = !report.says_anything();
        counts[0] += 1;
        counts[1] += usize::from(history.is_none() && !is_refused);
        counts[2] += usize::from(generation.is_none() && !is_refused);
        counts[3] += usize::from(report.is_stable() && !is_refused);
        let word = |changes: &Option<Changes>| match changes {
            _ if is_refused => "refused".to_owned(),
            None => "stable".to_owned(),
            Some(changes) => changes.steps.to_string(),
        };
        let kinds = history.as_ref().map_or(String::new(), |changes| changes.kinds.join(", "));
        let first = history.as_ref().or(generation.as_ref()).map_or(String::new(), |changes| changes.first.clone());
        let turn = next_turn(&template);
        counts[4] += usize::from(turn.is_ok());
        let turn = turn.unwrap_or_else(|why| format!("whole: {why}"));
        let _ =
            writeln!(rows, "| `{file}` | {} | {} | {kinds} | {first} | {turn} |", word(&history), word(&generation));
    }
    let [all, history, generation, both, flat] = counts;
    let page = format!(
        "{HEAD}Of {all} templates, {history} never change the history, {generation} begin every reply with its generation\n\
         prompt, and {both} do both. The next turn of {flat} is rendered alone.\n\n\
         | template | history | generation prompt | kinds | first change | next turn |\n\
         | --- | --- | --- | --- | --- | --- |\n{rows}"
    );
    let path = rolecall_testkit::root().join(PAGE);
    if std::fs::read_to_string(&path).is_ok_and(|known| known == page) {
        return;
    }
    assert!(std::env::var_os("UPDATE").is_some(), "{PAGE} is stale; run `UPDATE=1 cargo test` to write it");
    std::fs::write(path, page).unwrap();
}

/// Renders the next turns of plain conversations, with and without a system message, from few
/// messages, and returns where the rendering is taken up, or why it is not.
fn next_turn(template: &ChatTemplate) -> Result<String, String> {
    match grown_turn(template, 0) {
        // Some templates have no place for a system message.
        Err(why) => grown_turn(template, 1).map_err(|_| why),
        found => found,
    }
}

fn grown_turn(template: &ChatTemplate, without: usize) -> Result<String, String> {
    const WINDOW: Window = Window { head: 4, tail: 6 };
    let options = TemplateOptions { forms: Forms::AsWanted, now: Some(NOON), ..TemplateOptions::default() };
    let writer = Writer::template(template.clone(), options.clone());
    let message = |at: usize| match at {
        0 => Message::system("You are kind."),
        at if at % 2 == 1 => Message::user(format!("Question {at}")),
        at => Message::assistant(format!("Answer {at}")),
    };
    let conversation = |count: usize| {
        let mut conversation = Conversation::new((without..count).map(message).collect());
        conversation.add_generation_prompt = Some(true);
        conversation
    };
    let rendered = writer.render_growing(&conversation(22));
    let (_, growth) = rendered.map_err(|error| error.code().to_owned())?;
    let mut growth = growth.ok_or("no loop over the messages can be taken up")?;
    for count in (24..=40).step_by(2) {
        let grown = grow(&writer, &growth, &conversation(count), WINDOW).map_err(|why| why.to_string())?;
        growth = grown.growth.ok_or("no loop over the messages can be taken up")?;
    }
    let place = growth.taken_up().ok_or("no loop over the messages can be taken up")?;
    Ok(format!("line {}, {} again", place.line, 40 - without - place.message))
}

/// Compares the prompts of a template over the built-in conversations, as the command does.
fn report_on(file: &str, template: &ChatTemplate) -> Report {
    let settings = Settings { forms: Forms::AsWanted, now: Some(NOON), ..Settings::default() };
    let model = Model::builder().templates(templates_of(template)).settings(settings).open().unwrap();
    report(&model, &Case::all()).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns a template as that of a model.
fn templates_of(template: &ChatTemplate) -> ModelTemplates {
    let mut templates = ModelTemplates::from_json(&template.source().into()).unwrap();
    for (name, token) in template.tokens() {
        templates.set_token(name, token.clone());
    }
    templates
}

/// The changes of the history or of generation prompts.
struct Changes {
    steps: usize,
    kinds: Vec<String>,
    first: String,
}

fn report_of(report: &Report, in_generation: bool) -> Option<Changes> {
    let mut changes = report.changes().filter(|(_, found)| found.in_generation == in_generation).peekable();
    let (case, found) = changes.peek()?;
    let (step, change) = (found.step, found.change);
    let line = |written: &ByteSource| written.spot.map_or(String::new(), |spot| spot.line.to_string());
    let later =
        change.later.as_ref().map_or("the prompt ends there".to_owned(), |later| format!("now {}", line(later)));
    let first = format!(
        "`{}`, message {} ({}): byte {}, {}, line {}, {later}",
        case.name,
        step.messages,
        step.added,
        change.byte,
        visible(&change.earlier.text),
        line(&change.earlier)
    );
    let mut known = Changes { steps: 0, kinds: Vec::new(), first };
    for (_, found) in changes {
        known.steps += 1;
        let kind = found.step.added.to_string();
        if !known.kinds.contains(&kind) {
            known.kinds.push(kind);
        }
    }
    Some(known)
}

/// Returns the beginning of a text as a cell of a table.
fn visible(text: &str) -> String {
    let shown: String = text.chars().take(20).collect();
    format!("`{}`", shown.replace('\n', "↵").replace(' ', "␣").replace('|', "\\|").replace('`', "ˋ"))
}

#[test]
fn a_line_is_found_without_the_opening_token() {
    let source = "{{ bos_token }}\n{%- for m in messages %}\n<{{ m.role }}>\n{{ m.content }}\n{%- endfor %}";
    let template = ChatTemplate::compile(source, vec![("bos_token".into(), "<s>".into())]).unwrap();
    let conversation = Conversation::new(vec![Message::user("<s>Hello")]);
    for (bos, text) in [(Bos::Write, "<s><user>\n<s>Hello"), (Bos::LeaveToTokenizer, "<user>\n<s>Hello")] {
        let options = TemplateOptions { bos, ..TemplateOptions::default() };
        let prompt = Writer::template(template.clone(), options.clone()).render(&conversation).unwrap();
        assert_eq!(prompt.text(), text);
        let line = |byte| {
            Writer::template(template.clone(), options.clone())
                .spot_at(&conversation, byte)
                .unwrap()
                .map(|spot| spot.line)
        };
        let start = text.len() - "<user>\n<s>Hello".len();
        if start > 0 {
            assert_eq!(line(0), Some(1));
        }
        assert_eq!(
            [0, 1, 5, 6, 7, 14, 15].map(|byte| line(start + byte)),
            [3, 3, 3, 3, 4, 4, 0].map(|n| Some(n).filter(|n| *n > 0))
        );
    }
}

#[test]
fn literal_text_is_found_where_it_stands_in_the_template() {
    let mut checked = 0;
    let mut check = |name: &str, template: &ChatTemplate| {
        let options = TemplateOptions { now: Some(NOON), forms: Forms::AsWanted, ..TemplateOptions::default() };
        for case in Case::all() {
            let found = rolecall::stability::stability(
                &case.conversation,
                &Writer::template(template.clone(), options.clone()),
            );
            for change in found.changes() {
                for written in [Some(&change.change.earlier), change.change.later.as_ref()].into_iter().flatten() {
                    let Some(spot) = written.spot.filter(|_| written.origin == Origin::Format) else { continue };
                    let (before, rest) = template.source().split_at(usize::try_from(spot.offset).unwrap());
                    // Inside an expression, the text may be a string or built from anything.
                    let opened = before.rfind("{{").max(before.rfind("{%"));
                    let is_data = opened <= before.rfind("}}").max(before.rfind("%}"));
                    let begins = rest.chars().next() == written.text.chars().next();
                    assert!(begins || !is_data, "{name}, {}: {written:?} {rest:.20}", case.name);
                    checked += usize::from(is_data);
                }
            }
        }
    };
    for case in Fixture::of_folder("stability") {
        check(&case.path.display().to_string(), &ChatTemplate::compile(case.needed("template"), Vec::new()).unwrap());
    }
    if let Some(shared) = rolecall_testkit::shared() {
        for (name, template) in FolderTemplates::read(&shared.join("templates")).unwrap().compiled {
            check(&name, &template);
        }
    } else {
        rolecall_testkit::say_skipped("only the places in templates of our own are checked");
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn the_ids_are_those_of_the_prompts() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("the ids of growing conversations are not compared");
        return;
    };
    let (mut lost, mut merged) = (0, 0);
    for (number, (file, template)) in
        FolderTemplates::read(&shared.join("templates")).unwrap().compiled.into_iter().enumerate()
    {
        // Loading a tokenizer takes most of the time.
        if number % 40 != 7 {
            continue;
        }
        // Most of the templates belong to other tokenizers.
        let plain_markers = PlainMarkers::Allow;
        let settings = Settings { forms: Forms::AsWanted, now: Some(NOON), plain_markers, ..Settings::default() };
        let builder = Model::builder().templates(templates_of(&template)).settings(settings);
        let model = builder.tokenizer(shared.join("tokenizers/qwen3")).open().unwrap();
        for case in Case::all().into_iter().filter(|case| case.pace == Pace::AtOnce).step_by(3) {
            let request = |end: usize, opened: bool| {
                let mut conversation = case.conversation.clone();
                conversation.messages.truncate(end);
                conversation.add_generation_prompt = Some(opened);
                Request { id: None, format: None, conversation, other: Object::new() }
            };
            let found = model.stability(&request(usize::MAX, false)).unwrap();
            for step in &found.steps {
                let later = model.prompt(request(step.messages + 1, false));
                for (opened, kept) in [(false, Some(&step.history)), (true, step.generation.as_ref())] {
                    let (Some(Ok(kept)), Ok(later)) = (kept, &later) else { continue };
                    let earlier = model.prompt(request(step.messages, opened)).unwrap();
                    assert_eq!(&earlier.kept_in(later).unwrap(), kept, "{file}, {}, {}", case.name, step.messages);
                    lost += kept.lost_ids().unwrap();
                    merged += usize::from(kept.is_stable() && kept.lost_ids() != Some(0));
                }
            }
        }
    }
    assert!(lost > 500 && merged > 0, "{lost} ids are lost, {merged} times although the text is stable");
}
