//! Renders chat templates written in Python's Jinja. The input is a template and values borrowed
//! from the caller. The output is text in pieces, each with the template literal or input value it
//! came from.
//!
//! Source passes through `lexer`, `parser` (a syntax tree), `compile` (a compact program) and `vm`,
//! which runs the program within strict limits. `analysis` inspects the tree without running it.
//!
//! Start reading at [`Template`]. Each filter, test, function or method is a function with a row in
//! `builtins/<family>.rs`.
#![doc = include_str!("../README.md")]

mod analysis;
mod builtins;
mod clock;
mod compile;
mod error;
mod growth;
mod input;
mod lexer;
mod limits;
mod output;
mod parser;
mod template;
mod value;
mod vm;

pub use analysis::{
    Analysis, Comparison, Constant, FunctionCall, NodeContent, Path, PathStep, Read, Spot, Test, Use, Writes,
    WritesNode,
};
pub use clock::{Clock, DateTime, NotATime};
pub use error::{Call, Error, ErrorKind, LimitKind, Location};
pub use growth::{Checkpoint, Growing, GrowingInputs, Grown, InputPlace};
pub use input::{Context, Input, InputEntry, InputNode, InputValue, Inputs, Tag};
pub use limits::Limits;
pub use output::{Generation, Literal, Mark, MarkId, Offset, Origin, Output, Piece};
pub use template::{Environment, Template};
