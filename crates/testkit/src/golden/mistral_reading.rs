//! Replies that a maker's own parser reads from ids: by their ids, and by their text with a flag
//! for each control token.
//!
//! - A reply that the reference accepts is read the same way.
//! - The reference refuses the whole reply if one call is bad. Ours keeps the good calls and
//!   reports the rest.

use std::sync::Arc;

use rolecall::Reading;
use rolecall::Stop;
use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::encode::Decoder;
use rolecall::parse::{IdParser, OutputParser, ParseOptions, Reply, Why};
use rolecall::tokenizer::TextPlace;

use super::reading::read_on;
use super::replies::{Said, SaidCall, is_all_said, same_arguments, strictly, written};
use super::{Context, text, tokenizers};
use crate::Verdict;
use crate::outputs::characters;
use crate::transcript::{Transcript, TranscriptPiece, random_chunks, read_pieces};

const NAMELESS: &str = "the reference calls a function without a name; ours reports it";
const NO_ARGUMENTS: &str = "the reference refuses a call without arguments; ours has none";
const PASTED: &str = "the reference reads the id as the end of the name; ours keeps them apart";

/// How many random splits of the text are parsed.
const SEEDS: u64 = 6;

pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    let name = format!("{}-{}", text(row, "system"), text(row, "version"));
    let format = match context.reply_formats.get(&name) {
        Ok(format) => format,
        Err(why) => return Verdict::cannot_run(why),
    };
    // A file that several rows share is in the folder of its version.
    let tokenizer = match tokenizers::retagged(text(row, "tokenizer"), context) {
        Ok(tokenizer) => tokenizer,
        Err(why) => match context.tokenizer(&name) {
            Some(tokenizer) => tokenizer,
            None => return Verdict::cannot_run(why),
        },
    };
    let opens_with_space = tokenizer.prefix_space(TextPlace::Start);
    let decoder = Arc::new(Decoder::new(tokenizer));
    let reply = Arc::new(Reply::with_tokens(&format, &decoder.markers()));
    let options = strictly(String::new());
    let (by_ids, transcript, shown) = match read_ids(row, &reply, &options, &decoder) {
        Ok(read) => read,
        Err(why) => return Verdict::cannot_run(why),
    };
    let pieces = match pieces(row) {
        Ok(pieces) => pieces,
        Err(why) => return Verdict::cannot_run(why),
    };
    let output: String = pieces.iter().map(|(piece, _)| piece.as_str()).collect();
    if let Err(verdict) = same_in_pieces(&reply, &options, &pieces, &by_ids, &output) {
        return verdict;
    }
    let found = format!("{}\n{transcript}", written(&Said::of_reading(&by_ids)));
    let misread = |expected: String| Verdict::Misread { expected, found: found.clone(), output: output.clone() };
    let by_text = read_on(&shown, &by_ids);
    let is_late = by_ids.malformed.iter().any(|malformed| malformed.why == Why::AfterEnd);
    if !is_all_said(&output, &by_text, &format) {
        return misread("every character of the output".into());
    }
    match (row.get("expected"), row.get("error")) {
        (Some(Json::Object(expected)), None) => {
            judge(&Said::of_message(expected), &by_text, (opens_with_space, is_late), misread)
        }
        // A reply that it refuses must be reported. In an empty reply, there is nothing to report.
        (_, Some(_)) if !by_ids.malformed.is_empty() || output.is_empty() => Verdict::Passed,
        (_, Some(_)) if has_no_arguments(&by_ids) => Verdict::Excused(NO_ARGUMENTS),
        (_, Some(_)) => misread("a report".into()),
        _ => Verdict::cannot_run("the row has no expectation"),
    }
}

fn judge(
    expected: &Said,
    reading: &Reading,
    (opens_with_space, is_late): (bool, bool),
    misread: impl Fn(String) -> Verdict,
) -> Verdict {
    let mut ours = Said::of_reading(reading);
    // The space that the tokenizer adds in front of a text is in the ids.
    if opens_with_space && ours.content.starts_with(' ') {
        ours.content.remove(0);
    }
    let mut wanted = expected.clone();
    // White space after the end of the turn is not content.
    if is_late {
        for content in [&mut ours.content, &mut wanted.content] {
            content.retain(|character| !character.is_whitespace());
        }
    }
    if ours.means(&wanted) {
        return Verdict::Passed;
    }
    let is_nameless = expected.calls.iter().any(|call| call.name.trim().is_empty());
    if is_nameless && !reading.malformed.is_empty() {
        return Verdict::Excused(NAMELESS);
    }
    let is_pasted = |(ours, theirs): (&SaidCall, &SaidCall)| {
        ours.means(theirs)
            || (ours.id.as_ref().is_some_and(|id| format!("{}{id}", ours.name) == theirs.name)
                && same_arguments(&ours.arguments, &theirs.arguments))
    };
    let texts = Said { calls: expected.calls.clone(), ..ours.clone() };
    let pairs = ours.calls.len() == expected.calls.len() && ours.calls.iter().zip(&expected.calls).all(is_pasted);
    match pairs && texts.means(expected) {
        true => Verdict::Excused(PASTED),
        false => misread(written(expected)),
    }
}

/// Reports whether a reply is calls without arguments, and nothing else.
fn has_no_arguments(reading: &Reading) -> bool {
    let said = Said::of_reading(reading);
    let is_empty = |call: &SaidCall| same_arguments(&call.arguments, "{}");
    said.content.is_empty() && !said.calls.is_empty() && said.calls.iter().all(is_empty)
}

fn read_ids(
    row: &Object,
    reply: &Arc<Reply>,
    options: &ParseOptions,
    decoder: &Arc<Decoder>,
) -> Result<(Reading, Transcript, String), String> {
    let ids = row.get("ids").and_then(Json::as_array).ok_or("the row has no ids")?;
    let (mut reading, mut transcript) = (Reading::default(), Transcript::default());
    let mut sink = |event: rolecall::Event<'_>| {
        transcript.add(&event);
        reading.add(&event);
    };
    let mut parser = IdParser::new(OutputParser::new(reply, options.clone()), Arc::clone(decoder));
    let mut shown = Vec::new();
    for id in ids {
        let id = match id {
            Json::Number(number) => number.as_i64().and_then(|id| u32::try_from(id).ok()),
            _ => None,
        };
        let id = id.ok_or("the row has ids that are not numbers")?;
        decoder.append(id, &mut shown).map_err(|error| error.to_string())?;
        parser.push(id, &mut sink).map_err(|error| error.to_string())?;
    }
    parser.finish(Stop::End, &mut sink);
    Ok((reading, transcript, String::from_utf8_lossy(&shown).into_owned()))
}

/// Returns the texts of a completion, and whether each is a control token.
fn pieces(row: &Object) -> Result<Vec<(String, bool)>, String> {
    let pieces = row.get("completion").and_then(Json::as_array).ok_or("the row has no completion")?;
    let piece = |piece: &Json| match piece {
        Json::String(text) => Ok((text.clone(), false)),
        Json::Object(control) if !text(control, "control").is_empty() => {
            Ok((text(control, "control").to_owned(), true))
        }
        _ => Err("a piece that is neither text nor a control token".to_owned()),
    };
    pieces.iter().map(piece).collect()
}

/// Checks that the flagged text, however it is split, is read as the ids are. A tokenizer may write
/// a space where a piece begins, so white space does not count.
fn same_in_pieces(
    reply: &Arc<Reply>,
    options: &ParseOptions,
    pieces: &[(String, bool)],
    by_ids: &Reading,
    output: &str,
) -> Result<(), Verdict> {
    let split = |cut: &mut dyn FnMut(&str) -> Vec<String>| {
        let each = pieces.iter().flat_map(|(text, is_control)| match is_control {
            true => vec![TranscriptPiece::Control(text.clone())],
            false => cut(text).into_iter().map(|text| TranscriptPiece::Bytes(text.into_bytes())).collect(),
        });
        read_pieces(reply, options, each.collect::<Vec<_>>(), Stop::End)
    };
    let other = |expected: String, found: String| Verdict::Misread { expected, found, output: output.to_owned() };
    let (whole, reading) = split(&mut |text| vec![text.to_owned()]);
    let (flagged, by_id) = (Said::of_reading(&reading), Said::of_reading(by_ids));
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let texts = [(&flagged.content, &by_id.content), (&flagged.reasoning, &by_id.reasoning)];
    let is_same = texts.into_iter().all(|(one, other)| squeezed(one) == squeezed(other))
        && Said { content: by_id.content.clone(), reasoning: by_id.reasoning.clone(), ..flagged.clone() }.means(&by_id)
        && reading.malformed.is_empty() == by_ids.malformed.is_empty();
    if !is_same {
        return Err(other(format!("as by ids: {}", written(&by_id)), written(&flagged)));
    }
    let (cut, _) = split(&mut |text| characters(text).into_iter().map(str::to_owned).collect());
    if cut != whole {
        return Err(other(format!("as when parsed whole:\n{whole}"), format!("character by character:\n{cut}")));
    }
    for seed in 0..SEEDS {
        let mut random = fastrand::Rng::with_seed(seed);
        let (cut, _) = split(&mut |text| random_chunks(text, &mut random).into_iter().map(str::to_owned).collect());
        if cut != whole {
            return Err(other(format!("as when parsed whole:\n{whole}"), format!("split at random {seed}:\n{cut}")));
        }
    }
    Ok(())
}
