use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::grammar::{Grammar, Note};

use super::about::Page;
use super::generating::Sofar;
use super::model_choice::ModelChoice;
use super::trouble::Trouble;
use super::{Ask, EnginePiece, EngineShape};
use crate::{Fault, FaultCode};

/// All that one kind of engine does in its own way.
pub(super) trait Wire: Sync {
    /// The path of requests.
    fn path(&self) -> &'static str;

    /// The key of the prompt's ids in the body of a request. An engine without one gets text, and returns text.
    fn ids_key(&self) -> Option<&'static str> {
        None
    }

    /// Writes the body of a request, without the ids of the prompt. The room is the most ids that a reply can
    /// have, if [the engine needs it](Wire::needs_room).
    fn body(&self, ask: &Ask, room: Option<u64>) -> Object;

    /// Reads a frame of an answer.
    fn piece(&self, frame: &Object, sofar: &Sofar) -> Result<EnginePiece, Trouble>;

    /// Reports whether a request without a limit must say how long its reply can be.
    fn needs_room(&self) -> bool {
        false
    }

    /// Reports whether the engine counts ids in a frame after the end of the reply.
    fn counts_last(&self) -> bool {
        false
    }

    /// Reports whether the engine keeps ids back, which [`Hidden`](super::hidden::Hidden) finds.
    fn hides_ids(&self) -> bool {
        false
    }

    /// Prints a grammar in the language of the engine, with notes of what the grammar does not say.
    fn shape(&self, _: &Grammar) -> Result<(EngineShape, Vec<Note>), Fault> {
        let message = "the engine takes no grammar, so calls cannot be required, chosen or limited";
        Err(Fault::at("tool_choice", FaultCode::UnsupportedParameter, message))
    }

    /// The pages that the engine has about itself, besides its models.
    fn pages(&self) -> &'static [Page] {
        &[]
    }

    /// Reports whether the engine refuses the name of a model that it does not have. Others would use another
    /// model in silence, so their models are listed first.
    fn refuses_unknown_models(&self) -> bool {
        false
    }

    /// Returns how a request chooses a model that the engine lists with this card.
    fn choose(&self, name: &str, _card: &Object) -> ModelChoice {
        ModelChoice::by_name(name)
    }

    /// The page with adapters, if the engine does not list them among its models.
    fn adapters(&self) -> Option<&'static str> {
        None
    }

    /// Returns the names of an adapter on that page, and how a request chooses it.
    fn adapter<'a>(&self, _: &'a Json) -> Option<(Vec<&'a str>, ModelChoice)> {
        None
    }
}
