use axum::http::Method;

use crate::api::{Work, find, interactive, responses};
use crate::observe::RequestLog;
use crate::request::chat_request::Past;
use crate::turn::context::Bound;
use crate::turn::exchange::ReadRequest;
use crate::turn::{KnownPast, Overlap, Turn, beginnings};
use crate::{Fault, FaultCode, Gateway};

impl Gateway {
    /// Returns the ids that a request would send to its engine, if its conversation were not known. No
    /// engine is asked.
    ///
    /// `path` is that of an API that generates, such as `/v1/chat/completions`.
    pub fn prompt_ids(&self, path: &str, body: &str) -> Result<Vec<u32>, Fault> {
        match find(&Method::POST, path).map(|route| route.work) {
            Some(Work::Exchange(read)) => self.ids_by(read, body),
            Some(Work::Respond) => self.ids_by(responses::read, body),
            Some(Work::Interact) => self.ids_by(interactive::read, body),
            // The prompts after each other.
            Some(Work::Complete(read)) => Ok(read(self, body)?.0.prompts.concat()),
            _ => Err(Fault::new(FaultCode::NotFound, format!("there is no {path} that generates"))),
        }
    }

    fn ids_by(&self, read: ReadRequest, body: &str) -> Result<Vec<u32>, Fault> {
        let (mut wanted, _) = read(self, body)?;
        wanted.past = Past::Recognised;
        let (_, chain) = beginnings(&wanted);
        let seen = RequestLog::alone(&self.observer);
        Ok(Turn::make(
            &wanted,
            KnownPast { found: None, covered: Overlap::default(), chain },
            Bound::new(&self.limits),
            &seen,
        )?
        .ids
        .to_vec())
    }
}
