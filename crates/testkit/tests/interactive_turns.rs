//! New turns for an engine that keeps everything it has processed: two laws over every format, and
//! the page that lists the formats which cannot keep them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::{env, fs};

use rolecall::Prompt;
use rolecall::conversation::{Conversation, Message, Role};
use rolecall::format::{Format, Slot};
use rolecall::render::{Options, Writer};
use rolecall_testkit::{last_answer, new_turn};
use rolecall_text::common_prefix;

const PAGE: &str = "docs/interactive-turns.md";

/// A place where the engine's text is not the beginning of the longer prompt.
struct Parting<'f> {
    format: &'f Format,
    /// The messages so far.
    seen: Vec<Message>,
    /// The prompt of these messages.
    before: Prompt,
    /// The text in the engine: the prompt and what the model wrote after it.
    has: String,
    /// The longer prompt.
    now: Prompt,
    /// The first byte that differs.
    offset: usize,
}

#[test]
fn a_prompt_and_what_follows_it_join_to_the_whole() {
    for format in rolecall::format::registry().iter() {
        for messages in telling(format) {
            let whole = rendered(&messages, format);
            for end in ends(&messages) {
                let before = rendered(&messages[..end], format);
                if !whole.text().starts_with(before.text()) {
                    continue;
                }
                let new = whole.after(before.text().len()).unwrap();
                assert_eq!(format!("{}{}", before.text(), new.text()), whole.text(), "{} {end}", format.name);
                let joined: String = new.segments().map(|segment| segment.text).collect();
                assert_eq!(joined, new.text(), "{} {end}", format.name);
                let starts: Vec<usize> = new.turns().iter().map(|turn| turn.start).collect();
                assert!(starts.first() == Some(&0) && starts.is_sorted(), "{} {end}: {starts:?}", format.name);
            }
        }
    }
}

/// Checks that the laws hold or the reason is known: [`why`] knows no reasons but those on the
/// page.
#[test]
fn the_page_says_which_formats_cannot_join_and_why() {
    let registry = rolecall::format::registry();
    let formats: Vec<_> = registry.iter().collect();
    let extended: Vec<Parting> = formats.iter().filter_map(|format| first_of(format, extends)).collect();
    let new: Vec<Parting> = formats.iter().filter_map(|format| first_of(format, new_turns)).collect();
    let parted: BTreeSet<&str> = extended.iter().chain(&new).map(|parting| parting.format.name.as_str()).collect();
    let mut page = String::from(INTRODUCTION);
    let all = formats.len();
    let _ = writeln!(
        page,
        "Of {all} formats, dialects included, {} keep both laws, {} that of longer prompts, {} that of new turns.",
        all - parted.len(),
        all - extended.len(),
        all - new.len()
    );
    page.push_str("\n## Formats whose longer prompt does not begin with the earlier one\n\n");
    page.push_str(&table(&extended));
    page.push_str("\n## Formats for which the engine's text and the new turn do not make the next prompt\n\n");
    page.push_str(&table(&new));
    let path = rolecall_testkit::root().join(PAGE);
    if fs::read_to_string(&path).ok().as_deref() != Some(&page) {
        assert!(env::var_os("UPDATE").is_some(), "{PAGE} is stale; run `UPDATE=1 cargo test` to write it");
        fs::write(path, page).unwrap();
    }
}

const INTRODUCTION: &str = "\
# Interactive turns

A test writes this page (`crates/testkit/tests/interactive_turns.rs`, `UPDATE=1`) and checks it.

An engine that keeps everything it has processed needs only the text of each new turn. There are two
ways to get it:

- The end of the longer prompt, if it begins with the earlier one. `rolecall stability` reports the
  first byte that a format now writes differently.
- A new turn (`Purpose::NewTurn`, `--new-turn`): the text after the last text that the model wrote
  itself. It is what a session sends next if it has taken over the conversation up to the last reply.
  The prompt of a question, the model's answer (with the token that ends it) and the new turn of the
  next question join to the prompt of that question. A chat template has a new turn if it ends the
  last reply with a token that stops the model.

A session (`rolecall session`) knows the ids that the model sampled. If the model ends its replies as
the format does, the session sends the same new turns (`crates/testkit/tests/new_turns.rs`). It also
reports rewrites beforehand.

The test conversation has three rounds, `question 1`, `answer 1`, and so on, with and without a
system message, and once more with a line break at both ends of the answers. It is cut after each
message. The tables list the first place where a format breaks the law: the last message before it,
the first byte that differs, and the text around this byte in the engine and in the longer prompt
(`␣` is a space, `↵` a line break).

";

fn table(partings: &[Parting]) -> String {
    let mut table =
        String::from("| format | after | byte | before | now | reason |\n| --- | --- | --- | --- | --- | --- |\n");
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

/// Returns where the piece with the difference begins, or a place close to it in a long piece.
fn shown_from(parting: &Parting) -> usize {
    let Parting { has, now, offset, .. } = parting;
    let piece = now.segments().map(|segment| segment.start).take_while(|start| start <= offset).last().unwrap_or(0);
    (piece..=*offset).find(|from| offset - from <= 16 && has.is_char_boundary(*from)).unwrap_or(*offset)
}

/// Returns the beginning of a text as a cell of a table.
fn visible(text: &str) -> String {
    let shown: String = text.chars().take(28).collect();
    let more = if text.chars().nth(28).is_some() { " .." } else { "" };
    match shown.as_str() {
        "" => "nothing".to_owned(),
        shown => format!("`{}`{more}", shown.replace(' ', "␣").replace('\n', "↵").replace('|', "\\|")),
    }
}

/// Returns the reason for a difference, from the rules and layouts of the format.
fn why(parting: &Parting) -> String {
    let Parting { format, before, seen, now, offset, .. } = parting;
    let last = before.turns().last().map(|turn| (turn.slot, turn.start));
    let answered = seen.last().is_some_and(|message| *message.role() == Role::Assistant);
    match last {
        Some((slot, _)) if slot.is_text_alone() => {
            "a single user message is text to continue (option `capability`), and nothing opens the prompt".into()
        }
        Some((Slot::End, start)) if start <= *offset => {
            "the layout `end` closes a prompt after which the model does not write; a longer prompt lacks it there"
                .into()
        }
        Some((Slot::Generate, start)) if answered && start <= *offset && format.rules.ending.key() == "reopened" => {
            let joins = if joins_closed(parting) { "; without a generation prompt the two join" } else { "" };
            format!("after an answer, the next one is opened (rule `ending = \"reopened\"`){joins}")
        }
        Some((Slot::Assistant, start))
            if answered && start <= *offset && format.layout(Slot::AssistantLast).is_some() =>
        {
            "the last answer of a conversation has its own layout (`assistant-last`)".into()
        }
        Some((Slot::Generate, start)) if !answered && (start..before.text().len()).contains(offset) => {
            "the generation prompt differs from the beginning of the assistant's turn".into()
        }
        _ if !answered && *offset >= before.text().len() && trims(now, *offset) => {
            "the format trims the white space at the ends of an answer (`{content:trim}`), but the model has written it"
                .into()
        }
        _ => panic!("{}: unexplained: {:?} is now {:?} from byte {offset}", format.name, parting.has, now.text()),
    }
}

/// Reports whether the conversation so far joins without a generation prompt after its answer.
fn joins_closed(parting: &Parting) -> bool {
    let mut conversation = Conversation::new(parting.seen.clone());
    conversation.add_generation_prompt = Some(false);
    let closed = Writer::format(parting.format.clone(), Options::default()).render(&conversation).unwrap();
    parting.now.text().starts_with(closed.text())
}

/// Reports whether the format trimmed an answer with white space at its ends.
fn trims(now: &Prompt, offset: usize) -> bool {
    let answers =
        now.segments().filter(|segment| segment.text.starts_with("answer") && segment.text.ends_with(char::is_numeric));
    answers.into_iter().any(|segment| (segment.start..=segment.start + segment.text.len()).contains(&offset))
}

/// Returns three questions with their answers, without and with a system message.
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
    Writer::format(format.clone(), Options::default())
        .render(&Conversation::new(messages.to_vec()))
        .unwrap_or_else(|error| panic!("{}: {error}", format.name))
}

/// Returns the numbers of messages that a client may have sent so far.
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

/// Finds a prompt that is not the beginning of the longer one.
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

/// Finds a question whose prompt, the model's answer and the new turn of the next question do
/// not join to the next prompt.
fn new_turns<'f>(format: &'f Format, messages: &[Message]) -> Option<Parting<'f>> {
    let users: Vec<usize> = ends(messages).filter(|end| *messages[end - 1].role() == Role::User).collect();
    users.windows(2).find_map(|users| {
        let (seen, next) = (messages[..users[0]].to_vec(), messages[..users[1]].to_vec());
        let before = rendered(&seen, format);
        let now = rendered(&next, format);
        let has = format!("{}{}", before.text(), last_answer(&before, &now, &next, format));
        let new = new_turn(format, Conversation::new(next), &Options::default()).unwrap();
        if format!("{has}{}", new.text()) == now.text() {
            return None;
        }
        let offset = common_prefix(&has, now.text());
        Some(Parting { format, seen, before, has, now, offset })
    })
}
