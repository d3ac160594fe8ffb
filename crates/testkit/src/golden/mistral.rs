//! Rows of a maker whose own code writes prompts. The rows that are not pending check that their
//! ids decode to their text.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::encode::Decoder;

use super::{Context, text, tokenizers};
use crate::Verdict;

/// Checks that a row's ids decode to its text, unless the text consists of pieces.
pub(super) fn decoded(row: &Object, context: &mut Context) -> Option<Verdict> {
    // A prompt with a gap consists of pieces too, without a field that says so.
    if text(row, "op") != "mistral_encode" {
        return None;
    }
    let expected = row.get("expected")?.as_object()?;
    let (ids, wanted) = (expected.get("ids")?.as_array()?, expected.get("text")?.as_str()?);
    if expected.get("pieces").is_some() {
        return None;
    }
    let name = text(row, "tokenizer");
    let tokenizer = match tokenizers::retagged(name, context) {
        Ok(tokenizer) => tokenizer,
        Err(why) => return Some(Verdict::cannot_run(why)),
    };
    let ids: Option<Vec<u32>> = ids
        .iter()
        .map(|id| match id {
            Json::Number(number) => u32::try_from(number.as_i64()?).ok(),
            _ => None,
        })
        .collect();
    let Some(ids) = ids else { return Some(Verdict::cannot_run("the row has ids that are not numbers")) };
    Some(match Decoder::new(tokenizer).decode(&ids) {
        Ok(bytes) => Verdict::compare(wanted, &String::from_utf8_lossy(&bytes)),
        Err(error) => Verdict::Failed { expected: wanted.to_owned(), found: error.to_string() },
    })
}
