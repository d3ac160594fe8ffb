use rolecall::conversation::json::Object;

/// What an engine says of itself.
///
/// Sources: the README of llama.cpp's server, vLLM's documentation of its server, and SGLang's of its
/// native API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The names of its models.
    pub models: Vec<String>,
    /// The most ids of a prompt and its reply.
    pub context: Option<u64>,
    /// The number of replies at the same time.
    pub slots: Option<u64>,
    /// Its version.
    pub build: Option<String>,
}

/// Whether a page says the most ids of a prompt and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContextSource {
    /// It does not.
    No,
    /// It does, and the list of models does not.
    Alone,
    /// It does, in case the list of models does not.
    AfterModels,
}

/// A page that a kind of engine has about itself.
pub(super) struct Page {
    /// Its paths: versions may have it under other ones. The first that exists is read.
    pub paths: &'static [&'static str],
    /// Whether it says the most ids of a prompt and its reply.
    pub context: ContextSource,
    /// Takes what it says.
    pub read: fn(&Object, &mut About),
}
