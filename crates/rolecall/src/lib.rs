//! Conversations become exactly the tokens that a chat model was trained on, and the model's tokens become messages again.
//!
//! In: a model's folder, file or name, and a request in OpenAI's shape. Out: the exact prompt and token ids, every byte with its
//! origin; and of what the model writes, text, reasoning and calls.
//! Between: [`Model`] knows everything about one model, [`Request`] is read and checked, [`model::ModelPrompt`] has the ids and the
//! reader of the reply. What these are made of can be called alone: [`Registry`] finds the [`Format`], [`render`] writes the
//! [`Prompt`], [`Encoder`] makes ids of it, [`OutputParser`] reads text. `answer` gives the same facts as JSON, `error` gathers what
//! can go wrong.
//! Start reading at [`Model::open`].
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
mod dialects;
pub mod diff;
mod error;
mod files;
pub mod gguf;
mod id_parser;
pub mod identify;
pub mod model;
pub mod roundtrip;
pub mod template;
mod tokenizer_file;

pub use dialects::{read_format, registry};
pub use error::Error;
pub use id_parser::IdParser;
pub use model::Model;
pub use rolecall_conversation::{
    Arguments, Call, Content, Conversation, File, Json, Message, Part, Place, Role, Tool, json, object,
};
pub use rolecall_encode::{
    AddSpecial, DecodeStream, Decoder, Encoded, EncodedToken, Encoder, Growing, Lost, Note, Protect, Protected,
    ProtectedToken, Protection, Reason, Split, SplitRun, Tokenizer, split_text,
};
pub use rolecall_format::{
    CallIds, Choice, Codec, Control, ControlId, Defaults, Diagnostic, Field, Fit, Format, FormatPart, Generation,
    Identity, Layout, LoadError, NameClash, Op, Own, Pattern, Registry, Rules, Slot, SystemWhen, TurnsRule, Unresolved,
    codec, corrections, load, shared_calls, write_reply,
};
pub use rolecall_grammar as grammar;
pub use rolecall_infer::infer;
pub use rolecall_interop::{self as interop, Dialect, dialects};
pub use rolecall_openai::Request;
pub use rolecall_parse::{
    CallsInReasoning, Event, Ids, JsonPolicy, Malformed, OutputParser, ParseOptions, ParsedCall, Reading, Reply, Stop,
    TextAfterCalls, UnknownNames, Why, read,
};
pub use rolecall_render::Error as RenderError;
pub use rolecall_render::{
    ArgumentForm, Bos, BosUse, CallForm, Capability, ChatTemplate, DateTime, Dropped, Finding, FindingKind, IdForm,
    LeftOut, Limits, LossPolicy, Options, Origin, ProbeBudget, Prompt, RuleMode, Run, Segment, Support, Switch,
    TemplateAnalysis, TemplateError, TemplateOptions, Trust, Turn, Unusual, WantedCalls, analyze_template,
    analyze_template_within, extend, jinja, loss_spans, new_turn, render, render_template,
};
pub use rolecall_text::{Source, Text};

/// Tokenizers: the trait, its adapters, and their files.
pub mod tokenizer {
    pub use rolecall_encode::audit::{Audit, ControlFit, Finding, FindingKind, Fit, Level, audit};
    pub use rolecall_encode::tokenizer::*;

    pub use crate::tokenizer_file::{FileKind, TokenizerFile, files_read, load, load_bytes, load_file};
}

/// A chat template's layouts, read off the origins of what it writes.
pub mod inference {
    pub use rolecall_infer::{Cache, Inferred, Limits, Note, Outcome, Part, Report, infer, infer_within};
}
