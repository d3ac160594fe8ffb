//! `rolecall rollout`: shows a session turn by turn, with its loss.

use std::path::Path;

use rolecall::answer;

use crate::args::Rollout;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{load_decoder, refused};
use crate::output::Output;
use crate::session::{Player, draw_rollout, play};
use crate::source::Source;

pub fn run(args: &Rollout, output: &Output) -> Result<Exit, Failure> {
    let reader = args.model.open(output)?;
    let model = &reader.job.model;
    let decoder = load_decoder(model)?;
    let path = args.input.as_deref().unwrap_or(Path::new("-"));
    let mut player = Player::new(model.clone());
    let mut source = Source::default();
    let exit = play(path, &reader, &mut player, false, output, &mut |played| {
        source.name = played.script.to_owned();
        if let Err(refusal) = &played.outcome {
            let line = played.source();
            output.show(&played.diagnostic(refusal, &line));
        }
        Ok(())
    })?;
    let session = player.session().map_err(|refusal| refused(refusal, &source))?;
    let rollout = session.rollout(&args.loss.policy()).map_err(|error| refused(error.into(), &source))?;
    match args.json {
        true => output.write_json(&answer::of_rollout(session, &rollout))?,
        false => output.write(&draw_rollout(&rollout, &decoder, output.paint))?,
    }
    Ok(exit)
}
