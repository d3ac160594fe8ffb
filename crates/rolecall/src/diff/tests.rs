use rolecall_conversation::{Conversation, Message};
use rolecall_format::{Format, load};
use rolecall_render::{Options, Writer};

use super::*;

/// Returns a small format, with some changes to its source.
fn format(changes: &[(&str, &str)]) -> Arc<Format> {
    let mut source = r#"
name = "tiny"
title = "Tiny"
[sources]
layout = "made for this test"
[control]
"<s>" = { bos = true }
"<|im|>" = {}
"</s>" = { ends_turn = true }
[layout]
begin = "<s>"
system = "<|im|>system\n{content}</s>\n"
user = "<|im|>user\n{content}</s>\n"
assistant = "<|im|>assistant\n{content}</s>\n"
generate = "<|im|>assistant\n"
[generation]
stop = ["</s>"]
"#
    .to_owned();
    for (old, new) in changes {
        assert!(source.contains(old), "{old}");
        source = source.replace(old, new);
    }
    load(&source).unwrap_or_else(|error| panic!("{error}\n{source}")).into()
}

fn question() -> Telling {
    let messages = vec![Message::user("a"), Message::assistant("b"), Message::user("c")];
    Telling { answer: Some("d".into()), ..Telling::of("question", Conversation::new(messages)) }
}

fn outcomes(a: &Arc<Format>, b: &Arc<Format>, telling: Telling) -> Vec<Outcome> {
    let comparison = compare([a, b], &[telling], &View::ALL, &Options::default());
    comparison.cases[0].findings.iter().map(|(_, outcome)| outcome.clone()).collect()
}

fn difference(outcome: &Outcome) -> &Difference {
    match outcome {
        Outcome::Text(difference) => difference,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_telling_is_read_and_tells_something() {
    let tellings = Telling::all();
    assert!(tellings.len() >= 16, "{}", tellings.len());
    for (at, telling) in tellings.iter().enumerate() {
        assert!(
            !telling.tells.is_empty() && telling.lesson().is_some() && telling.question().is_some(),
            "{}",
            telling.name
        );
        assert!(tellings[..at].iter().all(|other| other.name != telling.name), "{} twice", telling.name);
    }
}

#[test]
fn every_format_is_the_same_as_itself() {
    for format in rolecall_format::builtin().iter() {
        let views = [View::Chat, View::Training];
        assert!(compare([format, format], &Telling::all(), &views, &Options::default()).is_same(), "{}", format.name);
    }
}

#[test]
fn white_space_alone_is_a_difference() {
    let other = format(&[("{content}</s>\\n\"\ngenerate", "{content}</s>\"\ngenerate")]);
    let found = outcomes(&format(&[]), &other, question());
    let chat = difference(&found[0]);
    assert_eq!(chat.spots.each_ref().map(|spot| spot.text.chars().next()), [Some('\n'), Some('<')]);
    assert_eq!(
        chat.spots
            .each_ref()
            .map(|spot| (spot.offset, spot.stand))
            .map(|(at, stand)| (at == chat.spots[0].offset, stand)),
        [(true, Stand::Behind(1)), (true, Stand::Before(2))]
    );
    assert!(chat.spots[0].before.ends_with("<|im|>assistant\nb</s>"), "{}", chat.spots[0].before);
    // The learned texts are still the same, because they end with the token.
    assert_eq!(difference(&found[1]).learned, Some(LearnedComparison::Same));
    // The prompt for the last answer differs from what was trained on.
    assert!(matches!(found[2], Outcome::Text(_)), "{:?}", found[2]);
}

#[test]
fn a_place_is_named_by_the_texts_around_it() {
    let stands = |changes: &[(&str, &str)]| {
        let found = outcomes(&format(&[]), &format(changes), question());
        difference(&found[0]).spots.each_ref().map(|spot| (spot.slot, spot.stand))
    };
    let (user, assistant) = (Some(rolecall_format::Slot::User), Some(rolecall_format::Slot::Assistant));
    let right_behind = stands(&[("{content}</s>\\n\"\ngenerate", "{content} </s>\\n\"\ngenerate")]);
    assert_eq!(right_behind, [(assistant, Stand::Behind(1)); 2]);
    let before = stands(&[("user\\n{content}", "user: {content}")]);
    assert_eq!(before, [(user, Stand::Before(0)); 2]);
    let within = stands(&[("user\\n{content}", "user\\n{content:json}")]);
    assert_eq!(within, [(user, Stand::Before(0)), (user, Stand::Before(0))]);
    let generation = stands(&[("generate = \"<|im|>assistant\\n", "generate = \"<|im|>assistant")]);
    let end = Some(rolecall_format::Slot::Generate);
    assert_eq!(generation, [(end, Stand::Generate); 2]);
}

#[test]
fn the_opening_token_alone_is_a_kind_of_its_own() {
    let bare = format(&[("begin = \"<s>\"\n", "")]);
    let opening = Opening { texts: ["<s>".into(), String::new()] };
    for outcome in &outcomes(&format(&[]), &bare, question())[..3] {
        assert_eq!(*outcome, Outcome::Opening(opening.clone()));
    }
    // If something else differs too, that difference is shown, and the opening is reported with it.
    let other = format(&[("begin = \"<s>\"\n", ""), ("user\\n{content}", "user {content}")]);
    let found = outcomes(&format(&[]), &other, question());
    let chat = difference(&found[0]);
    assert_eq!(chat.opening, Some(opening));
    assert_eq!(chat.spots.each_ref().map(|spot| spot.offset), [13, 10]);
    assert_eq!(chat.spots.each_ref().map(|spot| spot.text.chars().next()), [Some('\n'), Some(' ')]);
}

#[test]
fn loss_alone_is_found_where_it_differs() {
    // The texts are the same. Only the first format says that its token ends the turn and stops the model, so it
    // does not learn the line break after it.
    let other = format(&[("{ ends_turn = true }", "{}"), ("stop = [\"</s>\"]", "")]);
    let found = outcomes(&format(&[]), &other, question());
    assert_eq!(found[0], Outcome::Same);
    let Outcome::Loss(loss) = &found[1] else { panic!("{:?}", found[1]) };
    assert_eq!((loss.by, loss.text.as_str()), (Side::B, "\n"));
    assert_eq!(loss.spans[0], loss.spans[1]);
}

#[test]
fn a_control_token_is_never_cut() {
    let other =
        format(&[("\"<|im|>\" = {}", "\"<|im|>\" = {}\n\"<|in|>\" = {}"), ("user = \"<|im|>", "user = \"<|in|>")]);
    let found = outcomes(&format(&[]), &other, question());
    let chat = difference(&found[0]);
    assert_eq!(chat.spots.each_ref().map(|spot| spot.offset), [3, 3]);
    assert!(chat.spots[0].text.starts_with("<|im|>user") && chat.spots[1].text.starts_with("<|in|>user"));
}

#[test]
fn a_mark_of_literal_text_is_shown_whole() {
    let asks = |mark: &str| format(&[("user = \"<|im|>user", &format!("user = \"{mark} user"))]);
    let found = outcomes(&asks("[INST]"), &asks("[INTRO]"), question());
    let texts = difference(&found[0]).spots.each_ref().map(|spot| spot.text[..8].to_owned());
    assert_eq!(texts, ["[INST] u", "[INTRO] "]);
    // A user's text that looks like a marker is only text.
    let asked = |text: &str| Conversation::new(vec![Message::user(text)]);
    let prompts = ["x [INST", "x [INTRO"]
        .map(|text| Writer::format(format(&[]), Options::default()).render(&asked(text)).unwrap());
    let Outcome::Text(parted) = texts::compare(super::opening::Pair::new(&prompts[0], &prompts[1], &[])) else {
        panic!("they differ")
    };
    assert_eq!(parted.spots[0].offset, "<s><|im|>user\nx [IN".len());
    // Equal texts that end in an open marker are equal.
    let open = format(&[("generate = \"<|im|>assistant\\n", "generate = \"<|im|>assistant <a")]);
    assert_eq!(outcomes(&open, &open, question())[0], Outcome::Same);
}

#[test]
fn who_refuses_is_said() {
    let strict = format(&[("[generation]", "[rules]\nusers = \"apart\"\n[generation]")]);
    let twice = Telling::of("twice", Conversation::new(vec![Message::user("a"), Message::user("b")]));
    let found = outcomes(&format(&[]), &strict, twice.clone());
    assert!(
        matches!(&found[..], [Outcome::OneRefuses { side: Side::B, error }] if error.code() == "rule_broken"),
        "{found:?}"
    );
    let found = outcomes(&strict, &strict, twice);
    assert!(matches!(&found[..], [Outcome::BothRefuse(_)]), "{found:?}");
}

#[test]
fn what_is_served_must_begin_what_was_trained() {
    // The first format trains the answer after a space that the second format's generation prompt
    // does not have.
    let spaced = format(&[
        ("assistant\\n{content}", "assistant\\n {content}"),
        ("generate = \"<|im|>assistant\\n", "generate = \"<|im|>assistant\\n "),
    ]);
    let once = Telling { answer: Some("b".into()), ..Telling::of("once", Conversation::new(vec![Message::user("a")])) };
    let found = outcomes(&spaced, &format(&[]), once.clone());
    assert_eq!(found[2], Outcome::Untaught { by: Side::A, text: " ".into() });
    // The second format never trains on that space.
    let back = difference(&found[3]);
    assert_eq!(back.spots.each_ref().map(|spot| spot.text.as_str()), [" ", "b</s>\n"]);
    // One format trains an end token at which the other does not stop.
    let other = format(&[
        ("\"</s>\" = { ends_turn = true }", "\"</e>\" = { ends_turn = true }\n\"</s>\" = {}"),
        ("{content}</s>\\n\"\ngen", "{content}</e>\\n\"\ngen"),
        ("[\"</s>\"]", "[\"</e>\"]"),
    ]);
    let found = outcomes(&format(&[]), &other, once);
    assert_eq!(found[0], Outcome::Same);
    assert_eq!(found[2], Outcome::NeverStops { by: Side::A, learned: "</s>".into(), stops: vec!["</e>".into()] });
    assert!(matches!(found[3], Outcome::NeverStops { by: Side::B, .. }), "{:?}", found[3]);
}

#[test]
fn a_conversation_without_an_answer_is_not_trained_on() {
    let found = outcomes(&format(&[]), &format(&[]), Telling::of("mine", Conversation::new(vec![Message::user("a")])));
    assert_eq!(found, [Outcome::Same]);
}
