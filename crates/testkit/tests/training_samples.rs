//! Laws of samples: truncation, conversations that a template rewrites, and packing.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use fastrand::Rng;
use rolecall::conversation::Role;
use rolecall::encode::EncodedToken;
use rolecall::loss::{Edges, LossPolicy, weights};
use rolecall::model::{ModelPrompt, Purpose};
use rolecall::template::ModelTemplates;
use rolecall::training::{
    Limit, PackedSamples, Packer, PreparedSample, Recipe, RowOptions, Sample, Samples, Slot, Truncate, as_served,
    prepare, restrict, truncate,
};
use rolecall::{Encoded, Error, Model, Request};
use rolecall_testkit::Toy;

/// Keeps everything that it wrote.
const STABLE: &str = "{% for m in messages %}<|{{ m.role }}|>\
    {% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|assistant|>{% endif %}";

/// Drops the reasoning of all replies before the last user message.
const DROPS: &str = "{% set ns = namespace(last=-1) %}\
    {% for m in messages if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endfor %}\
    {% set seen = namespace(user=-1) %}{% for m in messages %}\
    {% if m.role == 'user' %}{% set seen.user = seen.user + 1 %}{% endif %}<|{{ m.role }}|>\
    {% if m.reasoning_content and seen.user == ns.last %}<think>{{ m.reasoning_content }}</think>{% endif %}\
    {{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

/// Ends a reply with the role of the next message.
const ROLES: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}\
    {% if add_generation_prompt %}<|assistant|>{% endif %}";

fn model(source: &str, eos: &str) -> Model {
    let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
    templates.set_token("eos_token", eos.into());
    Model::builder().templates(templates).open().unwrap()
}

/// Returns a request whose messages have these roles: `s`, `u`, `a`, `r` (a reply with reasoning),
/// `c` (a reply with a call) and `t`.
fn request(roles: &str) -> Arc<Request> {
    let messages = roles.chars().enumerate().map(|(at, role)| match role {
        's' => format!(r#"{{"role": "system", "content": "system {at}"}}"#),
        'u' => format!(r#"{{"role": "user", "content": "question {at}"}}"#),
        'a' => format!(r#"{{"role": "assistant", "content": "answer {at}"}}"#),
        'r' => format!(r#"{{"role": "assistant", "reasoning_content": "thought {at}", "content": "answer {at}"}}"#),
        'c' => format!(
            r#"{{"role": "assistant", "content": "calling {at}", "tool_calls": [{{"id": "i{at}", "type": "function", "function": {{"name": "f", "arguments": {{}}}}}}]}}"#
        ),
        _ => format!(r#"{{"role": "tool", "tool_call_id": "i{}", "content": "result {at}"}}"#, at - 1),
    });
    let messages = messages.collect::<Vec<_>>().join(", ");
    Arc::new(Request::from_text(&format!(r#"{{"messages": [{messages}]}}"#)).unwrap())
}

/// Encodes each character as a token.
fn encode(prompt: &ModelPrompt) -> Encoded {
    let each = prompt.text().char_indices();
    let tokens = each.map(|(start, c)| EncodedToken { id: c.into(), start, end: start + c.len_utf8(), control: false });
    Encoded { tokens: tokens.collect(), ..Encoded::default() }
}

fn render(model: &Model, request: Arc<Request>) -> Result<(ModelPrompt, Encoded), Error> {
    let prompt = model.prompt_for(request, Purpose::Training)?;
    let encoded = encode(&prompt);
    Ok((prompt, encoded))
}

fn truncated(model: &Model, roles: &str, limit: Limit) -> (PreparedSample, usize) {
    let mut renderings = 0;
    let (prompt, encoded) = render(model, request(roles)).unwrap();
    let again = |request| {
        renderings += 1;
        render(model, request)
    };
    let policy = LossPolicy::assistant();
    let prepared = prepare(prompt, encoded, Some((&policy, Edges::Any)), 0, Some(limit), again).unwrap();
    (prepared, renderings)
}

const CONVERSATIONS: [&str; 8] = ["ua", "sua", "suaua", "suauaur", "sucta", "suauctctcta", "auaua", "suauau"];

#[test]
fn truncation_keeps_the_limit_and_reports_what_it_removed() {
    for (source, roles) in
        [STABLE, DROPS, ROLES].into_iter().flat_map(|source| CONVERSATIONS.map(|roles| (source, roles)))
    {
        let model = model(source, "<|end|>");
        let (_, whole) = render(&model, request(roles)).unwrap();
        for by in [Truncate::Right, Truncate::Left, Truncate::Oldest] {
            for ids in 1..=whole.tokens.len() + 1 {
                let (prepared, _) = truncated(&model, roles, Limit { ids, by });
                let kept = prepared.encoded.ids();
                let Some(cut) = prepared.truncated else {
                    assert_eq!((kept, ids >= whole.tokens.len()), (whole.ids(), true));
                    continue;
                };
                assert!(ids < whole.tokens.len() && kept.len() <= ids && !kept.is_empty(), "{roles} {by:?} {ids}");
                assert_eq!((cut.ids, cut.kept), (whole.tokens.len(), kept.len()), "{roles} {by:?} {ids}");
                let all = whole.ids();
                match by {
                    Truncate::Right => assert_eq!(kept, all[..ids], "{roles} {ids}"),
                    // What is left is the end of the text, up to what was cut.
                    Truncate::Left => {
                        let end = all.len() - cut.cut;
                        assert_eq!(kept, all[end - kept.len()..end], "{roles} {ids}");
                        let start = prepared.encoded.tokens[0].start;
                        assert!(
                            prepared.prompt.prompt().turns().iter().any(|turn| turn.start == start),
                            "{roles} {ids}"
                        );
                    }
                    Truncate::Oldest => {
                        let (_, shorter) = render(&model, Arc::new(prepared.prompt.request().clone())).unwrap();
                        assert_eq!(kept, shorter.ids()[..shorter.tokens.len() - cut.cut], "{roles} {ids}");
                        let messages = prepared.prompt.request().conversation.messages.len();
                        assert_eq!(messages + cut.messages.len(), roles.len(), "{roles} {ids}");
                    }
                }
                let has_loss = weights(&prepared.encoded, prepared.loss.as_ref().unwrap(), Edges::Any).any(|w| w > 0.0);
                assert_eq!(cut.no_loss, !has_loss, "{roles} {by:?} {ids}");
            }
        }
    }
}

#[test]
fn the_oldest_turns_go_first_and_calls_go_with_their_results() {
    let roles = "suauauctctcta";
    let model = model(STABLE, "<|end|>");
    let whole = request(roles);
    let (_, encoded) = render(&model, Arc::clone(&whole)).unwrap();
    let mut removed = Vec::new();
    for ids in (1..encoded.tokens.len()).rev() {
        let (prepared, renderings) = truncated(&model, roles, Limit { ids, by: Truncate::Oldest });
        let messages = prepared.truncated.unwrap().messages;
        assert!(messages.starts_with(&removed), "{removed:?} {messages:?}");
        removed = messages;
        for (at, message) in whole.conversation.messages.iter().enumerate() {
            let is_gone = removed.contains(&at);
            assert!(!is_gone || *message.role() != Role::System);
            if *message.role() == Role::Tool {
                assert_eq!(is_gone, removed.contains(&(at - 1)), "{removed:?}");
            }
        }
        // Six groups can be removed, so four renderings find the number.
        assert!(renderings <= 4, "{renderings}");
    }
    // The system message, the last question and the last answer are left.
    assert_eq!(removed.len(), roles.len() - 3);
}

#[test]
fn every_reply_is_trained_once_in_the_context_that_the_server_saw() {
    let mut divided = 0;
    for (source, eos) in [(STABLE, "<|end|>"), (DROPS, "<|end|>"), (ROLES, "<|user|>")] {
        let model = model(source, eos);
        for roles in ["ur", "uru", "urur", "sururau", "suctrur", "urauarua", "aurur", "urrur", "uuructr"] {
            let whole = model.prompt_for(request(roles), Purpose::Training).unwrap();
            for samples in [Samples::Turns, Samples::AsServed] {
                let mut renderings = 0;
                let each = as_served(whole.clone(), samples, |request| {
                    renderings += 1;
                    model.prompt_for(request, Purpose::Training)
                });
                let replies = roles.chars().filter(|role| "rac".contains(*role)).count();
                assert!(renderings <= replies, "{roles}");
                let mut trained = vec![0; roles.len()];
                let each = each.unwrap();
                divided += usize::from(samples == Samples::AsServed && each.len() > 1);
                for served in &each {
                    let prompt = &served.prompt;
                    let mut policy = LossPolicy::assistant();
                    policy.allow_empty = true;
                    let mut loss = prompt.loss(&policy).unwrap();
                    restrict(&mut loss, prompt.prompt(), served.from);
                    for reply in &loss.replies {
                        let message = reply.message.unwrap();
                        trained[message] += 1;
                        let text = &prompt.text()[reply.range.clone()];
                        // As served: the reply follows the prompt that the engine received.
                        let mut asked = (*request(roles)).clone();
                        asked.conversation.messages.truncate(message);
                        asked.conversation.add_generation_prompt = Some(true);
                        if message > 0 {
                            let asked = model.prompt(asked).unwrap();
                            assert_eq!(&prompt.text()[..reply.range.start], asked.text(), "{roles} {samples:?}");
                        }
                        assert!(text.contains(&format!(" {message}")), "{roles}: {text}");
                        let thinks = roles.as_bytes()[message] == b'r' && source != ROLES;
                        assert_eq!(text.contains("thought"), thinks, "{roles} {samples:?}: {text}");
                    }
                    let covered: usize = loss.ranges().iter().map(ExactSizeIterator::len).sum();
                    let written: usize = loss.replies.iter().map(|reply| reply.range.len()).sum();
                    assert_eq!(covered, written, "{roles} {samples:?}");
                }
                let expected: Vec<usize> = roles.chars().map(|role| usize::from("rac".contains(role))).collect();
                assert_eq!(trained, expected, "{roles} {samples:?}");
                match (samples, source) {
                    (Samples::AsServed, STABLE) => assert_eq!(each.len(), 1, "{roles}"),
                    (Samples::Turns, _) => assert!(each.len() >= replies, "{roles}"),
                    _ => {}
                }
            }
        }
    }
    assert!(divided >= 5, "only {divided} conversations were divided");
}

fn pack(length: u32, lengths: &[usize]) -> Vec<PackedSamples<usize>> {
    let mut packer = Packer::new(length);
    let mut sequences = Vec::new();
    for (source, ids) in lengths.iter().enumerate() {
        let ids: Vec<u32> = (0..*ids).map(|at| (source * 1000 + at) as u32).collect();
        let weights = ids.iter().map(|id| (id % 3) as f32).collect();
        sequences.extend(packer.push(Slot { source, ids, weights }).unwrap());
    }
    sequences.extend(packer.finish());
    let total: usize = lengths.iter().sum();
    let fill = total as f64 / (sequences.len().max(1) * length as usize) as f64;
    assert!(sequences.is_empty() || (packer.fill_rate() - fill).abs() < 1e-9);
    sequences
}

#[test]
fn packing_loses_nothing_and_repeats_nothing() {
    for (seed, count, length) in [(1, 0, 8), (2, 1, 8), (3, 1000, 64), (4, 50_000, 128), (5, 3000, 1 << 20)] {
        let mut random = Rng::with_seed(seed);
        let lengths: Vec<usize> = (0..count).map(|_| random.usize(1..=length.min(900) as usize)).collect();
        let sequences = pack(length, &lengths);
        let mut seen = vec![0; count];
        for packed in &sequences {
            assert!(packed.ids.len() <= length as usize && packed.ids.len() == packed.weights.len());
            let ends = packed.cu_seqlens();
            assert_eq!((ends[0], ends.len()), (0, packed.sources.len() + 1));
            assert_eq!(*ends.last().unwrap() as usize, packed.ids.len());
            let positions = packed.position_ids();
            for (at, source) in packed.sources.iter().enumerate() {
                let range = ends[at] as usize..ends[at + 1] as usize;
                seen[*source] += 1;
                assert_eq!(range.len(), lengths[*source]);
                assert!(positions[range.clone()].iter().copied().eq(0..range.len() as u32));
                let ids = packed.ids[range.clone()].iter().zip(&packed.weights[range]);
                for (position, (id, weight)) in ids.enumerate() {
                    assert_eq!((*id as usize, *weight), (source * 1000 + position, (id % 3) as f32));
                }
            }
            assert_eq!(packed.max_seqlen(), packed.lengths.iter().copied().max().unwrap());
        }
        assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
        assert_eq!(sequences, pack(length, &lengths));
    }
}

#[test]
fn sequences_are_nearly_full() {
    for (seed, length, shortest, longest) in [(1, 4096, 1, 4096), (2, 4096, 50, 1000), (3, 2048, 10, 2048)] {
        let mut random = Rng::with_seed(seed);
        let lengths: Vec<usize> = (0..20_000).map(|_| random.usize(shortest..=longest)).collect();
        let sequences = pack(length, &lengths).len();
        let least = lengths.iter().sum::<usize>().div_ceil(length as usize);
        // Every sample of more than half a sequence needs a sequence of its own.
        let least = least.max(lengths.iter().filter(|ids| **ids * 2 > length as usize).count());
        assert!(sequences * 100 <= least * 102, "{sequences} sequences, at least {least} are needed");
    }
}

#[test]
fn what_does_not_fit_a_sequence_is_an_error() {
    let mut packer = Packer::new(4);
    let slot = |ids: usize| Slot { source: (), ids: vec![0; ids], weights: vec![0.0; ids] };
    for ids in [0, 5] {
        assert_eq!(packer.push(slot(ids)).unwrap_err().ids, ids);
    }
    assert!(packer.finish().is_empty());
}

#[test]
fn a_sample_has_a_weight_for_each_id_and_its_turns() {
    let (prepared, _) = truncated(&model(STABLE, "<|end|>"), "suaua", Limit { ids: 1000, by: Truncate::Right });
    let sample = Sample::of(&prepared, Recipe::default().edges);
    assert_eq!(sample.ids.len(), sample.weights.len());
    let turns: Vec<Option<usize>> = sample.turns.iter().map(|(message, _)| *message).collect();
    assert_eq!(turns, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
    let mut at = 0;
    for (_, ids) in &sample.turns {
        assert_eq!(ids.start, at);
        at = ids.end;
    }
    assert_eq!(at, sample.ids.len());
}

#[test]
fn a_first_reply_carries_loss() {
    let mut templates = ModelTemplates::from_json(&STABLE.into()).unwrap();
    templates.set_token("eos_token", "<|end|>".into());
    let toy = Toy::of(rolecall::format::registry().get("chatml").unwrap());
    let toy = ["<|assistant|>", "<|user|>", "<|end|>"].into_iter().fold(toy, Toy::with);
    let model = Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy)).open().unwrap();
    let sample = Sample::new(&model, request("aua"), &Recipe::default()).unwrap();
    let learned = sample.ids.iter().zip(&sample.weights).filter(|(_, weight)| **weight > 0.0).count();
    // Each byte is an id, and `<|end|>` is one.
    assert_eq!(learned, "answer 0".len() + "answer 2".len() + 2);
}

#[test]
fn the_last_stop_is_appended_only_for_training() {
    let append = RowOptions { final_stop: Some("append".into()), ..RowOptions::default() };
    let training = RowOptions { for_training: Some("assistant".into()), ..append.clone() };
    let warn = RowOptions { final_stop: Some("warn".into()), ..training.clone() };
    for (options, appends) in [(append, false), (training, true), (warn, false)] {
        assert_eq!(options.recipe().unwrap().append_final_stop, appends, "{options:?}");
    }
}

#[test]
fn a_last_turn_without_tokens_of_its_own_does_not_replace_the_one_before() {
    let prompt = model(STABLE, "<|end|>").prompt_for(request("ua"), Purpose::Training).unwrap();
    // The last token straddles the start of the last turn, so it belongs to the first.
    let start = prompt.prompt().turns()[1].start - 1;
    let bytes = (0..start).map(|at| at..at + 1).chain(std::iter::once(start..prompt.text().len()));
    let tokens =
        bytes.map(|range| EncodedToken { id: 7, start: range.start, end: range.end, control: false }).collect();
    let limit = Limit { ids: 3, by: Truncate::Left };
    let encoded = Encoded { tokens, ..Encoded::default() };
    let (_, encoded, report) = truncate(prompt, encoded, limit, |_| Err(Error::NoTokenizer)).unwrap();
    assert_eq!((encoded.ids(), report.map(|report| report.kept)), (vec![7; 3], Some(3)));
}
