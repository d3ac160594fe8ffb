//! Engines: ids in, ids out. One kind, [`EngineKind::OpenAi`], gets and returns text instead.
//!
//! Each kind has a file in `kind/` with its `Wire`, which has no side effects: the body of a request, what a frame
//! of the answer says, and all else in which engines differ. [`Engine::generate`] does the rest for all of them: it
//! connects, waits no longer than the limits allow, and checks the frames. Dropping an [`EngineStream`] closes the
//! connection, which every one of these engines takes as the order to stop.
//!
//! An [`Ask`] is what an engine gets, and an [`EnginePiece`] is what it returns. Start reading at [`Engine`].

mod about;
mod ask;
mod body;
mod choice;
#[expect(clippy::module_inception, reason = "an engine is the noun of this module, too")]
mod engine;
mod fields;
mod generating;
mod hidden;
mod kind;
mod local;
mod model_choice;
mod odds;
mod piece;
mod probe;
mod prompt_ids;
mod sampler;
mod shape;
mod trouble;
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
pub use sampler::Sampler;
pub use shape::EngineShape;
pub(crate) use trouble::broken;
