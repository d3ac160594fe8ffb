use std::sync::Arc;

use rolecall::Request;
use rolecall::grammar::{Options, Reasoning, ToolChoice};
use rolecall::parse::{IdParser, Ids, ParseOptions};

use crate::Fault;
use crate::gateway::{Permit, Served, random};

/// A turn of the model that is ready to be generated.
pub struct Turn {
    /// The ids of the prompt.
    pub ids: Vec<u32>,
    /// The ids that end the reply, each with whether the parser must get it.
    pub stops: Vec<(u32, bool)>,
    /// What parses the ids of the reply.
    pub reader: IdParser,
    /// Whether a call may be sent only when it ends, because the model writes its id last.
    pub holds_calls: bool,
    /// What the reply must follow, in GBNF.
    pub gbnf: Option<String>,
}

/// What calls a reply may have.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    pub choice: ToolChoice,
    pub at_most_one: bool,
}

impl Calls {
    /// Reports whether the model needs no grammar.
    pub fn is_free(&self) -> bool {
        self.choice == ToolChoice::Auto && !self.at_most_one
    }
}

impl Turn {
    /// Renders and encodes a request, on a thread for long work: a template may take its time.
    pub async fn prepare(
        served: &Arc<Served>,
        request: Request,
        calls: Calls,
        most_ids: usize,
        permit: Permit,
    ) -> Result<(Turn, Permit), Fault> {
        let served = Arc::clone(served);
        // A client that leaves keeps its place as long as its work goes on.
        apart(move || Ok((Turn::make(&served, request, calls, most_ids)?, permit))).await
    }

    fn make(served: &Served, request: Request, calls: Calls, most_ids: usize) -> Result<Turn, Fault> {
        let prompt = served.model.prompt(request)?;
        let ids = prompt.encode()?.ids();
        if ids.len() > most_ids {
            let message = format!("the prompt has {} ids, and at most {most_ids} are allowed", ids.len());
            return Err(Fault::at("messages", "context_length_exceeded", message));
        }
        let gbnf = match calls.is_free() {
            true => None,
            false => {
                let can_reason = prompt.reply()?.around_reasoning().is_some();
                let reasoning = if can_reason { Reasoning::Optional } else { Reasoning::Off };
                let (choice, one_call) = (calls.choice, calls.at_most_one);
                let options = Options { choice, one_call, reasoning, ..Options::default() };
                Some(prompt.grammar(options)?.to_gbnf().text)
            }
        };
        let reader = prompt.id_reader_with(ParseOptions { ids: Ids::Seeded(random()), ..ParseOptions::default() })?;
        Ok(Turn { ids, stops: prompt.reply_stops()?, reader, holds_calls: prompt.reply()?.has_late_ids(), gbnf })
    }
}

/// Does long work on a thread for it.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T, Fault> + Send + 'static) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Fault::new(500, "internal", "the request could not be prepared")))
}
