use std::fmt;
use std::sync::OnceLock;

use rolecall::encode::{Encoder, Protection};
use rolecall::render::Run;
use rolecall::{Error, Model};

use crate::Fault;

/// Encodes prompts that are no conversations. It is made when the first one comes.
#[derive(Default)]
pub struct Texts(OnceLock<Encoder>);

impl Texts {
    /// Encodes a text. What spells a control token stays text. `has_bos` says whether the token comes
    /// before it that the tokenizer puts before every text.
    pub fn encode(&self, model: &Model, text: &str, has_bos: bool) -> Result<Vec<u32>, Fault> {
        let encoder = self.encoder(model).map_err(|error| Fault { status: 500, ..Fault::from(error) })?;
        let bos = encoder.tokenizer().adds_bos().filter(|_| has_bos);
        let run = (!text.is_empty()).then_some(Run::Text { text, start: 0 });
        let encoded = encoder.encode_runs(run).map_err(Error::Encode)?;
        Ok(bos.into_iter().chain(encoded.tokens.iter().map(|token| token.id)).collect())
    }

    fn encoder(&self, model: &Model) -> Result<&Encoder, Error> {
        if let Some(encoder) = self.0.get() {
            return Ok(encoder);
        }
        let protection = match (model.templates(), model.format()) {
            (Some(templates), format) => templates.protection(format),
            (None, Some(format)) => Protection::of_format(format),
            (None, None) => Protection::default(),
        };
        let encoder = Encoder::new(&protection, model.tokenizer()?.clone()).map_err(Error::Encode)?;
        Ok(self.0.get_or_init(|| encoder))
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Texts({})", self.0.get().is_some())
    }
}
