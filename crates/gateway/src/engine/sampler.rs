use std::time::Duration;

use rolecall::Model;
use rolecall::session::Finish;
use rolecall_interpreter::Stop;
use rolecall_interpreter::agent::{self, EngineError, Sampled};
use tokio::runtime::{Builder, Runtime};

use super::{About, Ask, End, Engine, EngineKind, EnginePiece, LocalOptions, PromptIds};
use crate::request::sampling::Sampling;
use crate::{Fault, Limits};

/// An engine for an agent, which waits for each reply. Use it where waiting is allowed.
pub struct Sampler {
    engine: Engine,
    /// The engine's name for the model.
    model: Option<String>,
    /// What ends a reply, as texts for an engine by text.
    stop_texts: Vec<String>,
    sampling: Sampling,
    runtime: Runtime,
}

impl Sampler {
    /// Opens an engine for a model: `http://host:port`, or `local:FILE.gguf` for llama.cpp's server, which is started.
    /// Samples as the model's files say.
    pub fn open(
        model: &Model,
        address: &str,
        kind: EngineKind,
        engine_model: Option<&str>,
        local: &LocalOptions,
    ) -> Result<Sampler, String> {
        let engine = Engine::open(address, kind, local, &Limits::default())?;
        let engine = engine.knowing(model.tokenizer().map_err(|error| error.to_string())?);
        let stops = model.stops().map_err(|error| error.to_string())?;
        let nothing = rolecall::conversation::json::Object::new();
        let (sampling, _) = Sampling::read(&nothing, model).map_err(|fault| fault.message.to_string())?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        Ok(Sampler {
            engine,
            model: engine_model.map(str::to_owned),
            stop_texts: stops.into_iter().map(|stop| stop.text).filter(|text| !text.is_empty()).collect(),
            sampling,
            runtime,
        })
    }

    /// Waits until the engine answers, and returns what it says of itself.
    pub fn ready(&self, patience: Duration) -> Result<About, Fault> {
        self.runtime.block_on(self.engine.ready(patience))
    }

    /// Returns what is not as safe with this engine as with others, if anything is.
    pub fn warning(&self) -> Option<&'static str> {
        self.engine.warning()
    }
}

impl agent::Engine for Sampler {
    fn sample(
        &mut self,
        sampling: &agent::Sampling,
        stop: &Stop,
        take: &mut dyn FnMut(Sampled<'_>),
    ) -> Result<Finish, EngineError> {
        let failed = |fault: Fault| EngineError(fault.message.into());
        let shape = match &sampling.grammar {
            Some(grammar) => Some(self.engine.shape_of(grammar).map_err(failed)?.0),
            None => None,
        };
        let mut own = self.sampling.clone();
        if let Some(most) = sampling.max_tokens {
            own.max_tokens = Some(most as u64);
        }
        let ask = Ask {
            ids: PromptIds::from(sampling.ids.clone()),
            text: self.engine.kind().is_by_text().then(|| sampling.text.clone()),
            sampling: own,
            stop_ids: sampling.stop_ids.clone(),
            stop_texts: self.stop_texts.clone(),
            shape,
            logprobs: None,
            model: self.model.clone(),
        };
        let engine = self.engine.clone();
        self.runtime.block_on(async {
            let mut stream = tokio::select! {
                stream = engine.generate(&ask) => stream.map_err(failed)?,
                () = stop.stopped() => return Ok(Finish::Abort),
            };
            loop {
                // Dropping the stream closes the connection, which the engine takes as the order to stop.
                let piece = tokio::select! {
                    piece = stream.next() => piece.map_err(failed)?,
                    () = stop.stopped() => return Ok(Finish::Abort),
                };
                let Some(piece) = piece else { return Ok(Finish::Stop) };
                give(&piece, take);
                match piece.end {
                    Some(End::Stop) => return Ok(Finish::Stop),
                    Some(End::Length) => return Ok(Finish::Length),
                    None => {}
                }
            }
        })
    }
}

fn give(piece: &EnginePiece, take: &mut dyn FnMut(Sampled<'_>)) {
    if !piece.ids.is_empty() {
        take(Sampled::Ids(&piece.ids));
    }
    if let Some(spoken) = &piece.spoken {
        take(Sampled::Text(&spoken.text));
    }
    if !piece.text.is_empty() {
        take(Sampled::Spelled(&piece.text));
    }
}
