//! What a client reaches: connections, keys, the sites that may ask, and the way from a request to its API.
//!
//! `server` listens, `run` does so as the command, `keys` and `sites` tell who may ask, `ready` tells whether the
//! engines answer, and `closing` ends what still runs. Start reading at [`handle()`].

pub(crate) mod closing;
mod handle;
pub(crate) mod keys;
pub(crate) mod ready;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod sites;

pub(crate) use handle::handle;
