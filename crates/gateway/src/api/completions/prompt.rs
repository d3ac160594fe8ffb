use rolecall::Error;
use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use super::{needed, wrong};
use crate::Fault;
use crate::request::by_text;
use crate::request::number;
use crate::request::texts::TextEncoding;
use crate::served_model::ServedModel;
use crate::turn::context::Bound;

/// The prompts of a request.
pub struct Prompts {
    /// The ids of each.
    pub ids: Vec<Vec<u32>>,
    /// The texts, of those that came as texts.
    texts: Vec<Option<String>>,
}

/// What a prompt may be.
const EXPECTED: &str = "expected a text, a list of token ids, or a list of one of these";

impl Prompts {
    pub fn read(body: &Object, served: &ServedModel, how: TextEncoding, bound: Bound) -> Result<Prompts, Fault> {
        let value = needed(body, "prompt")?;
        let prompts: Vec<&Json> = match value {
            Json::Array(items) if items.iter().all(|item| number::integer(item).is_none()) => items.iter().collect(),
            value => vec![value],
        };
        if prompts.is_empty() {
            return Err(wrong(EXPECTED));
        }
        let (mut ids, mut texts) = (Vec::with_capacity(prompts.len()), Vec::with_capacity(prompts.len()));
        for prompt in prompts {
            let (own, text) = match prompt {
                Json::String(text) => {
                    let ids = served.texts.encode(&served.model, text, how, bound.counted);
                    (ids.map_err(|fault| bound.placed(fault, "prompt"))?, Some(text.clone()))
                }
                Json::Array(items) => {
                    bound.check(items.len(), "prompt")?;
                    (ids_of(items, served)?, None)
                }
                _ => return Err(wrong(EXPECTED)),
            };
            if own.is_empty() {
                return Err(wrong("a prompt has no ids"));
            }
            bound.check(own.len(), "prompt")?;
            ids.push(own);
            texts.push(text);
        }
        Ok(Prompts { ids, texts })
    }

    /// Returns the control tokens that the texts spell.
    pub fn spelled(&self, served: &ServedModel) -> Result<Vec<String>, Fault> {
        let mut spelled = Vec::new();
        for text in self.texts.iter().flatten() {
            spelled.extend(served.texts.spelled(&served.model, text)?);
        }
        spelled.sort();
        spelled.dedup();
        Ok(spelled)
    }

    /// Returns the text of each prompt for an engine by text, and `None` for others.
    pub fn for_engine(&self, served: &ServedModel) -> Result<Vec<Option<String>>, Fault> {
        let decoder = served.model.decoder()?;
        let text = |(ids, text): (&Vec<u32>, &Option<String>)| {
            by_text::prompt(served, || match text {
                Some(text) => Ok(text.clone().into_bytes()),
                None => Ok(decoder.decode(ids).map_err(Error::Encode)?),
            })
        };
        self.ids.iter().zip(&self.texts).map(text).collect()
    }

    /// Returns the text of each prompt.
    pub fn texts(&self, served: &ServedModel) -> Result<Vec<String>, Fault> {
        let decoder = served.model.decoder()?;
        let text = |(ids, text): (&Vec<u32>, &Option<String>)| match text {
            Some(text) => Ok(text.clone()),
            None => {
                let bytes = decoder.decode(ids).map_err(Error::Encode)?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
        };
        self.ids.iter().zip(&self.texts).map(text).collect()
    }
}

/// Reads ids, and checks that the tokenizer has each.
fn ids_of(items: &[Json], served: &ServedModel) -> Result<Vec<u32>, Fault> {
    let decoder = served.model.decoder()?;
    let mut bytes = Vec::new();
    let id = |item: &Json| {
        let id = number::id(item).ok_or_else(|| wrong(EXPECTED))?;
        bytes.clear();
        match decoder.append(id, &mut bytes) {
            Ok(()) => Ok(id),
            Err(error) => Err(Fault { param: Some("prompt".into()), ..Fault::from(Error::Encode(error)) }),
        }
    };
    items.iter().map(id).collect()
}
