use rolecall::Model;

use crate::engine::Engine;
use crate::request::sampling::Sampling;
use crate::served_model::ServedModel;
use crate::{Fault, FaultCode, Limits};

/// A prompt that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The number of its tokens, or of those that were counted.
    pub tokens: u64,
    /// Whether there are more.
    pub has_more: bool,
    /// The most tokens of a prompt and its reply.
    pub most: u64,
}

impl Excess {
    /// Returns the error, in OpenAI's words, by which clients know that they must shorten the conversation.
    pub fn fault(self, field: &str) -> Fault {
        let Excess { tokens, has_more, most } = self;
        let counted = if has_more { format!("at least {tokens}") } else { tokens.to_string() };
        let own = if field == "prompt" { "prompt" } else { "messages" };
        let message = match tokens > most {
            true => format!("your {own} resulted in {counted} tokens. Please reduce the length of the {own}."),
            // A reply has at least one.
            false => {
                let all = tokens + 1;
                format!(
                    "you requested {all} tokens ({tokens} in the {own}, 1 in the completion). \
                     Please reduce the length of the {own}."
                )
            }
        };
        let message = format!("This model's maximum context length is {most} tokens. However, {message}");
        Fault { excess: Some(self), ..Fault::at(field, FaultCode::ContextLengthExceeded, message) }
    }

    /// Returns Anthropic's words for it.
    pub fn anthropic(self) -> String {
        let Excess { tokens, most, .. } = self;
        match tokens > most {
            true => format!("prompt is too long: {tokens} tokens > {most} maximum"),
            false => format!("prompt is too long: {tokens} tokens, and at least 1 of the reply > {most} maximum"),
        }
    }
}

/// How many tokens of a prompt are worth the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The most tokens that any prompt may have.
    pub limit: usize,
    /// The most tokens that this prompt may have, as far as it is known.
    most: u64,
    /// The number of tokens up to which a prompt is counted that is too long, so that its client learns by how much.
    pub counted: usize,
}

/// The tokens beyond twice the room that are counted.
const COUNTED_BEYOND: u64 = 1 << 16;

impl Bound {
    /// Returns the bound of a gateway.
    pub fn new(limits: &Limits) -> Bound {
        let limit = limits.prompt_ids;
        Bound { limit, most: limit as u64, counted: limit }
    }

    /// Returns the bound of a model, with what its engine said so far.
    pub fn of(served: &ServedModel, limits: &Limits) -> Bound {
        let bound = Bound::new(limits);
        let known = served.model.sampling().session_len.into_iter().chain(served.engine.said_context()).min();
        let Some(most) = known.filter(|most| *most < bound.most) else { return bound };
        let counted = most.saturating_mul(2).saturating_add(COUNTED_BEYOND);
        Bound {
            most,
            counted: usize::try_from(counted).map_or(bound.limit, |counted| counted.min(bound.limit)),
            ..bound
        }
    }

    /// Refuses a prompt of more tokens than any may have.
    pub fn check(self, tokens: usize, field: &str) -> Result<(), Fault> {
        match tokens > self.limit {
            true => Err(Excess { tokens: tokens as u64, has_more: false, most: self.limit as u64 }.fault(field)),
            false => Ok(()),
        }
    }

    /// Returns the fault of work that stopped at the bound in its own words, and other faults as they are.
    pub fn placed(self, fault: Fault, field: &str) -> Fault {
        match fault.code.name() {
            "too_many_tokens" => {
                Excess { tokens: self.counted as u64 + 1, has_more: true, most: self.most }.fault(field)
            }
            _ => fault,
        }
    }
}

/// Refuses a prompt that leaves no room for a reply, and limits the reply to the room that there is. The room is what
/// the model was made for (`session_len`), or what the engine has, whichever is less.
pub async fn fit(
    model: &Model,
    engine: &Engine,
    prompt: usize,
    field: &str,
    sampling: &mut Sampling,
) -> Result<(), Fault> {
    let prompt = prompt as u64;
    let own = model.sampling().session_len;
    let engines = engine.context(prompt).await;
    let Some(most) = own.into_iter().chain(engines).min() else { return Ok(()) };
    let Some(room) = most.checked_sub(prompt).filter(|room| *room > 0) else {
        return Err(Excess { tokens: prompt, has_more: false, most }.fault(field));
    };
    // The engine knows its own end.
    if sampling.max_tokens.is_some() || engines.is_none_or(|engines| most < engines) {
        sampling.max_tokens = Some(sampling.max_tokens.map_or(room, |wanted| wanted.min(room)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Excess;

    #[test]
    fn clients_know_the_words() {
        let excess = Excess { tokens: 5000, has_more: false, most: 4096 };
        let fault = excess.fault("messages");
        assert_eq!(
            &*fault.message,
            "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens. \
             Please reduce the length of the messages."
        );
        assert_eq!(excess.anthropic(), "prompt is too long: 5000 tokens > 4096 maximum");
        let more = Excess { has_more: true, ..excess }.fault("messages");
        assert!(more.message.contains("resulted in at least 5000 tokens"), "{}", more.message);
        let full = Excess { tokens: 4096, has_more: false, most: 4096 }.fault("prompt");
        assert!(full.message.contains("you requested 4097 tokens (4096 in the prompt"), "{}", full.message);
    }
}
