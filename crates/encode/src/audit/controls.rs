use rolecall_format::Control;

use super::{Finding, FindingKind};
use crate::Error;
use crate::binding;
use rolecall_tokenizer::Tokenizer;

/// A control token of a format, and what the tokenizer has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlFit {
    /// Its usual text.
    pub text: String,
    /// What the tokenizer has.
    pub fit: Fit,
    /// Whether the format writes it; others are known only to stop at, or to be kept out of text.
    pub emitted: bool,
}

/// How a control token is known to a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fit {
    /// One token.
    Single {
        /// Its id.
        id: u32,
        /// The text that the tokenizer has for it, where that is another one.
        spelled: Option<String>,
    },
    /// Its id lies behind the file's vocabulary, as the maker's code has it.
    Appended {
        /// Its id.
        id: u32,
    },
    /// One token, with another id than the format says.
    OtherId {
        /// The format's id.
        expected: u32,
        /// The tokenizer's.
        found: u32,
    },
    /// No token.
    Missing {
        /// The format's id, where public.
        id: Option<u32>,
        /// What the tokenizer has under that id.
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

/// What is wrong with the fits.
pub(super) fn find(fits: &[ControlFit], controls: &[Control], tokenizer: &dyn Tokenizer, out: &mut Vec<Finding>) {
    let ids = fits.iter().filter_map(|fit| match fit.fit {
        Fit::Single { id, .. } => Some(id),
        _ => None,
    });
    // As an encoder has it, which keeps them out of text.
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
        let message =
            format!("the format opens a prompt with `{}`, and the tokenizer puts it there by itself", fit.text);
        out.push(Finding { kind: FindingKind::DoubleBos, message, tokens: vec![(fit.text.clone(), bos)] });
    }
}
