use std::sync::Arc;

use crate::Fault;
use crate::reply::reader::{ReplyReader, TextReader};
use crate::request::sampling::Sampling;
use crate::served_model::ServedModel;
use crate::turn::{History, Turn};

/// What a request asks for whose prompts are no conversations.
pub struct CompletionRequest {
    pub served: Arc<ServedModel>,
    /// The ids of each prompt.
    pub prompts: Vec<Vec<u32>>,
    /// The text of each prompt, if the engine gets that instead.
    pub texts: Vec<Option<String>>,
    /// The control tokens that the texts spell, and that are text there.
    pub as_text: Vec<String>,
    pub sampling: Sampling,
    /// The settings that are the model's defaults.
    pub applied: Vec<&'static str>,
    /// The number of replies to each prompt.
    pub choices: usize,
    /// Whether control tokens are left out of the replies.
    pub skips_markers: bool,
    /// The number of most likely tokens to report for each token of a reply.
    pub logprobs: Option<u32>,
    pub is_streamed: bool,
}

impl CompletionRequest {
    /// Returns the prompts as turns whose replies are text.
    pub fn turns(&mut self) -> Result<Vec<Turn>, Fault> {
        let model = &self.served.model;
        let stops: Vec<(u32, bool)> = model.stop_ids()?.into_iter().map(|id| (id, false)).collect();
        let reader = ReplyReader::Text(TextReader::new(model.decoder()?, self.skips_markers));
        let turn = |(ids, text): (Vec<u32>, Option<String>)| Turn {
            ids: ids.into(),
            text,
            kept: 0,
            history: History::New,
            left_out: Vec::new(),
            stops: stops.clone(),
            reader: reader.clone(),
            holds_calls: false,
            shape: None,
            notes: Vec::new(),
            awaited: None,
        };
        let (ids, texts) = (std::mem::take(&mut self.prompts), std::mem::take(&mut self.texts));
        Ok(ids.into_iter().zip(texts).map(turn).collect())
    }
}
