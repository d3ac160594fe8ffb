//! Finds the parts of a prompt that the tokenizer itself loses.

use std::ops::Range;

use rolecall_render::Prompt;

use crate::{Decoder, Encoded, Error};
use rolecall_text::{common_prefix, common_suffix};
use rolecall_tokenizer::TextPlace;

/// A part of a prompt that does not survive encoding and decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostText {
    /// The byte range in the prompt.
    pub span: Range<usize>,
    /// The text that the ids decode to.
    pub instead: String,
}

impl Encoded {
    /// Returns the parts of the prompt that decode to other bytes. A tokenizer loses text if it
    /// normalizes, does not know a character, or absorbs white space into a token. An empty list
    /// means that nothing is lost.
    pub fn lost(&self, prompt: &Prompt, decoder: &Decoder) -> Result<Vec<LostText>, Error> {
        let mut lost = Vec::new();
        let mut at = 0;
        let mut run: Vec<u32> = Vec::new();
        let mut place = TextPlace::Start;
        for token in &self.tokens {
            if !token.control {
                run.push(token.id);
                continue;
            }
            compare(prompt, at..token.start.max(at), &run, place, decoder, &mut lost)?;
            run.clear();
            place = TextPlace::Inside;
            at = token.end.max(at);
        }
        compare(prompt, at..prompt.text().len(), &run, place, decoder, &mut lost)?;
        Ok(lost)
    }
}

/// Compares a run with the text that its ids decode to.
fn compare(
    prompt: &Prompt,
    span: Range<usize>,
    ids: &[u32],
    place: TextPlace,
    decoder: &Decoder,
    lost: &mut Vec<LostText>,
) -> Result<(), Error> {
    let text = &prompt.text()[span.clone()];
    let mut stream = decoder.stream().at(place);
    let mut back = String::with_capacity(text.len());
    for id in ids {
        back.push_str(&stream.push(*id)?);
    }
    back.push_str(&stream.finish());
    if back == text {
        return Ok(());
    }
    let before = common_prefix(text, &back);
    let behind = common_suffix(&text[before..], &back[before..]);
    lost.push(LostText {
        span: span.start + before..span.end - behind,
        instead: back[before..back.len() - behind].to_owned(),
    });
    Ok(())
}
