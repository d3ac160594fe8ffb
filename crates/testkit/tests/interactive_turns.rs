//! New turns alone, for an engine that keeps what it has read and written: two laws over every format, and the page that
//! lists where a format cannot keep them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::{env, fs};

use rolecall::Prompt;
use rolecall::conversation::{Conversation, Message, Role};
use rolecall::format::{Format, Slot};
use rolecall::loss::{LossPolicy, spans as loss_spans};
use rolecall::render::{Error as RenderError, Options, extend, new_turn, render};

const PAGE: &str = "docs/interactive-turns.md";

/// A place where what an engine has is not how the longer prompt goes on.
struct Parting<'f> {
    format: &'f Format,
    /// The messages that were there before.
    seen: Vec<Message>,
    /// What the format wrote of them.
    before: Prompt,
    /// What the engine has: that, and what the model wrote behind it.
    has: String,
    /// The longer prompt.
    now: Prompt,
    /// The first byte that differs.
    offset: usize,
}

#[test]
fn a_prompt_and_what_is_new_join_to_the_whole_or_the_place_is_told() {
    for format in rolecall::format::registry().iter() {
        for messages in telling(format) {
            let whole = rendered(&messages, format);
            for end in ends(&messages) {
                let before = rendered(&messages[..end], format);
                let conversation = Conversation::new(messages.clone());
                match extend(&conversation, &before, format, &Options::default()) {
                    Ok(new) => {
                        assert_eq!(format!("{}{}", before.text(), new.text()), whole.text(), "{} {end}", format.name);
                        let joined: String = new.segments().map(|segment| segment.text).collect();
                        assert_eq!(joined, new.text(), "{} {end}", format.name);
                        let starts: Vec<usize> = new.turns().iter().map(|turn| turn.start).collect();
                        assert!(starts.first() == Some(&0) && starts.is_sorted(), "{} {end}: {starts:?}", format.name);
                    }
                    Err(RenderError::Rewritten { offset, .. }) => {
                        assert_eq!(offset, common_prefix(before.text(), whole.text()), "{} {end}", format.name);
                        assert!(offset < before.text().len(), "{} {end}", format.name);
                    }
                    Err(other) => panic!("{} {end}: {other}", format.name),
                }
            }
        }
    }
}

/// The laws hold, or it is known why not: [`why`] knows no other reasons than those on the page.
#[test]
fn the_page_says_which_formats_cannot_join_and_why() {
    let registry = rolecall::format::registry();
    let formats: Vec<&Format> = registry.iter().collect();
    let extended: Vec<Parting> = formats.iter().filter_map(|format| first_of(format, extends)).collect();
    let new: Vec<Parting> = formats.iter().filter_map(|format| first_of(format, new_turns)).collect();
    let parted: BTreeSet<&str> = extended.iter().chain(&new).map(|parting| parting.format.name.as_str()).collect();
    let mut page = String::from(INTRODUCTION);
    let all = formats.len();
    let _ = writeln!(
        page,
        "Of {all} formats (dialects with them) {} join by both laws, {} by `extend`, {} by `new_turn`.",
        all - parted.len(),
        all - extended.len(),
        all - new.len()
    );
    page.push_str("\n## Where `extend` says `rewritten`\n\n");
    page.push_str(&table(&extended));
    page.push_str("\n## Where what the engine has and `new_turn` are not the next prompt\n\n");
    page.push_str(&table(&new));
    let path = rolecall_testkit::root().join(PAGE);
    if fs::read_to_string(&path).ok().as_deref() != Some(&page) {
        assert!(env::var_os("UPDATE").is_some(), "{PAGE} is stale; UPDATE=1 cargo test writes it");
        fs::write(path, page).unwrap();
    }
}

const INTRODUCTION: &str = "\
# Interactive turns

Written by a test (`crates/testkit/tests/interactive_turns.rs`, `UPDATE=1`), and checked by it.

An engine that keeps what it has read and written wants each turn's text once. Two functions give it:

- `extend`: what a longer conversation adds to a prompt that was rendered before. The two join to the whole prompt, or
  it says from which byte on the format now writes it otherwise.
- `new_turn`: what stands behind the last thing that the model wrote itself. The prompt of a question, what the model
  writes as its answer (with the token that ends it) and the new turn of the next question are the prompt of that question.

The telling conversation has three rounds, `question 1`, `answer 1`, .., with and without a system message, and once more
with a line break at both ends of the answers. It is cut behind each message. Listed is the first place where a
format parts: the last message that was there before, the first byte that differs, and around it
what the engine has and what the longer prompt has there (`␣` is a space, `↵` a line break).

";

fn table(partings: &[Parting]) -> String {
    let mut table =
        String::from("| format | behind | byte | before | now | why |\n| --- | --- | --- | --- | --- | --- |\n");
    for parting in partings {
        let system = if *parting.seen[0].role() == Role::System { ", with a system message" } else { "" };
        let last = parting.seen.last().and_then(Message::text).unwrap_or_default();
        let from = shown_from(parting);
        let _ = writeln!(
            table,
            "| `{}` | {}{system} | {} | {} | {} | {} |",
            parting.format.name,
            visible(&last),
            parting.offset,
            visible(&parting.has[from..]),
            visible(&parting.now.text()[from..]),
            why(parting)
        );
    }
    table
}

/// Where the piece begins in which the texts part, or a place near to it in a long piece.
fn shown_from(parting: &Parting) -> usize {
    let Parting { has, now, offset, .. } = parting;
    let piece = now.segments().map(|segment| segment.start).take_while(|start| start <= offset).last().unwrap_or(0);
    (piece..=*offset).find(|from| offset - from <= 16 && has.is_char_boundary(*from)).unwrap_or(*offset)
}

/// The beginning of a text as a cell of a table.
fn visible(text: &str) -> String {
    let shown: String = text.chars().take(28).collect();
    let more = if text.chars().nth(28).is_some() { " .." } else { "" };
    match shown.as_str() {
        "" => "nothing".to_owned(),
        shown => format!("`{}`{more}", shown.replace(' ', "␣").replace('\n', "↵").replace('|', "\\|")),
    }
}

/// The kind of a parting, by what the format is made of.
fn why(parting: &Parting) -> String {
    let Parting { format, before, seen, now, offset, .. } = parting;
    let last = before.turns().last().map(|turn| (turn.slot, turn.start));
    let answered = seen.last().is_some_and(|message| *message.role() == Role::Assistant);
    match last {
        Some((slot, _)) if slot.is_text_alone() => {
            "one user message is a text to go on with (option `capability`), and nothing opens the prompt".into()
        }
        Some((Slot::End, start)) if start <= *offset => {
            "the layout `end` closes a prompt in which the model is not to speak; a longer one has none there".into()
        }
        Some((Slot::Generate, start)) if answered && start <= *offset && format.rules.ending.key() == "reopened" => {
            let joins = if joins_closed(parting) { "; without a generation prompt it joins" } else { "" };
            format!("behind an answer the next one is opened (rule `ending = \"reopened\"`){joins}")
        }
        Some((Slot::Assistant, start))
            if answered && start <= *offset && format.layout(Slot::AssistantLast).is_some() =>
        {
            "the answer that ends a conversation has a layout of its own (`assistant-last`)".into()
        }
        Some((Slot::Generate, start)) if !answered && (start..before.text().len()).contains(offset) => {
            "the generation prompt is not how the assistant's turn begins".into()
        }
        _ if !answered && *offset >= before.text().len() && trims(now, *offset) => {
            "the format takes the white space at the ends of an answer off (`{content:trim}`), and the model has written it"
                .into()
        }
        _ => panic!("{}: nobody knows why {:?} is now {:?} from byte {offset}", format.name, parting.has, now.text()),
    }
}

/// Whether the conversation so far joins when no generation prompt is put behind its answer.
fn joins_closed(parting: &Parting) -> bool {
    let mut conversation = Conversation::new(parting.seen.clone());
    conversation.add_generation_prompt = Some(false);
    let closed = render(&conversation, parting.format, &Options::default()).unwrap();
    parting.now.text().starts_with(closed.text())
}

/// Whether an answer with white space at its ends is there without it.
fn trims(now: &Prompt, offset: usize) -> bool {
    let answers =
        now.segments().filter(|segment| segment.text.starts_with("answer") && segment.text.ends_with(char::is_numeric));
    answers.into_iter().any(|segment| (segment.start..=segment.start + segment.text.len()).contains(&offset))
}

/// Three questions with their answers: without and with a system message.
fn telling(format: &Format) -> Vec<Vec<Message>> {
    let rounds = rounds("");
    let mut conversations = vec![rounds.clone()];
    if format.layout(Slot::System).is_some() || format.layout(Slot::Folded).is_some() {
        conversations.push([vec![Message::system("the system text")], rounds].concat());
    }
    conversations
}

fn rounds(space: &str) -> Vec<Message> {
    let rounds = (1..=3).flat_map(|round| {
        [Message::user(format!("question {round}")), Message::assistant(format!("{space}answer {round}{space}"))]
    });
    rounds.collect()
}

fn rendered(messages: &[Message], format: &Format) -> Prompt {
    render(&Conversation::new(messages.to_vec()), format, &Options::default())
        .unwrap_or_else(|error| panic!("{}: {error}", format.name))
}

/// Where the messages end that somebody may have sent so far.
fn ends(messages: &[Message]) -> impl Iterator<Item = usize> {
    (1..messages.len()).filter(|end| *messages[end - 1].role() != Role::System)
}

fn first_of<'f>(
    format: &'f Format,
    law: impl Fn(&'f Format, &[Message]) -> Option<Parting<'f>>,
) -> Option<Parting<'f>> {
    let conversations = telling(format).into_iter().chain([rounds("\n")]);
    conversations.into_iter().find_map(|messages| law(format, &messages))
}

/// Where a prompt that was rendered before is not how the whole one begins.
fn extends<'f>(format: &'f Format, messages: &[Message]) -> Option<Parting<'f>> {
    let now = rendered(messages, format);
    ends(messages).find_map(|end| {
        let before = rendered(&messages[..end], format);
        if now.text().starts_with(before.text()) {
            return None;
        }
        let offset = common_prefix(before.text(), now.text());
        let seen = messages[..end].to_vec();
        Some(Parting { format, seen, has: before.text().to_owned(), before, now: now.clone(), offset })
    })
}

/// Where the prompt of a question, what the model writes, and the [`new_turn`] of the next question are not its prompt.
fn new_turns<'f>(format: &'f Format, messages: &[Message]) -> Option<Parting<'f>> {
    let users: Vec<usize> = ends(messages).filter(|end| *messages[end - 1].role() == Role::User).collect();
    users.windows(2).find_map(|users| {
        let (seen, next) = (messages[..users[0]].to_vec(), messages[..users[1]].to_vec());
        let before = rendered(&seen, format);
        let now = rendered(&next, format);
        let has = format!("{}{}", before.text(), written(&before, &now, &next, format));
        if format!("{has}{}", new_turn(&now, format).text()) == now.text() {
            return None;
        }
        let offset = common_prefix(&has, now.text());
        Some(Parting { format, seen, before, has, now, offset })
    })
}

/// What the model writes as the last answer: what is learned of it. A loss may cover the whole turn, but the generation
/// prompt is given; and what the format trims off the text, the model has written all the same.
fn written(before: &Prompt, now: &Prompt, messages: &[Message], format: &Format) -> String {
    let conversation = Conversation::new(messages.to_vec());
    let learned = loss_spans(now, &conversation, format, LossPolicy::Assistant).unwrap();
    let learned = &now.text()[learned.last().unwrap().clone()];
    let last = before.turns().last().filter(|turn| turn.slot == Slot::Generate);
    let opening = last.map_or("", |turn| &before.text()[turn.start..]);
    let learned = learned.strip_prefix(opening).unwrap_or(learned);
    let answer = messages[messages.len() - 2].text().unwrap();
    match learned.contains(&answer) {
        true => learned.to_owned(),
        false => learned.replacen(answer.trim(), &answer, 1),
    }
}

fn common_prefix(one: &str, other: &str) -> usize {
    let differs = one.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
    differs.map_or(one.len().min(other.len()), |((at, _), _)| at)
}
