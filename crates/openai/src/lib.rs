//! In: JSON text in the shape of OpenAI's API. Out: a [`Request`] with a [`Conversation`](rolecall_conversation::Conversation).
//! Between: `request` reads the envelope, `legacy` brings older shapes (functions, `function_call`) into today's.
//! No other crate knows the wire.
//! Start reading at [`Request::from_text`].

mod error;
mod legacy;
mod request;

pub use error::Error;
pub use request::Request;
