//! In: a format's layouts and what a request asks for. Out: a [`Grammar`] of what an engine may sample, and its text for three engines.
//! Between: `reply` and `call` put the layouts together as one tree, `schema` and `value` say what arguments may be, `marks` keeps free
//! texts from running over what closes them, `opening` takes off what the prompt has already; `print` writes the tree.
//! Start reading at [`grammar`].

mod argument;
mod automaton;
mod call;
mod error;
mod grammar;
mod lower;
mod marks;
mod node;
mod note;
mod opening;
mod options;
mod pattern;
mod print;
mod reply;
mod schema;
mod value;

pub use error::Error;
pub use grammar::{Grammar, Rule};
pub use node::{FreeText, Node, Token};
pub use note::Note;
pub use options::{Options, Reasoning, ToolChoice};
pub use pattern::{Class, Pattern};
pub use print::Printed;
pub use reply::grammar;
pub use schema::{Form, ObjectShape, Property, Schema, Shape};
