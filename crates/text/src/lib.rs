//! Strings that record the source of every byte.
//!
//! A [`Text`] is a string built from pieces, each with a [`Source`]. Appending, slicing, trimming
//! and mapping keep the source of every byte. A `Text` does not convert to `str` implicitly:
//! [`Text::plain`] and [`Text::into_plain`] are the only conversions. Start reading at [`Text`].
//!
#![doc = include_str!("../README.md")]

mod common;
mod text;

pub use common::{common_items, common_prefix, common_suffix};
pub use text::{Piece, Pieces, Source, Text};
