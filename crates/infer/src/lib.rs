//! In: a chat template. Out: the layouts with which it writes an assistant's turn, as a `Format`, or what of it cannot be told.
