use super::{EngineFrames, FrameIds, Sampled, damaged, list};

pub struct LlamaCpp;

impl EngineFrames for LlamaCpp {
    fn path(&self) -> &'static str {
        "/completion"
    }

    fn frame(&self, ids: &FrameIds, end: Option<&str>) -> String {
        let (new, total) = (ids.new, ids.all.len());
        let word = match end {
            None => {
                return format!(r#"{{"content": "", "tokens": {new:?}, "stop": false, "tokens_predicted": {total}}}"#);
            }
            Some("stop") => "eos",
            Some("length") => "limit",
            Some(own) => own,
        };
        format!(r#"{{"content": "", "tokens": [], "stop": true, "stop_type": "{word}", "timings": {{"cache_n": 7}}}}"#)
    }

    fn odds(&self, ids: &FrameIds, odds: &[Sampled]) -> String {
        let one =
            |(id, logprob): &(u32, f64)| format!(r#"{{"id": {id}, "token": "", "bytes": [], "logprob": {logprob:?}}}"#);
        let probabilities = list(odds.iter().map(|(id, logprob, top)| {
            let top = list(top.iter().map(one));
            one(&(*id, *logprob)).replace('}', &format!(r#", "top_logprobs": {top}}}"#))
        }));
        let (new, total) = (ids.new, ids.all.len());
        format!(
            r#"{{"content": "", "tokens": {new:?}, "stop": false, "tokens_predicted": {total}, "completion_probabilities": {probabilities}}}"#
        )
    }

    fn page(&self, path: &str, _: usize) -> Option<&'static str> {
        match path {
            "/health" => Some(""),
            "/v1/models" => Some(r#"{"data": [{"id": "own"}]}"#),
            "/lora-adapters" => Some(
                r#"[{"id": 0, "path": "other/law.gguf", "scale": 1.0}, {"id": 1, "path": "/adapters/sql.gguf", "scale": 0.0}]"#,
            ),
            "/props" => {
                Some(r#"{"default_generation_settings": {"n_ctx": CONTEXT}, "total_slots": 2, "build_info": "b1"}"#)
            }
            _ => None,
        }
    }

    fn place_of(&self, setting: &str) -> String {
        let own = match setting {
            "max_tokens" => "n_predict",
            "repetition_penalty" => "repeat_penalty",
            "top_logprobs" => "n_probs",
            same => same,
        };
        own.to_owned()
    }

    fn biases(&self, id: u32, bias: i64) -> String {
        format!("[[{id},{bias}]]")
    }

    fn least_logprobs(&self) -> u32 {
        // It reports nothing at all for 0.
        1
    }

    fn damaged(&self, _: usize) -> Vec<String> {
        damaged(
            |ids| format!(r#"{{"tokens": {ids}, "stop": false}}"#),
            &[
                r#"{"tokens": {}}"#,
                r#"{"tokens": [], "stop": true}"#,
                r#"{"tokens": [], "stop": true, "stop_type": 5}"#,
                r#"{"tokens": [], "tokens_predicted": 1000, "content": 5}"#,
            ],
        )
    }

    fn damaged_odds(&self, id: u32) -> Vec<String> {
        let with = |odds: &&str| format!(r#"{{"tokens": [{id}], "stop": false{odds}}}"#);
        let odds = [
            "",
            r#", "completion_probabilities": {}"#,
            r#", "completion_probabilities": [5]"#,
            r#", "completion_probabilities": [{"id": -1, "top_logprobs": []}]"#,
        ];
        odds.iter().map(with).collect()
    }

    fn empty(&self, _: usize) -> String {
        r#"{"tokens": [], "stop": false}"#.to_owned()
    }
}
