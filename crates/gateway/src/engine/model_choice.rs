use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

/// What a request says to use one of an engine's models: a key with its value, or nothing, if the engine has one
/// model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ModelChoice(Option<(&'static str, Json)>);

impl ModelChoice {
    pub fn by(key: &'static str, value: impl Into<Json>) -> ModelChoice {
        ModelChoice(Some((key, value.into())))
    }

    /// The name, in `model`.
    pub fn by_name(name: &str) -> ModelChoice {
        ModelChoice::by("model", name)
    }

    /// Adds it to the body of a request.
    pub fn add_to(&self, body: &mut Object) {
        if let Some((key, value)) = &self.0 {
            body.insert(*key, value.clone());
        }
    }
}
