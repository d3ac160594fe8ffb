//! Engines: ids in, ids out. One kind, [`EngineKind::OpenAi`], gets and returns text instead.
//!
//! Each engine has a file with functions without side effects: the body of a request, and what a frame
//! of the answer says. [`Engine::generate`] does the rest for all of them: it connects, waits no longer
//! than the limits allow, and checks the frames. Dropping an [`EngineStream`] closes the connection, which
//! every one of these engines takes as the order to stop.
//!
//! An [`Ask`] is what an engine gets, and an [`EnginePiece`] is what it returns. Start reading at [`Engine`].

mod about;
mod ask;
mod body;
mod choice;
#[expect(clippy::module_inception, reason = "an engine is the noun of this module, too")]
mod engine;
mod generating;
mod hidden;
mod kind;
mod llama_cpp;
mod local;
mod odds;
mod openai;
mod piece;
mod prompt_ids;
mod sglang;
mod shape;
mod trouble;
mod vllm;
mod wire;

pub use about::About;
pub use ask::Ask;
pub use engine::Engine;
pub use generating::EngineStream;
pub use kind::EngineKind;
pub use local::{LocalOptions, Loss};
pub use odds::{Odds, Word};
pub use piece::{End, EnginePiece, Spoken};
pub use prompt_ids::PromptIds;
pub use shape::EngineShape;
pub(crate) use trouble::broken;
