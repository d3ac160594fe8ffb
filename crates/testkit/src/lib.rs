//! Test support: case files, golden files of reference systems, and generated conversations and
//! replies.
//!
//! - `rolecall_fixture` reads the cases in `fixtures/`. Those of one crate run in its own tests.
//! - `doors` has models of different kinds, of which every way to ask gives the same answers.
//! - `golden` runs reference vectors through the public library; `report` counts the verdicts. The
//!   binary `conform` runs golden files from any folder.
//! - `transcript` parses model output that is split in any way.
//! - `generate` makes conversations for property tests.
//! - `forge` tries to forge control tokens.
//! - `mutate` changes templates and checks what is inferred from them.
//! - `growth` compares grown prompts with whole ones.
//! - `scenarios` reads the makers' scenarios of tools and code, which every door plays.
//! - `sessions` plays sessions of which every operation is checked.
//! - `new_turn` renders new turns, and what the model writes before them.
//! - `matcher` reports whether a grammar accepts a text.
//! - `toy` is a tokenizer that needs no files, which the tests of `encode` have; `gguf` and `sentencepiece` write files of these kinds.
//!
//! Start reading at [`Fixture`] and [`golden`].

#![expect(clippy::panic, reason = "a broken case fails the test that reads it")]

mod batches;
pub mod doors;
pub mod forge;
pub mod generate;
mod gguf;
pub mod golden;
pub mod grammars;
pub mod growth;
mod makers;
#[path = "../../grammar/tests/common/matcher.rs"]
mod matcher;
pub mod mutate;
mod new_turn;
pub mod outputs;
mod pins;
mod report;
mod reviewed;
mod scenarios;
pub mod sessions;
mod templates;
pub mod texts;
#[path = "../../encode/tests/common/toy.rs"]
mod toy;
pub mod transcript;

pub use gguf::{flaw_of, gguf_of, read_gguf, write_gguf};
pub use makers::{Makers, Pair};
pub use matcher::matches;
pub use new_turn::{last_answer, new_turn};
pub use pins::Pins;
pub use report::{Report, Verdict};
pub use reviewed::Reviewed;
pub use rolecall_fixture::{Fixture, Source, root, say_skipped, shared};
pub use scenarios::{Scenario, ScenarioTool, ScenarioTurn};
pub use templates::FolderTemplates;
pub use toy::Toy;
