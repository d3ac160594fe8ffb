//! The format's control tokens as the tokenizer knows them.

use rolecall_format::Control;

use crate::{Error, Tokenizer};

/// The id of each control token; refused where the tokenizer lacks one or gives it another id.
pub(crate) fn bind(controls: &[Control], tokenizer: &dyn Tokenizer) -> Result<Vec<u32>, Error> {
    controls.iter().map(|control| find(control, tokenizer)).collect()
}

fn find(control: &Control, tokenizer: &dyn Tokenizer) -> Result<u32, Error> {
    let found = control.texts().find_map(|text| tokenizer.token_id(text));
    match (found, control.id) {
        (Some(found), Some(expected)) if found != expected => {
            Err(Error::WrongControlId { token: control.text.clone(), expected, found })
        }
        (Some(found), _) => Ok(found),
        (None, Some(id)) if control.appended && tokenizer.token_text(id).is_none() => Ok(id),
        (None, id) => Err(Error::MissingControl {
            token: control.text.clone(),
            id,
            instead: id.and_then(|id| tokenizer.token_text(id)),
        }),
    }
}
