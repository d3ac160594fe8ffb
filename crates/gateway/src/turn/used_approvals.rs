use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::{Fault, FaultCode};

/// The approvals of stored answers whose calls have begun: each is good for one call, also for a client that sends its
/// request again. A client that keeps the conversation itself sends what it likes, and its approvals are not noted.
#[derive(Debug, Default)]
pub struct UsedApprovals(Mutex<(HashSet<String>, VecDeque<String>)>);

/// The most approvals that are remembered.
const MOST: usize = 1 << 16;

impl UsedApprovals {
    /// Notes that the calls of some approvals begin, each with its place and the id of its request. Notes nothing if one of
    /// them has begun already.
    pub fn begin(&self, approvals: &[(&str, &str)]) -> Result<(), Fault> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, order) = &mut *used;
        if let Some((path, id)) = approvals.iter().find(|(_, id)| known.contains(*id)) {
            let message = format!("{path}: the call of the approval request `{id}` has begun already");
            let help =
                "go on from the answer that has its result, or ask the model again: an approval is good for one call";
            return Err(Fault { help: Some(help.into()), ..Fault::at(path, FaultCode::Conflict, message) });
        }
        for (_, id) in approvals {
            known.insert((*id).to_owned());
            order.push_back((*id).to_owned());
        }
        while order.len() > MOST {
            order.pop_front().map(|oldest| known.remove(&oldest));
        }
        Ok(())
    }
}
