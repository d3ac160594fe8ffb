//! Generated replies, and checks that they are parsed correctly.
//!
//! The input is formats and seeds. The output is a [`Summary`] with each law that an output breaks.
//! `message` makes a message, `subject` writes it, `mutation` damages it, `limits` reaches the
//! parser's limits, and `laws` parses it in many ways and compares. `words` and `markers` are laws
//! about the parts of one output.
//!
//! Start reading at [`check`].

mod laws;
mod limits;
mod log;
mod markers;
mod message;
mod mutation;
mod run;
mod splits;
mod subject;
mod watch;
mod words;

pub use laws::{Broken, Checked, Effort, Reader, USUAL, check, difference, same_value};
pub use limits::{Limits, limits, tokens_of};
pub use log::{Log, Seen};
pub use message::{Places, Said, Taste, said};
pub use mutation::{Mutated, mutate};
pub use run::{Failure, Summary, run};
pub use splits::{byte_pieces, characters, pieces};
pub use subject::{Promise, Subject, Written, built_in, inferred};
pub use words::LayoutWords;
