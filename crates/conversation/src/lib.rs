//! In: JSON values in the shape of OpenAI's messages and tools. Out: a [`Conversation`], validated, with typed views over values that stay as they came.
//! Between: [`json`] keeps key order and the spelling of numbers; [`Message::from_object`] and [`Conversation::from_json`] check; accessors read.
//! There is no wire here: no text is parsed but JSON values inside a conversation (a call's arguments).
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
pub use message::{Content, Message};
pub use part::{File, Part};
pub use role::Role;
pub use tool::Tool;
