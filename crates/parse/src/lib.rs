//! Parses model output into events and messages, according to a format's layouts.
//!
//! The output comes as text, or as the bytes of tokens with a flag for control tokens. [`Reply`]
//! turns the assistant's layouts into parsing tables. [`OutputParser`] reads the output in one pass
//! and holds back text that may still become a marker. The module `values` converts each syntax of
//! arguments to JSON text while it streams.
//!
//! Start reading at [`OutputParser`].

mod arguments;
mod bare_call;
mod call;
mod cursor;
mod draft;
mod elements;
mod event;
mod held;
mod ids;
mod literal;
mod marks;
mod message;
mod named_arguments;
mod object;
mod offsets;
mod options;
mod parser;
mod pending;
mod progress;
mod reply;
mod shared;
mod split;
mod stray;
mod tail;
mod trim;
mod values;

pub use event::{Event, Malformed, Stop, Why};
pub use message::{ParsedCall, Reading};
pub use options::{Ids, Json as JsonPolicy, ParseOptions, TextAfterCalls, UnclosedReasoning, UnknownNames};
pub use parser::{OutputParser, Within, read};
pub use reply::Reply;
pub use rolecall_format::CallsInReasoning;
pub use split::{ReasoningSplit, SplitText};
pub use values::check_schema;
