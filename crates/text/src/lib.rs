//! In: strings with a [`Source`] each. Out: a [`Text`], one string that still knows which source wrote which byte.
//! Between: append, slice, trim and map, none of which forgets a source.
//! A `Text` does not turn into `str` by accident: [`Text::plain`] and [`Text::into_plain`] are the only ways, by name.
//! Start reading at [`Text`].
#![doc = include_str!("../README.md")]

mod text;

pub use text::{Piece, Pieces, Source, Text};
