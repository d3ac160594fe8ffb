//! Control tokens with several spellings. Their ids are parsed whichever spelling the prompt has
//! and the tokenizer uses.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall_format::{Format, builtin};
use rolecall_parse::{OutputParser, ParseOptions, Reading, Reply, Stop, read};

/// Returns every built-in format whose control tokens have several spellings, in each of them. Their calls are
/// between control tokens.
fn spelled() -> Vec<(Format, Vec<Format>)> {
    let registry = builtin();
    let has_marks = |format: &Format| format.controls.iter().any(|control| control.text == "<|action_start|>");
    let formats = registry.iter().filter(|format| !format.spellings().is_empty() && has_marks(format));
    let each = formats.map(|format| {
        let others = format.spellings().into_iter().map(|name| format.spelled(name));
        (Format::clone(format), std::iter::once(Format::clone(format)).chain(others).collect::<Vec<_>>())
    });
    let each: Vec<_> = each.collect();
    assert!(!each.is_empty());
    each
}

/// Returns a text with the control tokens of one spelling changed to those of another.
fn respelled(text: &str, from: &Format, to: &Format) -> String {
    from.controls
        .iter()
        .zip(to.controls.iter())
        .fold(text.to_owned(), |text, (from, to)| text.replace(&from.text, &to.text))
}

const OUTPUT: &str =
    "Hi.<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {\"x\": 1}}<|action_end|><|im_end|>";

#[test]
fn ids_are_read_whatever_the_prompt_and_the_tokenizer_call_them() {
    for (usual, spellings) in spelled() {
        for asked in &spellings {
            for known in &spellings {
                let tokens: Vec<String> = known.controls.iter().map(|control| control.text.clone()).collect();
                let reply = Arc::new(Reply::with_tokens(asked, &tokens));
                let prompt_tail = respelled("<|im_start|>assistant\nTh", &usual, asked);
                let options = ParseOptions { prompt_tail, ..ParseOptions::default() };
                let mut parser = OutputParser::new(&reply, options);
                let mut reading = Reading::default();
                let output = respelled(OUTPUT, &usual, known);
                let mut rest = output.as_str();
                while !rest.is_empty() {
                    let marks = tokens.iter().filter_map(|token| Some((rest.find(token.as_str())?, token.len())));
                    let (start, length) = marks.min().unwrap_or((rest.len(), 0));
                    parser.push_bytes(&rest.as_bytes()[..start], false, &mut |event| reading.add(&event));
                    parser.push_bytes(&rest.as_bytes()[start..start + length], true, &mut |event| reading.add(&event));
                    rest = &rest[start + length..];
                }
                parser.finish(Stop::End, &mut |event| reading.add(&event));
                assert_eq!((reading.content.as_str(), reading.calls.len()), ("Hi.", 1), "{reading:?}");
                assert_eq!(reading.malformed, []);
            }
        }
    }
}

#[test]
fn text_is_read_in_the_spelling_that_was_asked_for() {
    for (usual, spellings) in spelled() {
        for asked in &spellings {
            for written in &spellings {
                let reply = Arc::new(Reply::new(asked));
                let output = respelled(OUTPUT, &usual, written);
                let reading = read(&reply, ParseOptions::default(), &output, Stop::End);
                let is_same = asked.controls == written.controls;
                assert_eq!(reading.calls.len(), usize::from(is_same), "{output}");
                // In another spelling it is plain text, none of it is lost, and each marker is reported.
                assert_eq!(reading.content, if is_same { "Hi." } else { output.as_str() });
                assert_eq!(reading.malformed.len(), if is_same { 0 } else { 4 }, "{:?}", reading.malformed);
            }
        }
    }
}

#[test]
fn every_spelling_leads_back_to_the_usual_one() {
    for (usual, spellings) in spelled() {
        for other in &spellings[1..] {
            let back = other.spelled("usual");
            let texts =
                |format: &Format| format.controls.iter().map(|control| control.text.clone()).collect::<Vec<_>>();
            assert_eq!(texts(&back), texts(&usual));
        }
    }
}
