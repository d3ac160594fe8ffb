//! The ids of a rendered template, and which of them the reference's mask of generation blocks
//! covers.

use std::ops::Range;

use rolecall::Prompt;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, json};
use rolecall::encode::{EncodedToken, Encoder, Protection};

use super::Context;
use crate::Verdict;

/// The tokenizer that the rows were made with.
const TOKENIZER: &str = "qwen3";
const COUNT: &str = "qwen3_tokens";
const RUNS: &str = "qwen3_mask_runs";
const ERROR: &str = "qwen3_mask_error";
const NO_MASK: &str = "templates have no loss masks yet";

/// Reports whether a row has expectations about ids.
pub(super) fn concerns(row: &Object) -> bool {
    [COUNT, RUNS, ERROR].iter().any(|key| row.get(key).is_some())
}

/// Compares the number of ids, and the runs of ids that cover the prompt's generation blocks. A row
/// with a refused mask is pending: the library has no call that could refuse it.
pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    if row.get(ERROR).is_some() {
        return Verdict::Pending(NO_MASK);
    }
    let Some(tokenizer) = context.tokenizer(TOKENIZER) else {
        return Verdict::cannot_run("tokenizer not found (--tokenizers DIR)");
    };
    let (template, prompt) = match context.jinja.render(row, context.folders.templates.as_deref()) {
        Ok(Ok(rendered)) => (rendered.template, rendered.prompt),
        Ok(Err(error)) => return Verdict::Failed { expected: "a prompt".into(), found: error.to_string() },
        Err(verdict) => return verdict,
    };
    let encoder = Encoder::new(&Protection::of_template("template", &template), tokenizer);
    match encoder.and_then(|encoder| encoder.encode_reference(&prompt)) {
        Ok(encoded) => {
            let count = Json::from(encoded.tokens.len() as i64);
            let found = Json::Array(runs(&prompt, &encoded.tokens));
            let wanted = |key: &str| written(row.get(key).unwrap_or(&Json::Null));
            Verdict::compare(&wanted(COUNT), &written(&count)).and(|| Verdict::compare(&wanted(RUNS), &written(&found)))
        }
        Err(error) => Verdict::Failed { expected: "ids".into(), found: error.to_string() },
    }
}

/// Returns the runs of ids from the id with a block's first character to the id with its last.
fn runs(prompt: &Prompt, tokens: &[EncodedToken]) -> Vec<Json> {
    let holds = |at: usize| tokens.iter().position(|token| token.start <= at && at < token.end);
    let mut runs: Vec<Range<usize>> = Vec::new();
    for block in &prompt.generated {
        let last = prompt.text()[..block.end].char_indices().next_back().map_or(0, |(at, _)| at);
        // transformers: if the last character has several ids, `char_to_token` returns the first
        // one. The last character of an empty block is the one before it, which may belong to the
        // same id.
        let (Some(first), Some(last)) = (holds(block.start), holds(last)) else { continue };
        match runs.last_mut() {
            _ if last < first => {}
            Some(run) if run.end >= first => run.end = run.end.max(last + 1),
            _ => runs.push(first..last + 1),
        }
    }
    runs.into_iter().map(|run| Json::Array([run.start, run.end].map(|at| Json::from(at as i64)).to_vec())).collect()
}

fn written(json: &Json) -> String {
    json::write(json, &Layout::compact())
}
