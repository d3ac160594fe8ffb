//! The end of a growing conversation, rendered by a format, is that of the whole rendering: for
//! every built-in format and dialect, for conversations of our own and generated ones, from every
//! prefix, in steps of several messages.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod conversations;
mod random;

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use rolecall::conversation::{Conversation, Message, json};
use rolecall::format::{Format, load, registry};
use rolecall::render::growth::{Grown, Growth, Longer, NotGrown};
use rolecall::render::{Bos, Dropped, Error, Options, Prompt, RuleMode, Run, Turn, Writer};
use rolecall_testkit::generate;

/// What the runs of a test found.
#[derive(Debug, Default)]
struct Found {
    grown: usize,
    /// Conversations that cannot be rendered as a whole either.
    refused: usize,
    /// The other reasons, with their numbers.
    reasons: BTreeMap<String, usize>,
}

#[test]
fn what_grows_is_the_end_of_the_whole_prompt() {
    let registry = registry();
    let mut found = Found::default();
    let conversations = conversations::all();
    let mut rng = Rng::with_seed(3);
    for format in generate::variants(&registry) {
        for options in all_options(format) {
            for (name, conversation) in &conversations {
                if rng.u8(..4) > 0 {
                    continue;
                }
                let name = format!("{} {options:?} {name}", generate::label(format));
                check(&name, format, &options, conversation, &mut found);
            }
        }
    }
    println!("{found:?}");
    assert!(found.grown > 200_000 && found.refused > 10_000, "{found:?}");
}

#[test]
fn random_formats_grow_to_the_end_of_the_whole_prompt() {
    let conversations = conversations::all();
    let number = |name: &str, usual| std::env::var(name).map_or(usual, |number| number.parse().unwrap());
    let mut rng = Rng::with_seed(number("ROLECALL_SEED", 5));
    let most = number("ROLECALL_FORMATS", 250);
    let (mut found, mut formats) = (Found::default(), 0);
    for _ in 0..200_000 {
        // Many choices contradict each other.
        let Ok((format, file)) = random::format(&mut rng) else { continue };
        formats += 1;
        if formats > most {
            break;
        }
        for _ in 0..12 {
            let (name, conversation) = &conversations[rng.usize(..conversations.len())];
            let rules = if rng.u8(..4) == 0 { RuleMode::Reference } else { RuleMode::Enforce };
            let bos = if rng.bool() { Bos::Write } else { Bos::LeaveToTokenizer };
            let options = Options { rules, bos, ..Options::default() };
            check(&format!("{file}\n{options:?} {name}"), &format, &options, conversation, &mut found);
        }
    }
    println!("{formats} formats: {found:?}");
    assert!(formats > 200 && found.grown > 20_000, "{formats} formats: {found:?}");
}

#[test]
fn generated_conversations_grow_to_the_end_of_the_whole_prompt() {
    let registry = registry();
    let mut found = Found::default();
    for format in generate::variants(&registry) {
        for seed in 0..30 {
            let rules = if seed % 3 == 0 { RuleMode::Reference } else { RuleMode::Enforce };
            let mut count = 0;
            let mut text = |_: &generate::Spot| {
                count += 1;
                let texts = ["", "text", " a text ", "\n", "call_1"];
                texts.get(count % 9).map_or(format!("text {count}"), |text| (*text).to_owned())
            };
            let generated = generate::conversation(format, seed, rules, &mut text);
            let conversation = Conversation::from_json(generated.request.clone()).unwrap();
            let mut options = generated.options;
            options.bos = if seed % 2 == 0 { Bos::Write } else { Bos::LeaveToTokenizer };
            let name = format!("{} {options:?} seed {seed}", generate::label(format));
            check(&name, format, &options, &conversation, &mut found);
        }
    }
    println!("{found:?}");
    assert!(found.grown > 5_000, "{found:?}");
}

/// A turn needs only the last messages, however long the conversation is.
#[test]
fn a_turn_of_every_format_is_rendered_alone() {
    let registry = registry();
    let mut refusals = Vec::new();
    let mut flat = [0; 3];
    let variants = generate::variants(&registry);
    for format in variants.iter().copied() {
        let options = Options::default();
        let writer = Writer::format(format.clone(), options.clone());
        for (kind, turn) in turns().into_iter().enumerate() {
            let mut messages = Vec::new();
            let mut growth: Option<Growth> = None;
            let mut refusal = None;
            for round in 0..20 {
                for message in &turn {
                    messages.push(message.clone());
                }
                let mut whole = Conversation::new(messages.clone());
                whole.tools = tools(kind == 1);
                let Ok((prompt, next)) = writer.render_growing(&whole) else {
                    refusal = Some("the whole conversation is refused".to_owned());
                    break;
                };
                let Some(known) = growth.take() else {
                    growth = next;
                    continue;
                };
                let tail: Vec<&Message> = messages[messages.len() - 2 * turn.len()..].iter().collect();
                let longer = Longer { frame: &whole, count: messages.len(), head: &[], tail: &tail };
                match writer.grow(&known, &longer) {
                    Ok(grown) => {
                        assert_is_end(&grown, &prompt, &format!("{} round {round}", generate::label(format)));
                        growth = grown.growth;
                    }
                    Err(reason) => {
                        refusal = Some(reason.to_string());
                        break;
                    }
                }
                if growth.is_none() {
                    refusal = Some("no state".to_owned());
                    break;
                }
            }
            match refusal {
                None if growth.is_some() => flat[kind] += 1,
                None => refusals.push(format!("{} kind {kind}: no state", generate::label(format))),
                Some(refusal) => refusals.push(format!("{} kind {kind}: {refusal}", generate::label(format))),
            }
        }
    }
    let all = variants.len();
    println!("of {all} formats, {} grow flat with texts, {} with calls, {} with reasoning", flat[0], flat[1], flat[2]);
    println!("{}", refusals.join("\n"));
    assert!(flat[0] + 1 > all, "{refusals:#?}");
    assert!(refusals.iter().all(|refusal| refusal.ends_with("the whole conversation is refused")), "{refusals:#?}");
}

/// A later message that changes what an earlier one may have in its header.
#[test]
fn tools_that_make_an_earlier_message_wrong_are_noticed() {
    let format = "name = 'own'\ntitle = 'Own'\n[sources]\nlayout = 'a test'\n[control]\n'<e>' = {}\n[fields]\nmode = 'a field'\n\
                  [layout]\nsystem = 'S:{content}[[ T:{tools:json}]]<e>'\nuser = 'U:{content}<e>'\n\
                  assistant = 'A:[[{mode}|]]{content}<e>'\ntool = 'T:{content}<e>'\ngenerate = 'A:'\n\
                  [defaults]\ninterpreter = 'S'\n[rules]\ninterpreter-field = 'interpreter'\n";
    let format = load(format).unwrap_or_else(|error| panic!("{error}"));
    let mut found = Found::default();
    for (name, conversation) in conversations::all() {
        check(&name, &format, &Options::default(), &conversation, &mut found);
    }
    // The later message also makes the whole conversation wrong.
    assert!(found.grown > 100 && found.refused > 10, "{found:?}");
}

#[test]
fn a_state_belongs_to_its_format_its_options_and_its_messages() {
    let registry = registry();
    let [chatml, internlm2] = ["chatml", "internlm2"].map(|name| registry.get(name).unwrap());
    let usual = Options::default();
    let messages = vec![Message::user("2+2?"), Message::assistant("4"), Message::user("times 3?")];
    let frame = Conversation::new(messages.clone());
    let (_, growth) = Writer::format(chatml.clone(), usual.clone()).render_growing(&frame).unwrap();
    let growth = growth.unwrap();
    assert_eq!(growth.first_message(), Some(3));
    let lent: Vec<&Message> = messages.iter().collect();
    let longer = |count: usize| Longer { frame: &frame, count, head: &lent[..count], tail: &lent[..count] };
    let grown = Writer::format(chatml.clone(), usual.clone()).grow(&growth, &longer(3)).unwrap();
    assert_eq!(grown.prompt.text(), "<|im_start|>assistant\n");
    let refused = |format: &Arc<Format>, options: &Options, count| {
        Writer::format(format.clone(), options.clone()).grow(&growth, &longer(count)).err()
    };
    assert_eq!(refused(internlm2, &usual, 3), Some(NotGrown::OtherWriter));
    let without_bos = Options { bos: Bos::LeaveToTokenizer, ..Options::default() };
    assert_eq!(refused(chatml, &without_bos, 3), Some(NotGrown::OtherWriter));
    assert_eq!(refused(chatml, &usual, 2), Some(NotGrown::Depends("a message that was removed")));
}

/// Returns turns that may follow one another in most formats.
fn turns() -> [Vec<Message>; 3] {
    let call = r#"{"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get", "arguments": "{\"city\": \"Oslo\"}"}}]}"#;
    let result = r#"{"role": "tool", "tool_call_id": "call_1", "content": "4 degrees"}"#;
    let reasoned = r#"{"role": "assistant", "content": "4", "reasoning_content": "2+2 is 4"}"#;
    let texts = vec![Message::user("2+2?"), Message::assistant("4")];
    let calls = vec![
        Message::user("Weather?"),
        conversations::read(call),
        conversations::read(result),
        Message::assistant("4 degrees"),
    ];
    [texts, calls, vec![Message::user("2+2?"), conversations::read(reasoned)]]
}

fn tools(offered: bool) -> Option<Vec<rolecall::conversation::Tool>> {
    let text = r#"{"messages": [{"role": "user", "content": ""}], "tools": [{"type": "function", "function": {"name": "get", "description": "Gets.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]}"#;
    Conversation::from_json(json::parse(text).unwrap()).unwrap().tools.filter(|_| offered)
}

fn all_options(format: &Format) -> Vec<Options> {
    let mut all = vec![
        Options::default(),
        Options { bos: Bos::LeaveToTokenizer, ..Options::default() },
        Options { rules: RuleMode::Reference, ..Options::default() },
    ];
    if let Some(spelling) = format.spellings().first() {
        all.push(Options { choices: vec![("spelling".into(), (*spelling).into())], ..Options::default() });
    }
    all
}

const GENERATION: [Option<bool>; 3] = [Some(true), Some(false), None];

/// Grows a conversation from each prefix by up to three messages, and on from there.
fn check(name: &str, format: &Format, options: &Options, conversation: &Conversation, found: &mut Found) {
    let writer = Writer::format(format.clone(), options.clone());
    let messages = &conversation.messages;
    let mut frame = conversation.clone();
    frame.messages.clear();
    let with = |count: usize, generation| {
        let mut prefix = frame.clone();
        prefix.messages = messages[..count].to_vec();
        prefix.add_generation_prompt = generation;
        prefix
    };
    type Rendered = Result<(Prompt, Option<Growth>), Error>;
    let wholes: Vec<[Rendered; 3]> = (0..=messages.len())
        .map(|count| GENERATION.map(|generation| writer.render_growing(&with(count, generation))))
        .collect();
    let lent: Vec<&Message> = messages.iter().collect();
    let mut rng = Rng::with_seed(7);
    for count in 0..messages.len() {
        for earlier in 0..3 {
            let Ok((before, Some(growth))) = &wholes[count][earlier] else { continue };
            let mut chain: Option<Growth> = None;
            for step in 1..=3.min(messages.len() - count) {
                let end = count + step;
                for (generation, (whole, later)) in GENERATION.iter().zip(wholes[end].iter().zip(0..)) {
                    if step > 1 && later != earlier {
                        continue;
                    }
                    let frame = with(0, *generation);
                    let (head, tail) = (rng.usize(..=end), rng.usize(step..=end));
                    let sides = [(end, end), (0, end), (head, tail)];
                    for (head, tail) in sides.into_iter().skip(rng.usize(..3)).take(1) {
                        let longer =
                            Longer { frame: &frame, count: end, head: &lent[..head], tail: &lent[end - tail..end] };
                        let what = format!("{name}: {count} to {end}, {earlier} to {later}, {head} and {tail}");
                        let from = if step > 1 && later == earlier { chain.as_ref().unwrap_or(growth) } else { growth };
                        let result = writer.grow(from, &longer);
                        if let Ok(grown) = &result {
                            let text = before.text().get(..grown.start);
                            if std::ptr::eq(from, growth) {
                                assert!(text.is_some(), "{what}: {} of {}", grown.start, before.text().len());
                                assert_eq!(
                                    text,
                                    whole.as_ref().ok().and_then(|whole| whole.0.text().get(..grown.start)),
                                    "{what}"
                                );
                            }
                        }
                        let known = if std::ptr::eq(from, growth) { count } else { end - 1 };
                        if later == earlier {
                            chain = result.as_ref().ok().and_then(|grown| grown.growth.clone());
                        }
                        compare(result, whole.as_ref().map(|whole| &whole.0), known, &what, found);
                    }
                }
            }
        }
    }
}

fn compare(
    result: Result<Grown, NotGrown>,
    whole: Result<&Prompt, &Error>,
    count: usize,
    what: &str,
    found: &mut Found,
) {
    match (result, whole) {
        (Ok(grown), Ok(whole)) => {
            assert_is_end(&grown, whole, what);
            // What is left out of the new messages is known, and what is left out of the rest of the
            // conversation.
            let new = |prompt: &Prompt| {
                let is_new = |dropped: &&Dropped| dropped.place.message.is_none_or(|at| at >= count);
                prompt.dropped().iter().filter(is_new).cloned().collect::<Vec<_>>()
            };
            assert_eq!(new(&grown.prompt), new(whole), "{what}");
            found.grown += 1;
        }
        (Ok(_), Err(error)) => panic!("{what}: the whole conversation is refused: {error}"),
        (Err(_), Err(_)) => found.refused += 1,
        (Err(NotGrown::Failed), Ok(_)) => panic!("{what}: only the whole conversation is rendered"),
        (Err(reason), Ok(_)) => {
            let reason = if let NotGrown::Needs { .. } = reason { "needs".to_owned() } else { reason.to_string() };
            *found.reasons.entry(reason).or_default() += 1;
        }
    }
}

fn assert_is_end(grown: &Grown, whole: &Prompt, what: &str) {
    let start = grown.start;
    let prompt = &grown.prompt;
    assert_eq!(Some(prompt.text()), whole.text().get(start..), "{what}");
    let expected = whole.segments_in(start..whole.text().len());
    let expected: Vec<_> =
        expected.map(|segment| (segment.text, segment.origin, segment.start - start, segment.is_made)).collect();
    let segments: Vec<_> =
        prompt.segments().map(|segment| (segment.text, segment.origin, segment.start, segment.is_made)).collect();
    assert_eq!(segments, expected, "{what}");
    let shifted = |run: Run<'_>, by: usize| match run {
        Run::Control { text, id, start } => (text.to_owned(), Some(id), start - by),
        Run::Text { text, start } => (text.to_owned(), None, start - by),
    };
    let expected: Vec<_> = whole.runs_from(start).map(|run| shifted(run, start)).collect();
    assert_eq!(prompt.runs().map(|run| shifted(run, 0)).collect::<Vec<_>>(), expected, "{what}");
    let first = whole.turns().iter().rposition(|turn| turn.start <= start).unwrap_or(0);
    let turns = whole.turns()[first..].iter().map(|turn| Turn { start: turn.start.saturating_sub(start), ..*turn });
    let turns: Vec<Turn> = turns.filter(|turn| turn.start < whole.text().len() - start).collect();
    assert_eq!(prompt.turns(), turns, "{what}");
    assert_eq!(
        (prompt.open, &prompt.generation, &prompt.unusual),
        (whole.open, &whole.generation, &whole.unusual),
        "{what}"
    );
}
