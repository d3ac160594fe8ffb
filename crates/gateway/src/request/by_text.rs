//! What is different if an engine gets text instead of ids.

use crate::request::sampling::Sampling;
use crate::served_model::ServedModel;
use crate::{Fault, FaultCode};

/// Refuses settings that OpenAI's completions do not have. The ids of a bias may mean other tokens there.
pub fn restrict_sampling(sampling: &mut Sampling, applied: &mut Vec<&'static str>) -> Result<(), Fault> {
    let own = [
        ("top_k", sampling.top_k.take().is_some()),
        ("min_p", sampling.min_p.take().is_some()),
        ("repetition_penalty", sampling.repetition_penalty.take().is_some()),
        ("logit_bias", !sampling.logit_bias.is_empty()),
    ];
    match own.iter().find(|(name, is_set)| *is_set && !applied.contains(name)) {
        Some((name, _)) => Err(unsupported(name)),
        None => {
            applied.retain(|applied| own.iter().all(|(name, _)| name != applied));
            Ok(())
        }
    }
}

/// Returns the error for a setting that the engine does not take.
pub fn unsupported(name: &str) -> Fault {
    let message = format!("the engine of this model is used by text, and does not support `{name}`");
    Fault { help: Some("leave it out".into()), ..Fault::at(name, FaultCode::UnsupportedParameter, message) }
}

/// Returns the text of a prompt for an engine by text, and `None` for others.
///
/// The engine's tokenizer is that of the model. If it puts a token before every text, the prompt does not
/// begin with it, so that the engine does not have it twice.
pub fn prompt(served: &ServedModel, bytes: impl FnOnce() -> Result<Vec<u8>, Fault>) -> Result<Option<String>, Fault> {
    if !served.engine.kind().is_by_text() {
        return Ok(None);
    }
    let text = String::from_utf8(bytes()?).map_err(|_| {
        let help = Some("begin another conversation".into());
        let message = "the prompt has ids that are no text, and the engine takes only text";
        Fault { help, ..Fault::new(FaultCode::NotText, message) }
    })?;
    let tokenizer = served.model.tokenizer()?;
    let bos = tokenizer.adds_bos().and_then(|bos| tokenizer.token_text(bos));
    let rest = bos.and_then(|bos| text.strip_prefix(&*bos).map(str::to_owned));
    Ok(Some(rest.unwrap_or(text)))
}

/// Returns the texts of the tokens that end a reply.
pub fn stop_texts(served: &ServedModel, ids: &[u32]) -> Result<Vec<String>, Fault> {
    let tokenizer = served.model.tokenizer()?;
    Ok(ids.iter().filter_map(|id| tokenizer.token_text(*id)).filter(|text| !text.is_empty()).collect())
}
