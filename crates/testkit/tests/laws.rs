//! Laws that hold for every conversation and every format.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use rolecall::answer;
use rolecall::answer::{Answer, StreamedAnswer};
use rolecall::conversation::json;
use rolecall::conversation::json::Layout;
use rolecall::conversation::{Conversation, Json, Message, Place, Role};
use rolecall::encode::{Encoded, Encoder, Protection};
use rolecall::format::{BoundaryToken, Codec, Field, Format, Op, Slot, codec};
use rolecall::loss::{Loss, LossSpan, TokenLoss};
use rolecall::render::{Bos, Options, RuleMode, Run, Writer};
use rolecall::{Origin, Prompt};
use rolecall_testkit::Toy;
use rolecall_testkit::generate::{self, Generated, Spot};

/// Conversations for each format.
const ROUNDS: u64 = 60;

/// A generated conversation with its prompt.
struct Sample<'a> {
    format: &'a Format,
    seed: u64,
    generated: Generated,
    conversation: Conversation,
    prompt: Prompt,
    /// The place of each text of the conversation.
    spots: BTreeMap<String, Spot>,
}

impl Sample<'_> {
    /// Returns everything that a reader of a failure needs.
    fn shown(&self) -> String {
        let request = json::write(&self.generated.request, &Layout::default());
        format!(
            "{}, seed {}, {:?}\n  {request}\n  {:?}",
            generate::label(self.format),
            self.seed,
            self.generated.options,
            self.prompt.text()
        )
    }

    fn render(&self, conversation: &Conversation, options: &Options) -> Prompt {
        Writer::format(self.format.clone(), options.clone())
            .render(conversation)
            .unwrap_or_else(|error| panic!("{error}: {}", self.shown()))
    }
}

/// Checks a law on conversations that every format allows. Each text in them occurs only once.
fn for_each(rules: RuleMode, law: impl Fn(&Sample<'_>)) {
    for format in generate::variants(&rolecall::format::registry()) {
        for seed in 0..ROUNDS {
            law(&sample(format, seed, rules));
        }
    }
}

fn sample(format: &Format, seed: u64, rules: RuleMode) -> Sample<'_> {
    let mut spots = BTreeMap::new();
    let generated = generate::conversation(format, seed, rules, &mut |spot| {
        let text = format!("t{}é{seed}x", spots.len());
        spots.insert(text.clone(), spot.clone());
        text
    });
    let conversation = Conversation::from_json(generated.request.clone()).unwrap();
    let prompt =
        Writer::format(format.clone(), generated.options.clone()).render(&conversation).unwrap_or_else(|error| {
            panic!(
                "{}, seed {seed}: {error}\n{}",
                generate::label(format),
                json::write(&generated.request, &Layout::default())
            )
        });
    Sample { format, seed, generated, conversation, prompt, spots }
}

#[test]
fn an_answer_written_at_once_is_the_answer_as_a_value() {
    for_each(RuleMode::Enforce, |sample| {
        let (prompt, id) = (&sample.prompt, Json::from("\u{1}\"7\\é"));
        let encoder = Encoder::new(&Protection::default().with_format(sample.format), Arc::new(Toy::of(sample.format)));
        let encoded = encoder.and_then(|encoder| encoder.encode(prompt)).unwrap_or_else(|error| panic!("{error}"));
        let spans = prompt.segments().map(|segment| segment.start..segment.start + segment.text.len());
        // Every third segment, with two weights.
        let weights = [1.0, 0.25].into_iter().cycle();
        let spans = spans.step_by(3).zip(weights).map(|(range, weight)| LossSpan { range, weight }).collect();
        let loss = Loss { spans, ..Loss::default() };
        let written = |encoded: Option<&Encoded>, loss: Option<TokenLoss<'_>>| {
            let mut text = String::new();
            answer::write(
                &mut text,
                &Answer { id: Some(&id), side: None, prompt, encoded, loss, truncated: None, part: None },
            );
            text
        };
        let streamed = |encoded: Option<&Encoded>, loss| {
            let tokens =
                encoded.map(|encoded| || Box::new(encoded.tokens.iter().copied()) as Box<dyn Iterator<Item = _>>);
            let tokens = tokens.as_ref().map(|tokens| tokens as &dyn Fn() -> _);
            let notes = encoded.map_or(&[][..], |encoded| &encoded.notes);
            let mut written = Vec::new();
            answer::stream(
                &mut written,
                &StreamedAnswer { id: Some(&id), prompt, tokens, notes, loss, truncated: None },
                |_| Ok(()),
            )
            .unwrap();
            json::parse(std::str::from_utf8(&written).unwrap()).unwrap()
        };
        for encoded in [None, Some(&encoded)] {
            for loss in [None, Some(TokenLoss::from(&loss))] {
                let at_once = json::parse(&written(encoded, loss)).unwrap();
                assert_eq!(streamed(encoded, loss), at_once, "{}", sample.shown());
            }
        }
        let as_text = |value: Json| json::write(&value, &Layout::compact());
        let id = Some(&id);
        assert_eq!(written(None, None), as_text(answer::of_prompt(id, prompt)), "{}", sample.shown());
        assert_eq!(
            written(Some(&encoded), None),
            as_text(answer::of_encoded(id, prompt, &encoded)),
            "{}",
            sample.shown()
        );
        for encoded in [None, Some(&encoded)] {
            let value = answer::of_training(id, prompt, encoded, &loss);
            assert_eq!(written(encoded, Some(TokenLoss::from(&loss))), as_text(value), "{}", sample.shown());
        }
    });
}

#[test]
fn segments_and_runs_join_to_the_text() {
    for rules in [RuleMode::Enforce, RuleMode::Reference] {
        for_each(rules, |sample| {
            let text = sample.prompt.text();
            let mut at = 0;
            for segment in sample.prompt.segments() {
                assert_eq!(
                    (segment.start, &text[at..at + segment.text.len()]),
                    (at, segment.text),
                    "{}",
                    sample.shown()
                );
                assert_eq!(sample.prompt.origin_at(at), Some(segment.origin), "{}", sample.shown());
                at += segment.text.len();
            }
            assert_eq!(at, text.len(), "{}", sample.shown());
            let mut at = 0;
            for run in sample.prompt.runs() {
                let (start, run) = match run {
                    Run::Control { text, start, .. } | Run::Text { text, start } => (start, text),
                };
                assert_eq!((start, &text[at..at + run.len()]), (at, run), "{}", sample.shown());
                assert!(!run.is_empty(), "empty run: {}", sample.shown());
                at += run.len();
            }
            assert_eq!(at, text.len(), "{}", sample.shown());
        });
    }
}

#[test]
fn every_text_is_printed_once_and_tagged_with_its_place() {
    // By format and place, so that one kind of mistake does not hide another.
    let wrong = RefCell::new(BTreeMap::new());
    for_each(RuleMode::Enforce, |sample| {
        for (text, spot) in &sample.spots {
            if let Err(why) = is_right(sample, text, spot) {
                let place = format!("{:?}", spot.origin).replace(|c: char| c.is_ascii_digit(), "");
                let told = || format!("{text}, which is {:?}, {why}: {}", spot.origin, sample.shown());
                wrong.borrow_mut().entry((generate::label(sample.format), place)).or_insert_with(told);
            }
        }
    });
    let wrong: Vec<String> = wrong.into_inner().into_values().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn is_right(sample: &Sample<'_>, text: &str, spot: &Spot) -> Result<(), String> {
    let written = as_written(sample.format, text, &spot.origin);
    let found: Vec<usize> = sample.prompt.text().match_indices(&written).map(|(at, _)| at).collect();
    let by_place = !spot.silent || matches!(spot.origin, Origin::Option { .. });
    for segment in found.iter().flat_map(|at| sample.prompt.segments_in(*at..at + written.len())) {
        let right = if by_place { segment.origin == spot.origin } else { !segment.origin.is_format() };
        if !right {
            return Err(format!("has the origin {:?}", segment.origin));
        }
    }
    match found.len() {
        1 => Ok(()),
        0 if spot.silent || is_noted(sample, &spot.origin) => Ok(()),
        0 => Err("is left out without a note".to_owned()),
        times if times <= holes_for(sample, text, &spot.origin) => Ok(()),
        times => Err(format!("is printed {times} times")),
    }
}

/// Returns a text as the prompt has it: if calls are written as ASCII JSON, other characters are
/// escaped.
fn as_written(format: &Format, text: &str, origin: &Origin) -> String {
    let of_call = matches!(origin, Origin::Message { field, .. } if field.contains("function.name") || field.contains("arguments"));
    let ops = format.layout(Slot::Call).map_or(&[][..], |layout| layout.ops());
    let is_ascii = ops.iter().any(|op| match op {
        Op::Hole { codec: Codec::Call(keys), .. } => keys.style() == codec::call::Style::Ascii,
        _ => false,
    });
    let ascii = Layout { ascii: of_call && is_ascii, ..Layout::default() };
    json::write(&Json::from(text), &ascii).trim_matches('"').to_owned()
}

/// Returns how often the format may print a text that has more than one hole: an option that occurs
/// twice in a system template, or the name of a tool that its description or a list of names repeats.
fn holes_for(sample: &Sample<'_>, text: &str, origin: &Origin) -> usize {
    let format = sample.format;
    let holes = |ops: &[Op], wanted: Field| {
        let each = ops.iter().filter(|op| matches!(op, Op::Hole { field, .. } if *field == wanted));
        each.count()
    };
    match origin {
        Origin::Option { name } => {
            let at = format.choices.iter().position(|choice| choice.name == *name);
            let templates = format.defaults.system_templates.iter().map(|(_, layout)| layout.ops());
            at.map_or(0, |at| templates.map(|ops| holes(ops, Field::Option(at))).max().unwrap_or(0))
        }
        Origin::Tool { .. } | Origin::Message { .. } => {
            let own = sample.conversation.messages.iter().filter_map(Message::tools).flatten();
            let functions = sample.conversation.tools.iter().flatten().chain(own).filter_map(|tool| tool.function());
            let is_name = functions.into_iter().any(|function| function.get("name") == Some(&Json::from(text)));
            let described = format.layout(Slot::ToolDescription).map_or(0, |layout| holes(layout.ops(), Field::Name));
            let is_list = |op: &&Op| matches!(op, Op::Hole { field: Field::Functions, codec: Codec::Names, .. });
            let listed = format.layout(Slot::Tools).map_or(0, |layout| layout.ops().iter().filter(is_list).count());
            if is_name { 1 + described + listed } else { 1 }
        }
        Origin::Control(_) | Origin::Format | Origin::Document { .. } => 1,
    }
}

/// Reports whether the prompt notes that the text was left out.
fn is_noted(sample: &Sample<'_>, origin: &Origin) -> bool {
    let (message, field) = match origin {
        Origin::Message { message, field } => (message, field),
        Origin::Tool { .. } => {
            return sample.prompt.dropped().iter().any(|dropped| dropped.place == Place::field("tools"));
        }
        _ => return false,
    };
    let noted = |place: &Place| {
        // A whole message has no field.
        let within = place.field.is_empty() || field.starts_with(&format!("{}[", place.field));
        place.message == Some(*message) && (field.as_ref() == place.field || within)
    };
    sample.prompt.dropped().iter().any(|dropped| noted(&dropped.place))
}

#[test]
fn nothing_of_the_input_is_the_formats() {
    for rules in [RuleMode::Enforce, RuleMode::Reference] {
        for_each(rules, |sample| {
            let format_text: String = sample
                .prompt
                .segments()
                .filter(|segment| segment.origin.is_format())
                .map(|segment| segment.text)
                .collect();
            for text in sample.spots.keys() {
                assert!(!format_text.contains(text.as_str()), "{text} has the format's origin: {}", sample.shown());
            }
        });
    }
}

#[test]
fn rendering_is_deterministic() {
    for_each(RuleMode::Enforce, |sample| {
        assert_eq!(sample.render(&sample.conversation, &sample.generated.options), sample.prompt, "{}", sample.shown());
    });
}

#[test]
fn leaving_bos_to_the_tokenizer_takes_exactly_the_opening_tokens_out() {
    for rules in [RuleMode::Enforce, RuleMode::Reference] {
        for_each(rules, |sample| {
            let bos = |origin: &Origin| matches!(origin, Origin::Control(id) if sample.format.control(*id).bos);
            let written: Vec<(Origin, String)> = listed(&sample.prompt);
            let opening = written.iter().take_while(|(origin, _)| bos(origin)).count();
            let options = Options { bos: Bos::LeaveToTokenizer, ..sample.generated.options.clone() };
            let left = listed(&sample.render(&sample.conversation, &options));
            assert_eq!(left, written[opening..], "{}", sample.shown());
        });
    }
}

/// Returns the segments, with neighbouring segments of the format joined.
fn listed(prompt: &Prompt) -> Vec<(Origin, String)> {
    let mut listed: Vec<(Origin, String)> = Vec::new();
    for segment in prompt.segments() {
        match listed.last_mut() {
            Some((Origin::Format, text)) if segment.origin == Origin::Format => text.push_str(segment.text),
            _ => listed.push((segment.origin, segment.text.to_owned())),
        }
    }
    listed
}

#[test]
fn another_tokenizers_own_tokens_change_nothing_else() {
    let seen = RefCell::new(0);
    for_each(RuleMode::Enforce, |sample| {
        let rest = without_own(&sample.prompt);
        for (bos, eos) in [(["⟨a⟩", "⟨b⟩"].as_slice(), Some("⟨z⟩")), (&["⟨a⟩"], None), (&[], Some("⟨z⟩"))]
        {
            let other = sample.format.with_own_tokens(bos, eos);
            let prompt =
                Writer::format(other.clone(), sample.generated.options.clone()).render(&sample.conversation).unwrap();
            assert_eq!(without_own(&prompt), rest, "{:?}: {}", prompt.text(), sample.shown());
            // There are as many for each usual token as this tokenizer has.
            for (kind, count) in [(BoundaryToken::Bos, bos.len()), (BoundaryToken::Eos, usize::from(eos.is_some()))] {
                let usual = sample.format.controls.iter().filter(|control| control.own == Some(kind)).count();
                let (written, before) = (own_tokens(&prompt, kind), own_tokens(&sample.prompt, kind));
                assert!(usual == 0 || written * usual == before * count, "{:?}: {}", prompt.text(), sample.shown());
                *seen.borrow_mut() += written;
            }
        }
    });
    assert!(seen.into_inner() > 5_000);
}

fn own_tokens(prompt: &Prompt, kind: BoundaryToken) -> usize {
    let is_own = |id: usize| prompt.controls()[id].own == Some(kind);
    prompt.segments().filter(|segment| matches!(segment.origin, Origin::Control(id) if is_own(id.0))).count()
}

/// Returns the segments without the tokenizer's own tokens, with neighbouring segments of the same
/// kind joined.
fn without_own(prompt: &Prompt) -> Vec<(String, String)> {
    let mut rest: Vec<(String, String)> = Vec::new();
    for segment in prompt.segments() {
        let (kind, apart) = match &segment.origin {
            Origin::Control(id) if prompt.controls()[id.0].own.is_some() => continue,
            Origin::Control(_) => ("control".to_owned(), true),
            origin => (format!("{origin:?}"), false),
        };
        match rest.last_mut() {
            Some((known, text)) if *known == kind && !apart => text.push_str(segment.text),
            _ => rest.push((kind, segment.text.to_owned())),
        }
    }
    rest
}

#[test]
fn a_message_to_continue_ends_the_prompt_of_which_the_closed_one_is_a_continuation() {
    let mut seen = 0;
    for format in generate::variants(&rolecall::format::registry()) {
        for seed in 0..ROUNDS {
            let mut sample = sample(format, seed, RuleMode::Enforce);
            let Some(message) = sample.conversation.messages.last() else { continue };
            let more = generate::says_more(format, Slot::Assistant, message.as_object());
            if *message.role() != Role::Assistant || message.calls().len() > 0 || more {
                continue;
            }
            seen += 1;
            let endings = ["", " ", "\n\n", " \u{a0}", "</think>", "<|im_end|>"];
            for ending in endings {
                let mut object = message_object(&sample.conversation);
                let text = format!(
                    "{}{ending}",
                    sample.conversation.messages.last().and_then(Message::text).unwrap_or_default()
                );
                object.insert("content", text.as_str().into());
                let mut conversation = sample.conversation.clone();
                *conversation.messages.last_mut().unwrap() = Message::from_object(object).unwrap();
                conversation.add_generation_prompt = Some(false);
                conversation.continue_final_message = false;
                let closed = sample.render(&conversation, &sample.generated.options);
                conversation.continue_final_message = true;
                let open = sample.render(&conversation, &sample.generated.options);
                assert!(
                    closed.text().starts_with(open.text()),
                    "{:?} and {:?}: {}",
                    closed.text(),
                    open.text(),
                    sample.shown()
                );
                let trims = hole_trims(sample.format, Slot::Assistant);
                let text = if trims { text.trim_matches(codec::is_python_space) } else { &text };
                assert!(open.text().ends_with(text), "{:?}: {}", open.text(), sample.shown());
                if let (Some(last), false) = (listed(&open).last(), text.is_empty()) {
                    let field = Cow::Borrowed("content");
                    let message = conversation.messages.len() - 1;
                    assert_eq!(last, &(Origin::Message { message, field }, text.to_owned()), "{}", sample.shown());
                }
                sample.prompt = open;
            }
        }
    }
    assert!(seen > 300, "only {seen} messages were continued");
}

fn message_object(conversation: &Conversation) -> json::Object {
    conversation.messages.last().map(|message| message.as_object().clone()).unwrap_or_default()
}

fn hole_trims(format: &Format, slot: Slot) -> bool {
    let ops = format.layout(slot).map_or(&[][..], |layout| layout.ops());
    ops.iter().any(|op| matches!(op, Op::Hole { field, codec: Codec::Trim, .. } if field.name() == "content"))
}

#[test]
fn a_generation_prompt_is_put_behind_what_is_there_without_it() {
    let mut seen = 0;
    for_each(RuleMode::Enforce, |sample| {
        assert!(sample.format.layout(Slot::Generate).is_some());
    });
    let registry = rolecall::format::registry();
    for format in generate::variants(&registry).into_iter().filter(|format| format.layout(Slot::End).is_none()) {
        for seed in 0..ROUNDS {
            let sample = sample(format, seed, RuleMode::Enforce);
            let with = |generate: bool| {
                let mut conversation = sample.conversation.clone();
                conversation.continue_final_message = false;
                conversation.add_generation_prompt = Some(generate);
                Writer::format(format.clone(), sample.generated.options.clone()).render(&conversation)
            };
            let (Ok(without), Ok(with)) = (with(false), with(true)) else { continue };
            seen += 1;
            let spelling = sample.generated.options.choices.iter().find(|(name, _)| name == "spelling");
            let generate = match is_text_alone(&with) {
                // Text that the model continues has no generation prompt.
                true => String::new(),
                false => fixed_text(format, Slot::Generate, spelling.map(|(_, value)| value.as_str())),
            };
            assert_eq!(format!("{}{generate}", without.text()), with.text(), "{}", sample.shown());
            let behind = with.segments_in(without.text().len()..with.text().len());
            assert!(behind.into_iter().all(|segment| segment.origin.is_format()), "{}", sample.shown());
        }
    }
    assert!(seen > 1_000, "only {seen} prompts were compared");
}

/// Reports whether the prompt is a single text, as the option `capability` asks for.
fn is_text_alone(prompt: &Prompt) -> bool {
    prompt.turns().first().is_some_and(|turn| turn.slot.is_text_alone())
}

/// Returns the text of a layout without holes.
fn fixed_text(format: &Format, slot: Slot, spelling: Option<&str>) -> String {
    let ops = format.layout(slot).map_or(&[][..], |layout| layout.ops());
    let each = ops.iter().map(|op| match op {
        Op::Literal(text) => text.as_str(),
        Op::Control(id) => format.control(*id).spelling(spelling),
        other => panic!("{}: {} has {other:?}", format.name, slot.key()),
    });
    each.collect()
}
