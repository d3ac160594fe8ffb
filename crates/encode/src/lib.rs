//! In: a [`Prompt`](rolecall_render::Prompt) and a [`Tokenizer`](rolecall_tokenizer::Tokenizer). Out: [`Encoded`]: ids, each with its span and whether it is a control token.
//! Between: `protection` gathers which tokens no text may become and `protected` finds them in the tokenizer, `binding` finds the format's
//! control tokens, `encoder` encodes the runs between them, `reference` does as the reference does;
//! `audit` says how a tokenizer treats control tokens and what is dangerous in it.
//! A control token's id comes out only where the format wrote it; content that spells one is ordinary text.
//! Start reading at [`Encoder`].

pub mod audit;
mod binding;
mod decode;
mod each;
mod encoded;
mod encoder;
mod error;
mod growing;
mod lost;
mod markers;
mod pieces;
mod protected;
mod protection;
mod reference;
mod special;
mod spelled;

pub use decode::{DecodeStream, Decoder};
pub use encoded::{Encoded, EncodedToken};
pub use encoder::Encoder;
pub use error::Error;
pub use growing::Growing;
pub use lost::Lost;
pub use protected::{Protected, ProtectedToken, Reason};
pub use protection::{By, Protect, Protection};
pub use reference::{Split, SplitRun, split_text};
pub use special::{AddSpecial, Note};
