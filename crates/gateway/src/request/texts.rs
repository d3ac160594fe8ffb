use std::fmt;
use std::sync::OnceLock;

use rolecall::encode::{Encoder, Protection};
use rolecall::render::Run;
use rolecall::tokenizer::TextPlace;
use rolecall::{Error, Model};

use crate::Fault;

/// How a text is encoded.
#[derive(Clone, Copy, Debug)]
pub struct TextEncoding {
    /// Whether the token comes before it that the tokenizer puts before every text.
    pub has_bos: bool,
    /// Whether what spells a control token is one, as in the reference. Otherwise it is text.
    pub is_reference: bool,
}

/// Encodes prompts that are no conversations. It is made when the first one comes.
#[derive(Default)]
pub struct Texts(OnceLock<Encoder>);

impl Texts {
    /// Encodes a text to at most so many ids, and the token before it.
    pub fn encode(&self, model: &Model, text: &str, how: TextEncoding, most: usize) -> Result<Vec<u32>, Fault> {
        let encoder = self.encoder(model).map_err(|error| Fault { status: 500, ..Fault::from(error) })?;
        let bos = encoder.tokenizer().adds_bos().filter(|_| how.has_bos);
        let ids: Vec<u32> = match how.is_reference {
            true => {
                let mut tokens = Vec::new();
                let encoded = encoder.tokenizer().encode_reference(text, TextPlace::Start, &mut tokens);
                encoded.map_err(|error| Error::Encode(error.into()))?;
                tokens.iter().map(|token| token.id).collect()
            }
            false => {
                let run = (!text.is_empty()).then_some(Run::Text { text, start: 0 });
                encoder.encode_runs_at_most(run, most).map_err(Error::Encode)?.ids()
            }
        };
        Ok(bos.into_iter().chain(ids).collect())
    }

    /// Returns the control tokens that a text spells.
    pub fn spelled(&self, model: &Model, text: &str) -> Result<Vec<String>, Fault> {
        let encoder = self.encoder(model).map_err(|error| Fault { status: 500, ..Fault::from(error) })?;
        let tokens = encoder.protected().tokens().filter(|token| !token.text.is_empty() && text.contains(&token.text));
        Ok(tokens.map(|token| token.text.clone()).collect())
    }

    fn encoder(&self, model: &Model) -> Result<&Encoder, Error> {
        if let Some(encoder) = self.0.get() {
            return Ok(encoder);
        }
        let protection = match (model.templates(), model.format()) {
            (Some(templates), format) => templates.protection(format),
            (None, Some(format)) => Protection::default().with_format(format),
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
