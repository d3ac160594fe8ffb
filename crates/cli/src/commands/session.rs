//! `rolecall session`: plays a script of steps.

use std::fs;
use std::path::Path;

use crate::args::Session;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{load_decoder, refused};
use crate::output::Output;
use crate::session::{Player, draw_played, of_played, play};
use crate::source::Source;

pub fn run(args: &Session, output: &Output) -> Result<Exit, Failure> {
    let reader = args.model.open(output)?;
    let model = &reader.job.model;
    let decoder = load_decoder(model)?;
    let path = args.input.as_deref().unwrap_or(Path::new("-"));
    let mut player = Player::new(model.clone());
    let exit = play(path, &reader, &mut player, args.fail_fast, output, &mut |played| match args.json {
        true => output.write_json(&of_played(played)),
        false => output.write(&draw_played(played, &decoder, output.paint)),
    })?;
    if let Some(path) = &args.save {
        let source = Source::default();
        let session = player.session().map_err(|refusal| refused(refusal, &source))?;
        let saved = session.save().map_err(|error| refused(error.into(), &source))?;
        fs::write(path, saved + "\n")
            .map_err(|error| Failure::SessionFile { path: path.display().to_string(), why: error.to_string() })?;
    }
    Ok(exit)
}
