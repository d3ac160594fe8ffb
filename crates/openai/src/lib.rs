//! In: JSON text in the shape of OpenAI's API. Out: a [`Request`] with a [`Conversation`](rolecall_conversation::Conversation).
//! Between: `request` reads the envelope, `keys` knows what may stand in it, `legacy` brings older shapes (functions, `function_call`) into today's.
//! No other crate knows the wire.
//! Start reading at [`Request::from_text`].

mod error;
mod keys;
mod legacy;
mod request;

pub use error::Error;
pub use request::Request;
