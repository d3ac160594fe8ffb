use rolecall_format::Control;

use super::{Finding, FindingKind};
use crate::Error;
use crate::binding;
use rolecall_tokenizer::Tokenizer;

/// A control token of a format and its counterpart in the tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlFit {
    /// The token's usual text.
    pub text: String,
    /// The counterpart in the tokenizer.
    pub fit: Fit,
    /// Whether the format writes it. Other control tokens only serve as stop tokens or are kept out
    /// of text.
    pub emitted: bool,
}

/// How a tokenizer represents a control token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fit {
    /// As one token.
    Single {
        /// The token's id.
        id: u32,
        /// The tokenizer's text for it, if that text differs.
        spelled: Option<String>,
    },
    /// As an id past the end of the file's vocabulary, which the model maker's code assigns.
    Appended {
        /// The token's id.
        id: u32,
    },
    /// As one token whose id differs from the format's.
    OtherId {
        /// The id in the format.
        expected: u32,
        /// The id in the tokenizer.
        found: u32,
    },
    /// Not at all.
    Missing {
        /// The id that the format gives, if it is public.
        id: Option<u32>,
        /// The text of the token that has that id in the tokenizer.
        instead: Option<String>,
    },
}

pub(super) fn fit(control: &Control, tokenizer: &dyn Tokenizer) -> ControlFit {
    let fit = match binding::find(control, tokenizer) {
        Ok(id) => match tokenizer.token_text(id) {
            None => Fit::Appended { id },
            Some(text) => Fit::Single { id, spelled: (text != control.text).then_some(text) },
        },
        Err(Error::WrongControlId { expected, found, .. }) => Fit::OtherId { expected, found },
        Err(Error::MissingControl { id, instead, .. }) => Fit::Missing { id, instead },
        Err(_) => Fit::Missing { id: control.id, instead: None },
    };
    ControlFit { text: control.text.clone(), fit, emitted: control.emitted }
}

/// Adds a finding for each control token that does not fit.
pub(super) fn find(fits: &[ControlFit], controls: &[Control], tokenizer: &dyn Tokenizer, out: &mut Vec<Finding>) {
    let ids = fits.iter().filter_map(|fit| match fit.fit {
        Fit::Single { id, .. } => Some(id),
        _ => None,
    });
    // An encoder keeps these tokens out of text, so check the tokenizer in that state.
    let Ok(kept) = tokenizer.keeping_out(&ids.collect()) else { return };
    for (fit, control) in fits.iter().zip(controls) {
        let (kind, message, id) = match &fit.fit {
            Fit::Missing { id, instead } if fit.emitted => {
                let error = Error::MissingControl { token: fit.text.clone(), id: *id, instead: instead.clone() };
                (FindingKind::ControlMissing, error.to_string(), *id)
            }
            Fit::OtherId { expected, found } => {
                let error = Error::WrongControlId { token: fit.text.clone(), expected: *expected, found: *found };
                (FindingKind::ControlOtherId, error.to_string(), Some(*found))
            }
            Fit::Single { id, .. } if binding::is_text(*id, kept.as_ref()) => {
                let error = Error::ForgeableControl { token: fit.text.clone(), id: *id };
                (FindingKind::ControlIsText, error.to_string(), Some(*id))
            }
            _ => continue,
        };
        out.push(Finding { kind, message, tokens: vec![(control.text.clone(), id)] });
    }
    let bos = tokenizer.adds_bos();
    let written = fits.iter().zip(controls).find(|(fit, control)| {
        control.bos && control.emitted && matches!(fit.fit, Fit::Single { id, .. } if Some(id) == bos)
    });
    if let Some((fit, _)) = written {
        let message = format!("the format begins a prompt with `{}`, and the tokenizer adds it as well", fit.text);
        out.push(Finding { kind: FindingKind::DoubleBos, message, tokens: vec![(fit.text.clone(), bos)] });
    }
}
