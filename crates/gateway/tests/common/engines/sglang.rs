use super::{EngineFrames, FrameIds, Sampled, damaged, list, or_null};
use crate::common::WITH_ADAPTER;

pub struct Sglang;

impl EngineFrames for Sglang {
    fn path(&self) -> &'static str {
        "/generate"
    }

    fn ids_key(&self) -> &'static str {
        "input_ids"
    }

    fn frame(&self, ids: &FrameIds, end: Option<&str>) -> String {
        let end = or_null(end, |word| format!(r#"{{"type": "{word}"}}"#));
        let ((sent, _), total) = (ids.sent(), ids.all.len());
        format!(
            r#"{{"text": "", "output_ids": {sent:?}, "meta_info": {{"completion_tokens": {total}, "cached_tokens": 7, "finish_reason": {end}}}}}"#
        )
    }

    fn odds(&self, ids: &FrameIds, odds: &[Sampled]) -> String {
        let one = |(id, logprob): &(u32, f64)| format!("[{logprob:?}, {id}, null]");
        let ((sent, old), total) = (ids.sent(), ids.all.len());
        let earlier = std::iter::repeat_n("[-9.5, 0, null]".to_owned(), old);
        let logprobs = list(earlier.chain(odds.iter().map(|(id, logprob, _)| one(&(*id, *logprob)))));
        let earlier = std::iter::repeat_n("null".to_owned(), old);
        let tops = list(earlier.chain(odds.iter().map(|(_, _, top)| list(top.iter().map(one)))));
        format!(
            r#"{{"text": "", "output_ids": {sent:?}, "meta_info": {{"completion_tokens": {total}, "finish_reason": null, "output_token_logprobs": {logprobs}, "output_top_logprobs": {tops}}}}}"#
        )
    }

    fn page(&self, path: &str, context: usize) -> Option<&'static str> {
        match path {
            "/health" => Some(""),
            // An engine with adapters has other models, too.
            "/v1/models" if context == WITH_ADAPTER => Some(
                r#"{"data": [{"id": "own", "max_model_len": CONTEXT, "parent": null}, {"id": "sql", "parent": "own"}]}"#,
            ),
            "/v1/models" => Some(r#"{"data": [{"id": "own", "max_model_len": CONTEXT}]}"#),
            "/get_server_info" => Some(r#"{"version": "b1", "max_running_requests": 2}"#),
            _ => None,
        }
    }

    fn place_of(&self, setting: &str) -> String {
        let own = match setting {
            "max_tokens" => "max_new_tokens",
            "seed" => "sampling_seed",
            "top_logprobs" => return "top_logprobs_num".to_owned(),
            same => same,
        };
        format!("sampling_params.{own}")
    }

    fn place_of_tag(&self) -> Option<&'static str> {
        Some("sampling_params.structural_tag")
    }

    fn damaged(&self, before: usize) -> Vec<String> {
        let one_more = before + 1;
        let info = format!(r#""meta_info": {{"completion_tokens": {one_more}, "finish_reason": null}}"#);
        damaged(
            |ids| format!(r#"{{"output_ids": {ids}, {info}}}"#),
            &[
                "{}",
                r#"{"output_ids": []}"#,
                r#"{"output_ids": [], "meta_info": 5}"#,
                r#"{"output_ids": [], "meta_info": {}}"#,
                r#"{"output_ids": [], "meta_info": {"completion_tokens": "a"}}"#,
                r#"{"output_ids": [], "meta_info": {"completion_tokens": -1}}"#,
                r#"{"output_ids": [], "meta_info": {"completion_tokens": 1000}}"#,
                r#"{"output_ids": [], "meta_info": {"completion_tokens": 0, "finish_reason": "stop"}}"#,
                r#"{"output_ids": [], "meta_info": {"completion_tokens": 0, "finish_reason": {"type": 5}}}"#,
            ],
        )
    }

    fn damaged_odds(&self, id: u32) -> Vec<String> {
        let with = |odds: &&str| format!(r#"{{"output_ids": [{id}], "meta_info": {{"completion_tokens": 1{odds}}}}}"#);
        let odds = [
            "",
            r#", "output_token_logprobs": [], "output_top_logprobs": []"#,
            r#", "output_token_logprobs": [5], "output_top_logprobs": [[]]"#,
            r#", "output_token_logprobs": [[-1, 1]], "output_top_logprobs": [[[-1, -1]]]"#,
        ];
        odds.iter().map(with).collect()
    }

    fn empty(&self, before: usize) -> String {
        format!(r#"{{"output_ids": [], "meta_info": {{"completion_tokens": {before}}}}}"#)
    }

    fn given_up(&self) -> Vec<(&'static str, u16)> {
        let reason = r#"{"meta_info": {"finish_reason": {"type": "abort", "message": "no room", "status_code": 503}}}"#;
        vec![(reason, 503)]
    }
}
