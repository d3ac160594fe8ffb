use std::collections::BTreeSet;
use std::time::Duration;

use rolecall::grammar::ToolChoice;

use super::OwnCall;

/// Decides about a call that nobody allowed before.
pub type Ask = Box<dyn FnMut(&OwnCall) -> Decision + Send>;

/// What an agent may do.
pub struct Policy {
    /// The most replies of one turn.
    pub rounds: usize,
    /// The time after which no further reply is begun.
    pub time: Duration,
    /// The most ids of a reply.
    pub max_tokens: Option<usize>,
    /// How many functions run at once.
    pub parallel: usize,
    /// Whether the first reply must be a call.
    pub choice: ToolChoice,
    /// The names of what runs without a question. Code is `code_interpreter`.
    pub allowed: BTreeSet<String>,
    /// Who decides about the rest. Without anybody, it is refused.
    pub ask: Option<Ask>,
}

/// Whether a call is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is.
    Run,
    /// It is not, and the model is told why.
    Refuse(String),
}

impl Default for Policy {
    /// Nothing runs without a question, and a turn has at most 16 replies within 10 minutes.
    fn default() -> Policy {
        Policy {
            rounds: 16,
            time: Duration::from_secs(600),
            max_tokens: None,
            parallel: 4,
            choice: ToolChoice::Auto,
            allowed: BTreeSet::new(),
            ask: None,
        }
    }
}

impl Policy {
    /// Returns the policy with these names allowed.
    #[must_use]
    pub fn allowing(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Policy {
        self.allowed.extend(names.into_iter().map(Into::into));
        self
    }

    /// Decides about a call.
    pub(super) fn decide(&mut self, call: &OwnCall) -> Decision {
        if self.allowed.contains(call.name()) {
            return Decision::Run;
        }
        match &mut self.ask {
            Some(ask) => ask(call),
            None => Decision::Refuse("nobody allowed it".into()),
        }
    }
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Policy { rounds, time, max_tokens, parallel, choice, allowed, ask } = self;
        let mut debug = f.debug_struct("Policy");
        debug.field("rounds", rounds).field("time", time).field("max_tokens", max_tokens).field("parallel", parallel);
        debug.field("choice", choice).field("allowed", allowed).field("asks", &ask.is_some());
        debug.finish()
    }
}
