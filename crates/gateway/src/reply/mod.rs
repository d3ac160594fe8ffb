//! A reply: what the engine samples, parsed and put into the answer of an API.
//!
//! `reader` parses ids, `writer` is what an API does with the events, `replies` has those of one request,
//! `pending_logprobs` and `token_odds` tell how likely tokens were, `stop_texts` ends a reply at a text, `characters` puts
//! bytes together, `usage` counts, and `ignored_grammar` finds out that an engine did not follow its grammar. Start
//! reading at [`LiveReply`].

pub(crate) mod characters;
pub(crate) mod ignored_grammar;
mod live;
pub(crate) mod pending_logprobs;
pub(crate) mod reader;
pub(crate) mod replies;
pub(crate) mod stop_texts;
pub(crate) mod token_odds;
pub(crate) mod usage;
pub(crate) mod writer;

pub(crate) use live::{LiveReply, ReplyStep};
