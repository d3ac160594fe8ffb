//! The peers, which make ids and masks on request and report the time taken.

use std::path::Path;
use std::time::Duration;

use rolecall_benches::Python;
use serde_json::{Map, Value, json};

/// The ids and the mask of a peer.
pub struct Answer {
    pub ids: Vec<u32>,
    pub mask: Vec<bool>,
}

/// A Python process with all peers whose packages are installed.
pub struct Peers {
    python: Python,
    pub versions: String,
    pub names: Vec<String>,
}

impl Peers {
    /// Returns `None` if there is no Python with transformers.
    pub fn start(tokenizer: &Path, source: &str, switches: &[(&str, &str)], groups: &[Vec<String>]) -> Option<Peers> {
        let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("valid JSON");
        let groups: Vec<Vec<Value>> =
            groups.iter().map(|group| group.iter().map(|text| parsed(text)).collect()).collect();
        let switches: Map<String, Value> =
            switches.iter().map(|(name, value)| ((*name).to_owned(), parsed(value))).collect();
        let job = json!({"tokenizer": tokenizer, "template": source, "switches": switches, "groups": groups});
        let (python, ready) = Python::start(include_str!("peers.py"), &job.to_string())?;
        let versions = ready["versions"].as_str().unwrap_or_default().to_owned();
        let names = ready["peers"].as_array().into_iter().flatten();
        let names = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        Some(Peers { python, versions, names })
    }

    pub fn answers(&mut self, peer: &str) -> Vec<Answer> {
        let answer = self.python.ask(&json!({"action": "answers", "peer": peer}).to_string());
        let answers: Value = serde_json::from_str(&answer).expect("valid JSON");
        let numbers = |value: &Value| -> Vec<u32> {
            value.as_array().into_iter().flatten().filter_map(|id| id.as_u64()).map(|id| id as u32).collect()
        };
        let answers = answers.as_array().into_iter().flatten();
        let answer = |answer: &Value| Answer {
            ids: numbers(&answer["ids"]),
            mask: numbers(&answer["mask"]).into_iter().map(|is_in| is_in != 0).collect(),
        };
        answers.map(answer).collect()
    }

    pub fn time(&mut self, peer: &str, group: usize) -> Duration {
        self.python.time(&json!({"action": "time", "peer": peer, "group": group}).to_string())
    }
}
