//! Looks up the format's control tokens in the tokenizer.

use std::sync::Arc;

use rolecall_format::Control;

use crate::Error;
use rolecall_tokenizer::{AddedToken, ExtendedTokenizer, TextPlace, Tokenizer};

/// Returns a tokenizer that also has the control tokens that the maker's code appends to its
/// vocabulary, so that whatever is encoded with it can be decoded.
pub fn extended(tokenizer: Arc<dyn Tokenizer>, controls: &[Control]) -> Arc<dyn Tokenizer> {
    let is_unknown = |control: &&Control| control.texts().all(|text| tokenizer.token_id(text).is_none());
    let appended = controls.iter().filter(|control| control.appended).filter(is_unknown);
    let appended = appended.filter_map(|control| Some(AddedToken::special(control.text.clone(), control.id?)));
    let appended: Vec<AddedToken> = appended.collect();
    ExtendedTokenizer::over(tokenizer, appended)
}

/// Returns the id of each control token. Fails if the tokenizer lacks a control token that the
/// format writes, or gives one a different id.
pub(crate) fn bind(controls: &[Control], tokenizer: &dyn Tokenizer) -> Result<Vec<Option<u32>>, Error> {
    let each = controls.iter().map(|control| match find(control, tokenizer) {
        Ok(id) => Ok(Some(id)),
        // The format never writes it.
        Err(Error::MissingControl { .. }) if !control.emitted => Ok(None),
        Err(error) => Err(error),
    });
    each.collect()
}

/// Returns the id of a control token.
pub(crate) fn find(control: &Control, tokenizer: &dyn Tokenizer) -> Result<u32, Error> {
    if let (true, Some(id)) = (control.by_id, control.id)
        && tokenizer.token_text(id).is_some()
    {
        return Ok(id);
    }
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

/// Returns the id that a tokenizer has for a control token of a format, or `None` if it has none, or another one than
/// the format says.
pub fn control_id(control: &Control, tokenizer: &dyn Tokenizer) -> Option<u32> {
    find(control, tokenizer).ok()
}

/// Reports whether ordinary text that spells a token encodes to it even though the token should be
/// kept out of text. This includes the effects of the tokenizer's normalizer.
pub(crate) fn is_text(id: u32, tokenizer: &dyn Tokenizer) -> bool {
    // A name with unknown characters may well encode to the unknown token.
    if tokenizer.unknown() == Some(id) {
        return false;
    }
    let Some(text) = tokenizer.token_text(id) else { return false };
    let mut tokens = Vec::new();
    let encoded = tokenizer.encode_ordinary(&text, TextPlace::Inside, &mut tokens);
    encoded.is_ok() && tokens.iter().any(|token| token.id == id)
}
