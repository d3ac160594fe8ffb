//! All tests of this crate in one binary, because each binary links every library again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

mod bodies;
mod by_text;
mod chat;
mod choices;
mod common;
mod completions;
mod connections;
mod containers;
mod contexts;
mod doors;
mod engines;
mod faults;
mod forms;
mod grammars;
mod interactive;
mod interpreter;
mod lmdeploy;
mod local;
mod mcp;
mod mcp_items;
mod messages;
mod observe;
mod page;
mod responses;
mod reuse;
mod scenarios;
mod sessions;
mod settings;
mod sites;
mod store;
mod template_process;
