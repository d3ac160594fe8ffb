use rolecall::conversation::json;
use rolecall_testkit::Toy;

use super::{EngineFrames, FrameIds, Sampled};

pub struct OpenAi;

/// Writes a frame with text.
pub fn written(text: &str) -> String {
    let text = json::write(&text.into(), &json::Layout::compact());
    format!(r#"{{"choices": [{{"index": 0, "text": {text}, "finish_reason": null}}]}}"#)
}

impl EngineFrames for OpenAi {
    fn path(&self) -> &'static str {
        "/v1/completions"
    }

    fn frame(&self, ids: &FrameIds, end: Option<&str>) -> String {
        let Some(end) = end else {
            let bytes = ids.new.iter().filter_map(|id| u8::try_from(id.checked_sub(Toy::BYTES)?).ok());
            return written(&String::from_utf8(bytes.collect()).unwrap());
        };
        format!(r#"{{"choices": [{{"index": 0, "text": "", "finish_reason": "{end}"}}]}}"#)
    }

    fn odds(&self, _: &FrameIds, _: &[Sampled]) -> String {
        panic!("it has no ids")
    }

    fn page(&self, path: &str, _: usize) -> Option<&'static str> {
        (path == "/v1/models").then_some(r#"{"data": [{"id": "own", "max_model_len": CONTEXT}]}"#)
    }

    fn place_of(&self, setting: &str) -> String {
        setting.to_owned()
    }

    fn limit_of_all(&self, room: u32) -> Option<u32> {
        // vLLM may be used by text, too, where it may put a token before the prompt.
        Some(room - 1)
    }

    fn damaged(&self, _: usize) -> Vec<String> {
        let frames = [
            "{}",
            r#"{"choices": {}}"#,
            r#"{"choices": [7]}"#,
            r#"{"choices": [{"text": 5}]}"#,
            r#"{"choices": [{"text": "", "finish_reason": 5}]}"#,
        ];
        frames.map(str::to_owned).to_vec()
    }

    fn empty(&self, _: usize) -> String {
        r#"{"choices": [{"text": "", "finish_reason": null}]}"#.to_owned()
    }
}
