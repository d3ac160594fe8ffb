//! Encodes a [`Prompt`](rolecall_render::Prompt) with a [`Tokenizer`](rolecall_tokenizer::Tokenizer) into [`Encoded`]: token ids,
//! each with its span and whether it is a control token.
//!
//! `protection` collects what the format or templates can write, and `protected` finds the tokens
//! that other text must never encode to. `binding` finds the ids of the format's control tokens,
//! `encoder` encodes them and the text between them, and `reference` splits text as the reference
//! tokenizer does. `audit` reports how a tokenizer treats control tokens and which of its
//! properties are dangerous.
//!
//! The output contains the id of a control token only where the format wrote that token. Content
//! that spells a control token is encoded as ordinary text. Start reading at [`Encoder`].

pub mod audit;
mod binding;
mod decode;
mod each;
mod encoded;
mod encoder;
mod error;
mod fit;
mod growing;
mod lost;
mod markers;
mod pieces;
mod protected;
mod protection;
mod reference;
mod rest;
mod sampled;
mod special;
mod spelled;

pub use binding::{control_id, extended};
pub use decode::{DecodeStream, Decoder};
pub use encoded::{Encoded, EncodedToken};
pub use encoder::Encoder;
pub use error::Error;
pub use fit::{foreign_markers, turn_markers};
pub use growing::Growing;
pub use lost::LostText;
pub use protected::{ProtectedToken, ProtectedTokens, Reason};
pub use protection::{By, PlainMarkers, Protect, Protection};
pub use reference::{Split, SplitRun, split_text};
pub use special::{AddSpecial, Note};
