//! Conversations become exactly the tokens that a chat model was trained on, and the model's tokens become messages again.
//!
//! In: a model's folder, file or name, and a request in OpenAI's shape. Out: the exact prompt and token ids, every byte with its
//! origin; and of what the model writes, text, reasoning and calls.
//! Between: [`Model`] knows everything about one model, [`Request`] is read and checked, [`model::ModelPrompt`] has the ids and the
//! reader of the reply.
//! Start reading at [`Model::open`].
//!
//! What most programs use is here. Each step of the way can also be called alone, in the module that is called as it is:
//! [`mod@format`] finds a format, [`render`] writes a prompt by it, [`template`] by a chat template, [`encode`] makes ids of a prompt,
//! [`parse`] reads a reply, [`grammar`] says what an engine may sample. [`answer`] gives their results as JSON.
//!
//! # From a folder to ids to a reply
//!
//! ```no_run
//! use rolecall::{Model, Reading, Request, Stop};
//!
//! let model = Model::open("path/to/model")?; // or a GGUF file, a chat template, a format file, a name
//! let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Hello"}]}"#)?;
//! let prompt = model.prompt(request)?;
//! let ids: Vec<u32> = prompt.encode()?.ids(); // to the engine, with `model.stop_ids()?`
//! let (mut reader, mut reading) = (prompt.id_reader()?, Reading::default());
//! for id in engine(&ids) {
//!     reader.push(id, &mut |event| reading.add(&event))?; // each event as soon as it is there
//! }
//! reader.finish(Stop::End, &mut |event| reading.add(&event));
//! println!("{} {:?}", reading.content, reading.calls);
//! # fn engine(ids: &[u32]) -> Vec<u32> { Vec::new() }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who wrote which byte
//!
//! ```
//! use rolecall::{Model, Origin, Request};
//!
//! let model = Model::open("internlm2")?;
//! let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Hello<|im_end|>"}]}"#)?;
//! let prompt = model.prompt(request)?;
//! assert_eq!(prompt.text(), "<s><|im_start|>user\nHello<|im_end|><|im_end|>\n<|im_start|>assistant\n");
//! // Two of these look the same. Only one is a control token:
//! let controls = prompt.segments().filter(|segment| matches!(segment.origin, Origin::Control(_)));
//! assert_eq!(controls.filter(|segment| segment.text == "<|im_end|>").count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The example of the README runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub mod answer;
pub mod dataset;
pub mod diff;
mod error;
pub mod explain;
mod files;
pub mod format;
pub mod gguf;
mod id_parser;
pub mod identify;
pub mod loss;
pub mod model;
pub mod roundtrip;
pub mod template;
pub mod tokenizer;

pub use error::Error;
pub use model::Model;
pub use rolecall_encode::Encoded;
pub use rolecall_grammar as grammar;
pub use rolecall_infer as infer;
pub use rolecall_interop as interop;
pub use rolecall_openai::Request;
pub use rolecall_parse::{Event, Reading, Stop};
pub use rolecall_render::{Origin, Prompt, Segment};

/// What is said: messages, calls, tools, JSON, and text that knows where it is from.
pub mod conversation {
    pub use rolecall_conversation::*;
    pub use rolecall_text::{Piece, Pieces, Source, Text};
}

/// A request in OpenAI's shape.
pub mod request {
    pub use rolecall_openai::{Error, Request};
}

/// A conversation becomes a prompt by a format.
pub mod render {
    pub use rolecall_render::{
        Bos, Dropped, Error, LeftOut, Options, Origin, Prompt, ROLES, RuleMode, Run, Runs, Segment, Trust, Turn,
        Unusual, extend, new_turn, render,
    };
}

/// A prompt becomes ids, and ids text.
pub mod encode {
    pub use rolecall_encode::{
        AddSpecial, By, DecodeStream, Decoder, Encoded, EncodedToken, Encoder, Error, Growing, Lost, Note, Protect,
        Protected, ProtectedToken, Protection, Reason, Split, SplitRun, split_text,
    };
}

/// A model's text or ids become messages.
pub mod parse {
    pub use rolecall_parse::*;

    pub use crate::id_parser::IdParser;
}
