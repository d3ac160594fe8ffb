//! Conversations with chat models: messages, content parts, tools and tool calls.
//!
//! [`Conversation::from_json`] and [`Message::from_object`] check JSON values in the shape of
//! OpenAI's messages and tools. The results are typed views of these values, which stay unchanged:
//! [`json`] keeps the order of keys and the spelling of numbers, so that a chat template can print
//! a value as it was given.
//!
//! This crate does not parse whole requests; that is the task of `rolecall-openai`.
//!
//! Start reading at [`Conversation`].

mod call;
mod conversation;
mod error;
pub mod json;
mod message;
mod part;
mod role;
pub mod spelling;
mod tool;

pub use call::{Arguments, Call};
pub use conversation::Conversation;
pub use error::{Error, Place, Problem};
pub use json::Json;
pub use message::{Content, Message, REASONING};
pub use part::{File, Part};
pub use role::Role;
pub use tool::Tool;
