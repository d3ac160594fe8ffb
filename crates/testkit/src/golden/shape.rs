//! The required keys of a row of each operation. A row fails if its expectation is missing, or has
//! a key that nothing compares.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use crate::Verdict;

/// The shape of an operation's rows.
struct Shape {
    system: &'static str,
    /// The operation; a trailing `*` matches every operation with this prefix.
    op: &'static str,
    /// Sets of keys. The expectation must have all keys of one set.
    wanted: &'static [&'static [&'static str]],
    /// More keys that the expectation may have.
    more: &'static [&'static str],
}

const fn shape(
    system: &'static str,
    op: &'static str,
    wanted: &'static [&'static [&'static str]],
    more: &'static [&'static str],
) -> Shape {
    Shape { system, op, wanted, more }
}

const SEGMENTS: &[&[&str]] = &[&["segments"], REFUSED];
const REFUSED: &[&str] = &["error", "message"];
/// The keys of a row in addition to its expectation's.
const ROW: &[&str] =
    &["id", "system", "op", "kind", "template", "format", "conversation", "tools", "options", "expected", "case"];

const SHAPES: &[Shape] = &[
    shape("chatglm3", "build_chat_input", &[&["segments", "flat"], REFUSED], &[]),
    shape("chatglm3", "build_single_message", SEGMENTS, &[]),
    shape("chatglm3", "tokenizer.tokenize(text)", SEGMENTS, &[]),
    shape("chatglm3", "SPTokenizer.encode(text)*", SEGMENTS, &[]),
    shape("chatglm3", "parse model output*", &[&["content", "history"], REFUSED], &[]),
    shape("chatglm3", "process_chatglm_messages*", &[&["segments", "flat", "messages"], REFUSED], &[]),
    shape("chatglm3", "finetune_hf.process_batch", SEGMENTS, &[]),
    shape("chatglm3", "tokenizer_config.json chat_template*", &[&["text"], REFUSED], &[]),
    shape("chatglm3", "document printed example*", &[&["segments", "flat"]], &[]),
    shape("internlm2", "build_inputs", &[&["prompt", "segments"], REFUSED], &[]),
    shape("internlm2", "Internlm2Protocol.format*", &[&["prompt", "segments", "dialog"], REFUSED], &[]),
    shape("internlm2", "Internlm2Protocol.parse", &[&["name", "action", "language"], REFUSED], &[]),
    shape("internlm2", "lmdeploy*", &[&["prompt", "segments"], REFUSED], &[]),
    shape(
        "internlm2",
        "special-token splitting*",
        &[&["default", "split_special_tokens", "unused_spelling_vocabulary"]],
        &[],
    ),
    shape(
        "internlm2",
        "document printed example*",
        &[&["im_start_spelling", "segments_im_start", "segments_unused", "unused_token_spelling"]],
        &[],
    ),
    shape("ids", "encode", &[&["ids"], &["control_ids", "reference_ids"]], &["prompt"]),
    shape("xtuner", "chat", &[&["model_inputs", "stop_words"], REFUSED], &[]),
    shape("xtuner", "train", &[&["segments"], REFUSED], &["conversation", "pairs"]),
    shape("lmdeploy", "messages2prompt", &[&["prompt"], &["returns_null"], REFUSED], &[]),
    shape("lmdeploy", "get_prompt per user turn", &[&["prompts"], REFUSED], &[]),
    shape("lmdeploy", "get_prompt", &[&["prompt"], REFUSED], &["stop_words"]),
    shape("lmdeploy", "chat-template json", &[&["attributes", "get_prompt", "messages2prompt"], REFUSED], &[]),
    shape("lmdeploy", "to_json", &[&["json"]], &[]),
    shape("lmdeploy", "best_match_model", &[&["template"]], &[]),
    shape("lmdeploy", "params", &[&["stop_words", "session_len", "capability"]], PARAMETERS),
    shape(
        "lmdeploy",
        "document printed example*",
        &[&["prompt", "equals_seed_commit_code", "equals_v0.2.6_code"]],
        &[],
    ),
    shape("lmflow", "encode_conversation", &[&["turns"], REFUSED], &[]),
    shape("lmflow", "conversation_tokenize_function", SEGMENTS, &[]),
    shape("lmflow", "jinja", &[&["text"], REFUSED], &[]),
    shape("lmflow", "jinja preset", &[&["text", "generation_spans_chars"], REFUSED], &[]),
    shape("lmflow", "document printed example*", &[&["text"]], &["agreement"]),
    shape("peer_outputs", "peer_outputs", &[&["content", "reasoning_content", "tool_calls"]], &[]),
    shape("stability", "stability", &[&["steps"]], &[]),
    shape("trl", "prefix_preserving", &[CHECKS], &[]),
    shape("outputs", "read model output", &[&["content", "tool_calls"]], &["reasoning_content"]),
];

const CHECKS: &[&str] = &[
    "is_chat_template_prefix_preserving",
    "is_chat_template_stop_token_trained",
    "has_generation_markers",
    "supports_tool_calling",
];

const PARAMETERS: &[&str] = &[
    "repetition_penalty",
    "temperature",
    "top_k",
    "top_p",
    "assistant",
    "eoa",
    "eoh",
    "eosys",
    "meta_instruction",
    "separator",
    "system",
    "user",
];

/// The shape of a row of the templates, which has its expectation next to its other keys.
const RENDERED: Shape = shape(
    "hf_jinja",
    "render",
    &[&["output"], &["error"]],
    &["kind", "template", "case", "generation_spans", "qwen3_tokens", "qwen3_mask_runs", "qwen3_mask_error"],
);

/// Returns a failure for a row that does not have the shape of its operation. Operations that are
/// not compared here have no shape.
pub(super) fn check(row: &Object, system: &str, op: &str) -> Option<Verdict> {
    if system == RENDERED.system {
        return RENDERED.check(row);
    }
    let is_its = |shape: &&Shape| {
        shape.system == system
            && match shape.op.strip_suffix('*') {
                Some(start) => op.starts_with(start),
                None => shape.op == op,
            }
    };
    let Some(shape) = SHAPES.iter().find(is_its) else {
        let is_known = SHAPES.iter().any(|shape| shape.system == system);
        return is_known.then(|| {
            Verdict::cannot_run(format!("the operation `{op}` of the system `{system}`, which is unknown to conform"))
        });
    };
    let of_system: &[&str] = match system {
        "ids" => &["tokenizer", "bos_token", "eos_token", "source_vector", "prompt", "segments"],
        "outputs" => &["bos_token", "eos_token"],
        "trl" => &["tokenizer", "bos_token", "eos_token"],
        // The row's origin, its input and its verdict.
        "peer_outputs" => {
            &["bos_token", "eos_token", "peer", "test", "family", "output", "setting", "verdict", "cause"]
        }
        _ => &[],
    };
    let unread: Vec<&str> =
        row.iter().map(|(key, _)| key).filter(|key| !ROW.contains(key) && !of_system.contains(key)).collect();
    if !unread.is_empty() {
        return Some(Verdict::cannot_run(format!("a row with `{}`, which no check reads", unread.join("`, `"))));
    }
    match row.get("expected") {
        Some(Json::Object(expected)) => shape.check(expected),
        _ => Some(Verdict::cannot_run("the row has no `expected` object")),
    }
}

impl Shape {
    fn check(&self, expected: &Object) -> Option<Verdict> {
        let has_all = |keys: &&[&str]| keys.iter().all(|key| expected.get(key).is_some());
        if !self.wanted.iter().any(has_all) {
            let wanted: Vec<String> = self.wanted.iter().map(|keys| format!("`{}`", keys.join("`, `"))).collect();
            return Some(Verdict::cannot_run(format!("an expectation without {}", wanted.join(" or "))));
        }
        let is_known = |key: &str| self.more.contains(&key) || self.wanted.iter().any(|keys| keys.contains(&key));
        let unread: Vec<&str> = expected.iter().map(|(key, _)| key).filter(|key| !is_known(key)).collect();
        let failure = || format!("an expectation with `{}`, which no check compares", unread.join("`, `"));
        (!unread.is_empty()).then(|| Verdict::cannot_run(failure()))
    }
}

#[cfg(test)]
mod tests {
    use rolecall::conversation::json::Object;
    use rolecall::conversation::{Json, json};

    use super::check;

    fn row(text: &str) -> Object {
        match json::parse(text) {
            Ok(Json::Object(row)) => row,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_row_has_the_shape_of_its_operation() {
        let is_right = |text: &str, system: &str, op: &str| check(&row(text), system, op).is_none();
        assert!(is_right(r#"{"id": "a", "expected": {"prompt": "x"}}"#, "lmdeploy", "messages2prompt"));
        for (text, system, op) in [
            (r#"{"id": "a"}"#, "lmdeploy", "messages2prompt"),
            (r#"{"id": "a", "expected": {}}"#, "lmdeploy", "messages2prompt"),
            (r#"{"id": "a", "expected": {"promt": "x"}}"#, "lmdeploy", "messages2prompt"),
            (r#"{"id": "a", "expected": {"prompt": "x", "ids": [1]}}"#, "lmdeploy", "messages2prompt"),
            (r#"{"id": "a", "history": [], "expected": {"prompt": "x"}}"#, "lmdeploy", "messages2prompt"),
            (r#"{"id": "a", "expected": {"prompt": "x"}}"#, "lmdeploy", "messages2prompts"),
            (r#"{"template": "t", "case": "c"}"#, "hf_jinja", "render"),
            (r#"{"template": "t", "case": "c", "output": "x", "spans": []}"#, "hf_jinja", "render"),
        ] {
            assert!(!is_right(text, system, op), "{text}");
        }
        // Pending operations and unknown systems are reported elsewhere.
        assert!(is_right(r#"{"id": "a"}"#, "native", "native_parse"));
    }
}
