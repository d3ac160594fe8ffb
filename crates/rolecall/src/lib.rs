//! A library that renders chat conversations to the exact tokens that a model was trained on, and
//! parses the model's output back into messages.
//!
//! Each family of chat models has its own prompt format: control tokens, role names, separators and
//! a syntax for tool calls. rolecall reads a conversation in the JSON shape of OpenAI's API and
//! writes the prompt in the model's format, either from a built-in format or from the model's own
//! Jinja chat template. It records the origin of every byte of the prompt, so that a user's text is
//! never encoded as a control token, even if it spells one. It parses the model's reply with the
//! layouts that write an assistant's turn, while the reply is still being generated.
//!
//! # Overview
//!
//! 1. [`Model::open`] opens a model from its folder, a GGUF file, a chat template, a format file,
//!    or a name.
//! 2. [`Request::from_text`] parses and checks a request: messages, tools, documents and switches.
//! 3. [`Model::prompt`] renders the request to a [`ModelPrompt`](model::ModelPrompt). Its
//!    [`encode`](model::ModelPrompt::encode) method returns the token ids, each with the bytes that
//!    it covers.
//! 4. [`ModelPrompt::reply`](model::ModelPrompt::reply) returns what is known about the reply. Its
//!    [`text_parser`](model::ReplyContext::text_parser) and [`id_parser`](model::ReplyContext::id_parser)
//!    emit an [`Event`] for each piece of content, reasoning and tool call as it arrives. A [`Reading`]
//!    collects the events into a message.
//!
//! The types that most programs need are in the root of the crate. Everything else is in a
//! [module](#modules) for each step, so that each step can also be used alone.
//!
//! # Example: from a model's folder to a reply
//!
//! ```no_run
//! use rolecall::{Model, Reading, Request, Stop};
//!
//! let model = Model::open("path/to/model")?; // or a GGUF file, a chat template, a format file, a name
//! let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Hello"}]}"#)?;
//! let prompt = model.prompt(request)?;
//! let ids: Vec<u32> = prompt.encode()?.ids(); // pass these to the engine, with `model.stop_ids()?`
//! let (mut parser, mut reading) = (prompt.reply()?.id_parser()?, Reading::default());
//! for id in engine(&ids) {
//!     parser.push(id, &mut |event| reading.add(&event))?; // emits events as soon as they are known
//! }
//! parser.finish(Stop::End, &mut |event| reading.add(&event));
//! println!("{} {:?}", reading.content, reading.calls);
//! # fn engine(ids: &[u32]) -> Vec<u32> { Vec::new() }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Example: the origin of every byte
//!
//! The user's text below spells a control token. It stays text: only the segments with the origin
//! [`Origin::Control`] encode to the ids of control tokens.
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
//!
//! # Example: a reply that arrives in chunks
//!
//! The output can be cut anywhere, even within a control token: the events add up to the same
//! message.
//!
//! ```
//! use rolecall::{Event, Model, Request, Stop};
//!
//! let model = Model::open("qwen2.5")?;
//! let prompt = model.prompt(Request::from_text(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?)?;
//! let mut said = String::new();
//! let mut sink = |event: Event<'_>| if let Event::Content(text) = event { said.push_str(text) };
//! let mut parser = prompt.reply()?.text_parser();
//! for chunk in ["Hel", "lo<|im", "_end|>"] {
//!     parser.push_text(chunk, &mut sink);
//! }
//! parser.finish(Stop::End, &mut sink);
//! assert_eq!(said, "Hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! | module | contents |
//! | --- | --- |
//! | [`model`] | [`Model`] with its builder, settings and prompts |
//! | [`request`], [`conversation`] | requests in the shape of OpenAI's API; messages, tools and JSON values |
//! | [`dataset`] | records of training datasets, read as requests |
//! | [`mod@format`], [`interop`] | chat formats as data; formats imported from other frameworks |
//! | [`identify`] | finding the format that a model needs, with the evidence |
//! | [`mod@account`] | what became of each text, number and switch of a request |
//! | [`render`], [`template`] | rendering by a format, or by a chat template |
//! | [`tokenizer`], [`encode`] | loading tokenizers; encoding prompts and decoding ids |
//! | [`parse`] | parsing the output of a model |
//! | [`infer`] | inferring the layouts of a reply from a chat template |
//! | [`grammar`] | grammars that constrain what an engine may sample |
//! | [`loss`] | which bytes and tokens of a training text carry loss |
//! | [`training`] | samples for a trainer: ids with loss weights, truncated, split and packed |
//! | [`pipeline`] | processing many rows on several threads, with results in order |
//! | [`explain`], [`mod@diff`], [`roundtrip`] | explaining a prompt; comparing formats and models; checking that rendered messages parse back |
//! | [`session`] | a conversation that grows: only new ids, sampled ids kept, loss weights of a rollout |
//! | [`stability`] | whether a new message changes what was already rendered |
//! | [`visible`] | text made safe to print |
//! | [`guard`](mod@guard) | a panic as the error of one row or request |
//! | [`answer`] | the results of all of these as JSON |
//! | [`gguf`] | the metadata of GGUF files |

/// Runs the examples in the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the example in the page on training.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/training.md")]
struct Training;

/// Compiles the example in the page on sessions.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sessions.md")]
struct Sessions;

pub mod answer;
mod damage;
pub mod dataset;
pub mod diff;
mod error;
pub mod explain;
mod files;
pub mod format;
pub mod gguf;
pub mod guard;
mod id_parser;
pub mod identify;
mod kept;
mod layouts;
pub mod loss;
pub mod model;
pub mod pipeline;
pub mod roundtrip;
pub mod session;
pub mod stability;
mod template_files;
mod templates;
pub mod tokenizer;
pub mod training;
pub mod visible;

pub use error::Error;
pub use model::Model;
pub use rolecall_encode::Encoded;
pub use rolecall_grammar as grammar;
pub use rolecall_infer as infer;
pub use rolecall_interop as interop;
pub use rolecall_openai::Request;
pub use rolecall_parse::{Event, Reading, Stop};
pub use rolecall_render::{Origin, Prompt, Segment};

/// A model's chat templates, and the special tokens that they may name.
pub mod template {
    pub use crate::layouts::{ReplyLayouts, infer_layouts};
    pub use crate::template_files::{beside, load};
    pub use crate::templates::*;
}

/// Conversations: messages, tool calls, tools, JSON values, and text that records its sources.
pub mod conversation {
    pub use rolecall_conversation::*;
    pub use rolecall_text::{Piece, Pieces, Source, Text};
}

/// Requests in the JSON shape of OpenAI's API.
pub mod request {
    pub use rolecall_openai::{Error, Request};
}

/// The account of a request: what became of each of its leaves.
pub mod account {
    pub use rolecall_render::{Account, Change, DesignRule, FormChange, FormKind, Leaf, LeafGroup, LeafKind, Remedy};
}

/// Rendering a conversation to a prompt by a format.
pub mod render {
    pub use rolecall_render::{
        Bos, Dropped, Error, LeftOut, Options, Origin, Prompt, ROLES, RuleMode, Run, Runs, Segment, Trust, Turn,
        Unusual, Writer, growth,
    };
}

/// Encoding a prompt to token ids, and decoding ids to text.
pub mod encode {
    pub use rolecall_encode::{
        AddSpecial, By, DecodeStream, Decoder, Encoded, EncodedToken, Encoder, Error, Growing, LostText, Note,
        PlainMarkers, Protect, ProtectedToken, ProtectedTokens, Protection, Reason, Split, SplitRun, foreign_markers,
        split_text,
    };
}

/// Parsing a model's output, as text or as token ids, into messages.
pub mod parse {
    pub use rolecall_parse::*;

    pub use crate::id_parser::IdParser;
}
