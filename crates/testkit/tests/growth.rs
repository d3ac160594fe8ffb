//! Taking up a template's rendering where it stopped: the result is that of rendering the whole
//! conversation, or there is none.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;

use rolecall::conversation::{Conversation, Message};
use rolecall::stability::{Case, Speaker};
use rolecall::template::{CallForm, DateTime, TemplateOptions};
use rolecall_testkit::FolderTemplates;
use rolecall_testkit::growth::{Tally, Window, check_growth, first, grow};

const NOON: DateTime = DateTime { year: 2026, month: 11, day: 30, hour: 12, minute: 0, second: 0, microsecond: 0 };

fn options() -> TemplateOptions {
    TemplateOptions { now: Some(NOON), calls: CallForm::AsWanted, ..TemplateOptions::default() }
}

#[test]
fn a_grown_prompt_is_the_end_of_the_whole_one() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("the reference templates are not grown");
        return;
    };
    let (options, mut tally) = (options(), Tally::default());
    // All conversations take a minute, so each template gets a third of them, and neighbors, which
    // are often alike, get different ones.
    let all = std::env::var_os("ALL").is_some();
    for (number, (name, template)) in
        FolderTemplates::read(&shared.join("templates")).unwrap().compiled.into_iter().enumerate()
    {
        for (_, case) in Case::all().into_iter().enumerate().filter(|(at, _)| all || (at + number) % 3 == 0) {
            let what = format!("{name}, {}", case.name);
            check_growth(&what, Speaker::Template(&template, &options), &case.conversation, &mut tally);
        }
    }
    println!("{tally:#?}");
    assert!(tally.shorter > 50_000, "{tally:?}");
}

/// A plain conversation: a system message, and users and replies in turn.
fn plain(count: usize) -> Conversation {
    let message = |at: usize| match at {
        0 => Message::system("You are kind."),
        at if at % 2 == 1 => Message::user(format!("Question {at}")),
        at => Message::assistant(format!("Answer {at}")),
    };
    Conversation::new((0..count).map(message).collect())
}

#[test]
fn most_templates_grow_flat() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("the reference templates are not grown");
        return;
    };
    let options = options();
    let (mut flat, mut rest) = (0, BTreeMap::<String, Vec<String>>::new());
    for (name, template) in FolderTemplates::read(&shared.join("templates")).unwrap().compiled {
        let speaker = Speaker::Template(&template, &options);
        match flat_turns(speaker, 0).or_else(|_| flat_turns(speaker, 1)) {
            Ok(()) => flat += 1,
            Err(reason) => rest.entry(reason).or_default().push(name),
        }
    }
    println!("{flat} templates grow flat");
    for (reason, names) in &rest {
        println!("{} {reason}: {}", names.len(), names.join(" "));
    }
    assert!(flat >= 146, "{flat}");
}

/// Grows a plain conversation by several turns, with few messages at hand. Without its first
/// message, it has no system message.
fn flat_turns(speaker: Speaker<'_>, without: usize) -> Result<(), String> {
    let conversation = |count: usize| {
        let mut conversation = plain(count + without);
        conversation.messages.drain(..without);
        first(&conversation, count, true)
    };
    let start = 22 - without;
    let rendered = speaker.render_growing(&conversation(start));
    let (_, growth) = rendered.map_err(|error| format!("refused: {}", error.code()))?;
    let mut growth = growth.ok_or("no state")?;
    for turn in 1..5 {
        let longer = conversation(start + turn * 2);
        let grown = grow(speaker, &growth, &longer, Window { head: 4, tail: 6 });
        growth = grown.map_err(|reason| reason.to_string())?.growth.ok_or("no next state")?;
    }
    Ok(())
}
