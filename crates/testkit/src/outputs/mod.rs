//! Replies that formats write, and whether they are read as what they are.
//! In: formats and seeds. Out: a [`Summary`], with each law that an output breaks.
//! Between: `message` makes what is said, `subject` writes it, `mutation` damages it, `laws` reads it in many ways and compares.
//! Start reading at [`check`].

mod laws;
mod log;
mod message;
mod mutation;
mod run;
mod splits;
mod subject;

pub use laws::{Broken, Checked, Effort, Reader, USUAL, check, difference, same_value};
pub use log::{Log, Seen};
pub use message::{Places, Said, Taste, said};
pub use mutation::{Mutated, mutate};
pub use run::{Failure, Summary, run};
pub use splits::{byte_pieces, characters, pieces};
pub use subject::{Promise, Subject, Written, built_in, inferred, templates};
