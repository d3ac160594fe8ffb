//! In: a format and what a model writes, as text or as bytes that say whether a control token wrote them. Out: events, and a message.
//! Between: `Reply` makes of the assistant's layouts what can be read; `OutputParser` goes through the text once and keeps what may still
//! become a mark; `values` turn each syntax of arguments into JSON text as it comes.
//! Start reading at [`OutputParser`].

mod arguments;
mod call;
mod cursor;
mod draft;
mod event;
mod ids;
mod literal;
mod marks;
mod message;
mod object;
mod options;
mod parser;
mod pending;
mod progress;
mod reply;
mod shared;
mod values;

pub use event::{Event, Malformed, Stop, Why};
pub use message::{ParsedCall, Reading};
pub use options::{Ids, Json as JsonPolicy, ParseOptions, TextAfterCalls, UnknownNames};
pub use parser::{OutputParser, read};
pub use reply::Reply;
pub use rolecall_format::CallsInReasoning;
