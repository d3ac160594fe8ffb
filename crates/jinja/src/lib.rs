//! In: a template in Python's Jinja as chat templates use it, and values that a caller lends. Out: text, in pieces that
//! say which literal of the template or which input wrote them.
//! Between: `lexer`, `parser` (a tree), `compile` (a compact program), `vm` (runs it, within firm limits); `analysis` reads the
//! tree and runs nothing.
//! Start reading at [`Template`]; a filter, test, function or method is a function and its row in `builtins/<family>.rs`.
#![doc = include_str!("../README.md")]

mod analysis;
mod builtins;
mod clock;
mod compile;
mod error;
mod input;
mod lexer;
mod limits;
mod output;
mod parser;
mod template;
mod value;
mod vm;

pub use analysis::{
    Analysis, Comparison, Constant, FunctionCall, Path, Read, Spot, Step, Test, Use, Writes, WritesNode, Written,
};
pub use clock::{Clock, DateTime, NotATime};
pub use error::{Call, Error, ErrorKind, LimitKind, Place};
pub use input::{Context, Input, InputEntry, InputNode, InputValue, Inputs, Tag};
pub use limits::Limits;
pub use output::{Generation, Literal, Mark, MarkId, Offset, Origin, Output, Piece};
pub use template::{Environment, Template};
