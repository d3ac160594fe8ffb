use super::{EngineFrames, FrameIds, Sampled, damaged, list, or_null};

pub struct Vllm;

impl EngineFrames for Vllm {
    fn path(&self) -> &'static str {
        "/v1/completions"
    }

    fn frame(&self, ids: &FrameIds, end: Option<&str>) -> String {
        let (new, end) = (ids.new, or_null(end, |word| format!("{word:?}")));
        format!(
            r#"{{"choices": [{{"index": 0, "text": "", "token_ids": {new:?}, "finish_reason": {end}}}], "usage": {{"prompt_tokens_details": {{"cached_tokens": 7}}}}}}"#
        )
    }

    fn odds(&self, ids: &FrameIds, odds: &[Sampled]) -> String {
        // The sampled token comes first, and then the others.
        let top = list(odds.iter().map(|(id, logprob, top)| {
            let others = top.iter().filter(|(other, _)| other != id).map(|(id, logprob)| (id, logprob));
            let all = std::iter::once((id, logprob)).chain(others);
            let all: Vec<String> = all.map(|(id, logprob)| format!(r#""token_id:{id}": {logprob:?}"#)).collect();
            format!("{{{}}}", all.join(", "))
        }));
        let tokens = list(odds.iter().map(|(id, ..)| format!(r#""token_id:{id}""#)));
        let logprobs = list(odds.iter().map(|(_, logprob, _)| format!("{logprob:?}")));
        let new = ids.new;
        format!(
            r#"{{"choices": [{{"index": 0, "text": "", "token_ids": {new:?}, "finish_reason": null, "logprobs": {{"text_offset": [], "tokens": {tokens}, "token_logprobs": {logprobs}, "top_logprobs": {top}}}}}]}}"#
        )
    }

    fn page(&self, path: &str, _: usize) -> Option<&'static str> {
        match path {
            "/health" => Some(""),
            "/v1/models" => Some(r#"{"data": [{"id": "own", "max_model_len": CONTEXT}]}"#),
            "/version" => Some(r#"{"version": "b1"}"#),
            _ => None,
        }
    }

    fn place_of(&self, setting: &str) -> String {
        let own = if setting == "top_logprobs" { "logprobs" } else { setting };
        own.to_owned()
    }

    fn place_of_tag(&self) -> Option<&'static str> {
        Some("structured_outputs.structural_tag")
    }

    fn limit_of_all(&self, room: u32) -> Option<u32> {
        // It takes null for 16, so it is told what fits into its context.
        Some(room)
    }

    fn damaged(&self, _: usize) -> Vec<String> {
        damaged(
            |ids| format!(r#"{{"choices": [{{"token_ids": {ids}, "finish_reason": null}}]}}"#),
            &[
                "{}",
                r#"{"choices": {}}"#,
                r#"{"choices": [7]}"#,
                r#"{"choices": [{"token_ids": {}}]}"#,
                r#"{"choices": [{"token_ids": [], "finish_reason": 5}]}"#,
            ],
        )
    }

    fn damaged_odds(&self, id: u32) -> Vec<String> {
        let with = |odds: &&str| format!(r#"{{"choices": [{{"token_ids": [{id}], "finish_reason": null{odds}}}]}}"#);
        let odds = [
            "",
            r#", "logprobs": 5"#,
            r#", "logprobs": {"token_logprobs": [], "top_logprobs": []}"#,
            r#", "logprobs": {"token_logprobs": [-1], "top_logprobs": [{"a": -1}]}"#,
            r#", "logprobs": {"token_logprobs": [-1], "top_logprobs": [{"token_id:-1": -1}]}"#,
        ];
        odds.iter().map(with).collect()
    }

    fn empty(&self, _: usize) -> String {
        r#"{"choices": [{"text": "", "token_ids": [], "finish_reason": null}]}"#.to_owned()
    }
}
