//! A turn: a request that a conversation goes on with, and what the engine gets for it.
//!
//! `exchange` answers a request, with `sessions` that remember conversations, `resend` that compares what is sent again,
//! `left_out` that judges what the model does not see, `rounds` and `hosted_calls` that run calls here, `context` that bounds the length, `running` that a client may
//! cancel, `used_approvals` of calls that have begun, and `dry` that makes a turn without an engine. Start reading at [`Turn`].

pub(crate) mod context;
pub(crate) mod dry;
pub(crate) mod exchange;
mod headers;
pub(crate) mod hosted_calls;
pub(crate) mod left_out;
pub(crate) mod resend;
mod rounds;
pub(crate) mod running;
pub(crate) mod sessions;
pub(crate) mod support_cache;
#[expect(clippy::module_inception, reason = "a turn is the noun of this module, too")]
mod turn;
pub(crate) mod used_approvals;

pub(crate) use turn::{First, History, KnownPast, OpenTurn, Overlap, Turn, beginnings};
