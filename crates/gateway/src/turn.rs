use std::sync::Arc;

use rolecall::Request;
use rolecall::grammar::{Options, ToolChoice};
use rolecall::parse::{IdParser, Ids, ParseOptions};

use crate::Fault;
use crate::gateway::{Served, random};

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
    pub async fn prepare(served: &Arc<Served>, request: Request, calls: Calls, most_ids: usize) -> Result<Turn, Fault> {
        let served = Arc::clone(served);
        let made = tokio::task::spawn_blocking(move || Turn::make(&served, request, calls, most_ids)).await;
        made.unwrap_or_else(|_| Err(Fault::new(500, "internal", "the request could not be prepared")))
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
                let options = Options { choice: calls.choice, one_call: calls.at_most_one, ..Options::default() };
                Some(prompt.grammar(options)?.to_gbnf().text)
            }
        };
        let reader = prompt.id_reader_with(ParseOptions { ids: Ids::Seeded(random()), ..ParseOptions::default() })?;
        Ok(Turn { ids, stops: prompt.reply_stops()?, reader, holds_calls: prompt.reply()?.has_late_ids(), gbnf })
    }
}
