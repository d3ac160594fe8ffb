use std::io::{BufRead, BufReader};
use std::path::Path;
use std::{fs, io};

use rolecall::tokenizer::TextPlace;
use rolecall::{Error, Model};

use crate::args::Decode;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::job::{load_decoder, unopened};
use crate::output::Output;

pub fn run(args: &Decode, output: &Output) -> Result<Exit, Failure> {
    let decoder = load_decoder(&model(args)?)?;
    let path = args.input.as_deref().unwrap_or(Path::new("-"));
    let mut stream = decoder.stream();
    if !args.answer {
        stream = stream.at(TextPlace::Start);
    }
    let misfit = |error: Error| Failure::Misfit { tokenizer: args.tokenizer().display().to_string(), error };
    for (number, line) in open(path)?.lines().enumerate() {
        let line = line.map_err(|error| files::unreadable_file(path, &error))?;
        let mut text = String::new();
        for id in ids(&line, number + 1, path)? {
            if !args.skip_special || !decoder.is_marker(id) {
                text.push_str(&stream.push(id).map_err(|error| misfit(error.into()))?);
            }
        }
        // Print complete text before waiting for the next line.
        output.write(&text)?;
    }
    output.write(&stream.finish())?;
    Ok(Exit::Good)
}

/// Opens the model that the ids belong to. Its format says which tokens the maker's code appends to
/// those of the file.
fn model(args: &Decode) -> Result<Model, Failure> {
    let path = args.tokenizer();
    let builder = Model::builder().tokenizer(path);
    if let Some(format) = &args.format {
        return builder.format(format).open().map_err(|error| unopened(error, Some(path)));
    }
    // Any folder with a tokenizer will do, whatever else is in it.
    match builder.clone().model(path).open() {
        Ok(model) if path.is_dir() => Ok(model),
        _ => builder.open().map_err(|error| unopened(error, Some(path))),
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if files::is_stdin(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = fs::File::open(path).map_err(|error| files::unreadable_file(path, &error))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Parses the ids of a line.
pub fn ids(line: &str, number: usize, path: &Path) -> Result<Vec<u32>, Failure> {
    let between = |character: char| character.is_whitespace() || matches!(character, ',' | '[' | ']');
    let words = line.split(between).filter(|word| !word.is_empty());
    let read = |word: &str| {
        word.parse().map_err(|_| Failure::NotAnId {
            path: if files::is_stdin(path) { "<stdin>".into() } else { path.display().to_string() },
            line: number,
            found: word.chars().take(40).collect(),
        })
    };
    words.map(read).collect()
}
