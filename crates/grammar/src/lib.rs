//! Builds a [`Grammar`] of the replies that an engine may sample, from a format's layouts and a
//! request, and prints it for three engines.
//!
//! The modules `reply` and `call` combine the layouts into one tree. `schema` and `value` describe
//! the allowed arguments and answers. `marks` keeps free texts from including the markers that close them.
//! `opening` removes what the prompt already contains. `print` writes the tree.
//!
//! Start reading at [`grammar`].

mod answer;
mod argument;
mod automaton;
mod call;
mod composer;
mod continuing;
mod definitions;
mod elements;
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
pub use options::{Answer, Options, Reasoning, ToolChoice};
pub use pattern::{Class, Pattern};
pub use print::PrintedGrammar;
pub use reply::grammar;
pub use schema::{Form, ObjectShape, Property, Purpose, Schema, Shape};
