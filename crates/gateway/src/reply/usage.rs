use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};

/// The ids that an answer took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The ids of the prompt.
    pub prompt: u64,
    /// Those of them that the session had sent or sampled before, and that stayed as they were.
    pub kept: u64,
    /// The ids that were sampled, for all replies together.
    pub reply: u64,
    /// Those of them that were reasoning.
    pub reasoning: u64,
    /// The ids of the prompt that the engine already had, if it says so.
    pub cached: Option<u64>,
}

impl Usage {
    /// Adds the ids of another prompt and its replies.
    pub fn add(&mut self, other: &Usage) {
        self.prompt += other.prompt;
        self.kept += other.kept;
        self.reply += other.reply;
        self.reasoning += other.reasoning;
        self.cached = match (self.cached, other.cached) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
    }

    /// Returns the usage in the shape of OpenAI's chat completions.
    pub fn to_json(&self) -> Json {
        let mut usage = object! {
            "prompt_tokens" => whole(self.prompt), "completion_tokens" => whole(self.reply),
            "total_tokens" => whole(self.prompt.saturating_add(self.reply)),
        };
        usage.insert("prompt_tokens_details", self.prompt_details().into());
        usage.insert("completion_tokens_details", object! { "reasoning_tokens" => whole(self.reasoning) }.into());
        usage.into()
    }

    /// Returns how many ids of the prompt the engine had, and how many the session kept.
    pub fn prompt_details(&self) -> Object {
        let mut details = Object::new();
        if let Some(cached) = self.cached {
            details.insert("cached_tokens", whole(cached).into());
        }
        details.insert("kept_tokens", whole(self.kept).into());
        details
    }
}

/// Returns a count as JSON has it.
pub fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
