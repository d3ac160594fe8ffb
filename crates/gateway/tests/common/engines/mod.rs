//! What a stand-in for each kind of engine sends, and where it looks in what it is sent.

mod llama_cpp;
mod openai;
mod sglang;
mod vllm;

use rolecall_gateway::engine::EngineKind;

use super::Sampled;
pub use openai::written;

/// Returns the wire format of a kind, as its tests need it.
pub fn of(kind: EngineKind) -> &'static dyn EngineFrames {
    match kind {
        EngineKind::LlamaCpp => &llama_cpp::LlamaCpp,
        EngineKind::Vllm => &vllm::Vllm,
        EngineKind::Sglang => &sglang::Sglang,
        EngineKind::OpenAi => &openai::OpenAi,
    }
}

/// The ids of a frame.
pub struct FrameIds<'a> {
    pub new: &'a [u32],
    /// All so far, with these.
    pub all: Vec<u32>,
    /// Whether an engine that can send all so far does.
    pub is_cumulative: bool,
}

impl FrameIds<'_> {
    /// Returns what the frame has if the engine can send all so far, and how many of these are old.
    fn sent(&self) -> (&[u32], usize) {
        if self.is_cumulative { (&self.all, self.all.len() - self.new.len()) } else { (self.new, 0) }
    }
}

pub trait EngineFrames: Sync {
    /// The path of requests.
    fn path(&self) -> &'static str;

    /// The key of the prompt's ids.
    fn ids_key(&self) -> &'static str {
        "prompt"
    }

    /// Writes a frame with ids, or the end of a reply with `stop`, `length`, or a word of the engine's own.
    fn frame(&self, ids: &FrameIds, end: Option<&str>) -> String;

    /// Writes a frame with ids that have log probabilities.
    fn odds(&self, ids: &FrameIds, odds: &[Sampled]) -> String;

    /// Returns a page that the engine has about itself. `CONTEXT` stands for its context.
    fn page(&self, path: &str, context: usize) -> Option<&'static str>;

    /// Returns where a body has a setting, by the name that chat completions have for it.
    fn place_of(&self, setting: &str) -> String;

    /// Where a body has a structural tag, if the engine takes one.
    fn place_of_tag(&self) -> Option<&'static str> {
        None
    }

    /// Writes how ids are biased.
    fn biases(&self, id: u32, bias: i64) -> String {
        format!(r#"{{"{id}":{bias}}}"#)
    }

    /// The least number of most likely tokens that it can be asked for.
    fn least_logprobs(&self) -> u32 {
        0
    }

    /// Returns the limit that it is told for a request without one, for what is left of its context.
    fn limit_of_all(&self, _room: u32) -> Option<u32> {
        None
    }

    /// Returns frames that do not have what they should have, after a number of ids.
    fn damaged(&self, before: usize) -> Vec<String>;

    /// Returns frames whose log probabilities are damaged.
    fn damaged_odds(&self, _id: u32) -> Vec<String> {
        Vec::new()
    }

    /// Returns a frame that has nothing, after a number of ids.
    fn empty(&self, before: usize) -> String;

    /// Returns frames in which it gives a reply up, with the status of our answer.
    fn given_up(&self) -> Vec<(&'static str, u16)> {
        Vec::new()
    }
}

/// Values that are no ids of the model, in place of a list of ids.
const NO_IDS: [&str; 7] = [r#""a""#, r#"["a"]"#, "[null]", "[-1]", "[1.5]", "[4294967295]", "[4294967296]"];

/// Returns frames with these, and others.
fn damaged(of_ids: impl Fn(&str) -> String, others: &[&str]) -> Vec<String> {
    NO_IDS.iter().map(|ids| of_ids(ids)).chain(others.iter().map(|frame| (*frame).to_owned())).collect()
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

/// Writes the reason of a frame, or null.
fn or_null(end: Option<&str>, write: impl Fn(&str) -> String) -> String {
    end.map_or("null".to_owned(), write)
}
