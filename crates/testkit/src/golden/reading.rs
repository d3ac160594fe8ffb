//! Model output, parsed with a format in every way of splitting it.

use std::sync::Arc;

use rolecall::format::Format;
use rolecall::parse::{ParseOptions, ParsedCall, Reply, Why};
use rolecall::{Event, Reading, Stop};

use crate::Verdict;
use crate::outputs::characters;
use crate::transcript::{Transcript, random_chunks, read_texts};

/// How many random splits of each output are parsed.
const SEEDS: u64 = 6;

/// The result of parsing an output.
pub(super) struct Read {
    pub transcript: Transcript,
    pub reading: Reading,
    /// The content before the first call.
    pub before: String,
}

/// Parses an output of a format's model.
pub(super) fn read_every_way(format: &Format, options: ParseOptions, output: &str) -> Result<Read, Verdict> {
    read_by(&Arc::new(Reply::new(format)), &options, output)
}

/// Parses an output whole, character by character and in random chunks. Different events are a
/// failure.
pub(super) fn read_by(reply: &Arc<Reply>, options: &ParseOptions, output: &str) -> Result<Read, Verdict> {
    let (transcript, reading) = read_texts(reply, options, [output], Stop::End);
    let other = |how: String, found: Transcript| Verdict::Misread {
        expected: format!("as when parsed whole:\n{transcript}"),
        found: format!("{how}:\n{found}"),
        output: output.to_owned(),
    };
    let (one_by_one, _) = read_texts(reply, options, characters(output), Stop::End);
    if one_by_one != transcript {
        return Err(other("character by character".into(), one_by_one));
    }
    for seed in 0..SEEDS {
        let chunks = random_chunks(output, &mut fastrand::Rng::with_seed(seed));
        let (cut, _) = read_texts(reply, options, chunks.iter().copied(), Stop::End);
        if cut != transcript {
            return Err(other(format!("in chunks {chunks:?}"), cut));
        }
    }
    let before = before_calls(reply, options, output);
    Ok(Read { transcript, reading, before })
}

/// Returns a reading as a peer has it that reads on after the end of a turn: the text that ours
/// reports there is content, and no longer reported.
pub(super) fn read_on(output: &str, reading: &Reading) -> Reading {
    let (mut reading, mut content) = (reading.clone(), String::new());
    for malformed in reading.malformed.iter().filter(|malformed| malformed.why == Why::AfterEnd) {
        let span = (usize::try_from(malformed.span.start), usize::try_from(malformed.span.end));
        let late = if let (Ok(start), Ok(end)) = span { output.get(start..end) } else { None };
        content.push_str(late.unwrap_or_default());
    }
    reading.content.push_str(&content);
    reading.malformed.retain(|malformed| malformed.why != Why::AfterEnd);
    reading
}

fn before_calls(reply: &Arc<Reply>, options: &ParseOptions, output: &str) -> String {
    let mut before = String::new();
    let mut is_before = true;
    let mut parser = rolecall::parse::OutputParser::new(reply, options.clone());
    let mut sink = |event: Event<'_>| match event {
        Event::Content(text) if is_before => before.push_str(text),
        Event::CallStarted { .. } | Event::CodeStarted { .. } => is_before = false,
        _ => {}
    };
    parser.push_text(output, &mut sink);
    parser.finish(Stop::End, &mut sink);
    before
}

/// Reports whether nothing of an output is lost: everything except markers and white space is in
/// the content or a call. Without calls, the content is the whole output without the format's stop
/// texts.
pub(super) fn is_all_there(output: &str, reading: &Reading, format: &Format) -> bool {
    let stops = format.stops();
    let squeeze = |text: &str| {
        let text = stops.iter().fold(text.to_owned(), |text, stop| text.replace(stop, ""));
        text.split_whitespace().collect::<String>()
    };
    if reading.calls.is_empty() {
        return squeeze(&read_on(output, reading).content) == squeeze(output);
    }
    let mut rest = squeeze(output);
    let said = reading.calls.iter().flat_map(|call| match call {
        ParsedCall::Function { name, .. } => vec![name.as_str()],
        ParsedCall::Code { code, .. } => vec![code.as_str()],
    });
    said.map(squeeze).all(|said| match rest.find(&said) {
        Some(at) => {
            rest.replace_range(at..at + said.len(), "");
            true
        }
        None => false,
    })
}
