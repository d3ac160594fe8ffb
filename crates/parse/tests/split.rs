//! Reasoning that is split off a reply leaves every byte of it, however the reply is divided.

use std::sync::Arc;

use rolecall_format::{Format, builtin, load, reply_files, shared_calls};
use rolecall_parse::{Event, OutputParser, ParseOptions, ReasoningSplit, Reply, Stop};

/// What a split has passed on.
#[derive(Debug, Default, PartialEq)]
struct Passed {
    reasoning: String,
    raw: String,
    rest: String,
    is_over: bool,
}

fn split<'t>(parser: OutputParser, pieces: impl IntoIterator<Item = &'t str>) -> Passed {
    let (mut split, mut passed) = (ReasoningSplit::new(parser), Passed::default());
    for piece in pieces {
        let parts = split.push(piece, &mut |text| passed.reasoning.push_str(text));
        passed.raw.push_str(&parts.raw);
        passed.rest.push_str(&parts.rest);
    }
    passed.is_over = split.is_over();
    let parts = split.finish(Stop::Length, &mut |text| passed.reasoning.push_str(text));
    passed.raw.push_str(&parts.raw);
    passed.rest.push_str(&parts.rest);
    passed
}

/// Returns the reasoning and the answer of a whole reply.
fn read(mut parser: OutputParser, text: &str) -> (String, String) {
    let (mut reasoning, mut answer) = (String::new(), String::new());
    let mut add = |event: Event<'_>| match event {
        Event::Reasoning(text) => reasoning.push_str(text),
        Event::Content(text) => answer.push_str(text),
        _ => {}
    };
    parser.push_text(text, &mut add);
    parser.finish(Stop::Length, &mut add);
    (reasoning, answer)
}

/// Returns the replies whose reasoning stands between two markers.
fn replies() -> Vec<(String, Arc<Reply>, String, String)> {
    let registry = builtin();
    let formats = registry.iter().map(|format| (format.name.clone(), Format::clone(format)));
    let shared = reply_files().chain(shared_calls());
    let shared = shared.filter_map(|(name, source)| Some((name.to_owned(), load(source).ok()?)));
    let replies = formats.chain(shared).filter_map(|(name, format): (String, Format)| {
        let reply = Reply::new(&format);
        let (open, close) = reply.around_reasoning()?;
        let (open, close) = (open.to_owned(), close.to_owned());
        (!open.is_empty() && !close.is_empty()).then(|| (name, Arc::new(reply), open, close))
    });
    replies.collect()
}

#[test]
fn every_byte_is_reasoning_with_its_markers_or_what_follows() {
    let replies = replies();
    assert!(replies.len() > 3, "{}", replies.len());
    let mut over = 0;
    for (name, reply, open, close) in &replies {
        let parser = |tail: &str| {
            OutputParser::new(reply, ParseOptions { prompt_tail: tail.to_owned(), ..ParseOptions::default() })
        };
        for tail in ["", open.as_str()] {
            let reasoned = if tail.is_empty() { format!("{open}Müll.{close}") } else { format!("Müll.{close}") };
            for text in [
                format!("{reasoned}Yes."),
                format!("{reasoned}\n\n\n Yes. "),
                format!("{open}{close}Yes."),
                format!("{open}{close}\n\nYes."),
                format!("{} Yes.", reasoned.trim_end()),
                reasoned.clone(),
                format!("{open}Müll."),
                " \n\nYes.".to_owned(),
                format!("Yes {open}"),
                "Yes.".to_owned(),
                "\n\n".to_owned(),
            ] {
                for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
                    let text = &text[..end];
                    let whole = split(parser(tail), [text]);
                    let what = format!("{name}, {tail:?}, {text:?}: {whole:?}");
                    assert_eq!(format!("{}{}", whole.raw, whole.rest), text, "{what}");
                    assert_eq!(split(parser(tail), text.split_inclusive(|_| true)), whole, "{what}");
                    let (reasoning, answer) = read(parser(tail), text);
                    assert_eq!(whole.reasoning, reasoning, "{what}");
                    let options = ParseOptions { prompt_tail: tail.to_owned(), ..ParseOptions::default() };
                    let later = read(OutputParser::after_reasoning(reply, options), &whole.rest);
                    assert_eq!((later.0.as_str(), later.1.trim()), ("", answer.trim()), "{what}");
                    assert!(whole.is_over || !text.contains("Yes"), "{what}");
                    over += usize::from(whole.is_over);
                }
            }
        }
    }
    assert!(over > 100, "{over}");
}
