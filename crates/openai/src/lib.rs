//! Requests in the JSON shape of OpenAI's API.
//!
//! [`Request::from_text`] parses and checks a request and returns it with its
//! [`Conversation`](rolecall_conversation::Conversation). The submodules: `request` reads the
//! envelope, `keys` lists the known keys, and `legacy` converts older shapes (`functions`,
//! `function_call`) to the current one. No other crate handles this envelope.
//!
//! Start reading at [`Request::from_text`].

mod error;
mod keys;
mod legacy;
mod request;

pub use error::Error;
pub use request::Request;
