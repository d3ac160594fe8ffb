//! Reads model output as it arrives: text, ids or chunks.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use rolecall::conversation::{Json, json};
use rolecall::parse::{IdParser, OutputParser};
use rolecall::{Event, Model, Stop};

use crate::args::Parse;
use crate::commands::decode::ids;
use crate::failure::Failure;
use crate::files;
use crate::refusal::Refusal;
use crate::source::Source;

/// What parses the output.
pub enum Parser {
    Text(OutputParser),
    Ids(IdParser),
}

/// Parses the output to its end and emits the events of each piece as soon as it arrives.
pub fn feed(
    args: &Parse,
    model: &Model,
    parser: Parser,
    stop: Stop,
    sink: &mut impl FnMut(Event<'_>),
) -> Result<(), Failure> {
    let path = args.input.as_deref().unwrap_or(Path::new("-"));
    match parser {
        Parser::Ids(parser) => feed_ids(path, model.tokenizer_path().unwrap_or(Path::new("")), parser, stop, sink),
        Parser::Text(parser) if args.chunks => feed_chunks(path, parser, stop, sink),
        Parser::Text(parser) => feed_text(path, parser, stop, sink),
    }
}

fn feed_text(
    path: &Path,
    mut parser: OutputParser,
    stop: Stop,
    sink: &mut impl FnMut(Event<'_>),
) -> Result<(), Failure> {
    let mut input = files::open(path).map_err(|error| files::unreadable_file(path, &error))?;
    let mut buffer = vec![0; 1 << 16];
    // The bytes of an incomplete character at the end of the last piece.
    let (mut kept, mut offset) = (0, 0);
    loop {
        let count = input.read(&mut buffer[kept..]).map_err(|error| files::unreadable_file(path, &error))?;
        let bytes = &buffer[..kept + count];
        let (text, cut) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, 0),
            Err(error) if error.error_len().is_none() && count > 0 => {
                let (whole, cut) = bytes.split_at(error.valid_up_to());
                (std::str::from_utf8(whole).unwrap_or_default(), cut.len())
            }
            Err(error) => return Err(not_utf8(path, offset + error.valid_up_to())),
        };
        parser.push_text(text, sink);
        offset += text.len();
        let end = bytes.len();
        buffer.copy_within(end - cut..end, 0);
        kept = cut;
        if count == 0 {
            parser.finish(stop, sink);
            return Ok(());
        }
    }
}

fn not_utf8(path: &Path, offset: usize) -> Failure {
    let name = if files::is_stdin(path) { "<stdin>".into() } else { path.display().to_string() };
    Failure::Refused { refusal: Refusal::NotUtf8(offset), source: Source { name, text: String::new() } }
}

fn feed_ids(
    path: &Path,
    tokenizer: &Path,
    mut parser: IdParser,
    stop: Stop,
    sink: &mut impl FnMut(Event<'_>),
) -> Result<(), Failure> {
    for (number, line) in lines(path)?.enumerate() {
        let line = line.map_err(|error| files::unreadable_file(path, &error))?;
        for id in ids(&line, number + 1, path)? {
            let pushed = parser.push(id, sink);
            pushed
                .map_err(|error| Failure::Misfit { tokenizer: tokenizer.display().to_string(), error: error.into() })?;
        }
    }
    parser.finish(stop, sink);
    Ok(())
}

fn feed_chunks(
    path: &Path,
    mut parser: OutputParser,
    stop: Stop,
    sink: &mut impl FnMut(Event<'_>),
) -> Result<(), Failure> {
    for (number, line) in lines(path)?.enumerate() {
        let line = line.map_err(|error| files::unreadable_file(path, &error))?;
        match json::parse(&line) {
            Ok(Json::String(chunk)) => parser.push_text(&chunk, sink),
            _ if line.trim().is_empty() => {}
            _ => {
                let path = if files::is_stdin(path) { "<stdin>".into() } else { path.display().to_string() };
                return Err(Failure::NotAChunk { path, line: number + 1, found: line.chars().take(40).collect() });
            }
        }
    }
    parser.finish(stop, sink);
    Ok(())
}

fn lines(path: &Path) -> Result<impl Iterator<Item = std::io::Result<String>>, Failure> {
    Ok(BufReader::new(files::open(path).map_err(|error| files::unreadable_file(path, &error))?).lines())
}
