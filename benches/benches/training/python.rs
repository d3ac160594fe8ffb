//! The peers: a Python process that makes ids and masks on request.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The ids and the mask of a peer.
pub struct Answer {
    pub ids: Vec<u32>,
    pub mask: Vec<bool>,
}

/// A Python process that makes ids and masks on request, and reports the time taken.
pub struct Python {
    child: Child,
    /// `None` after closing, which ends the process.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub versions: String,
    pub peers: Vec<String>,
}

impl Python {
    /// Returns `None` if there is no Python with transformers.
    pub fn start(tokenizer: &Path, source: &str, switches: &[(&str, &str)], groups: &[Vec<String>]) -> Option<Python> {
        let mut child = Command::new("python3")
            .args(["-c", include_str!("peers.py")])
            .envs([("TOKENIZERS_PARALLELISM", "false"), ("RAYON_NUM_THREADS", "1"), ("OMP_NUM_THREADS", "1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut orders = child.stdin.take()?;
        let mut answers = BufReader::new(child.stdout.take()?);
        let parsed = |text: &String| serde_json::from_str::<serde_json::Value>(text).expect("valid JSON");
        let groups: Vec<Vec<serde_json::Value>> =
            groups.iter().map(|group| group.iter().map(parsed).collect()).collect();
        let switches: serde_json::Map<String, serde_json::Value> =
            switches.iter().map(|(name, value)| ((*name).to_owned(), parsed(&(*value).to_owned()))).collect();
        let job = serde_json::json!({
            "tokenizer": tokenizer, "template": source, "switches": switches, "groups": groups
        });
        // A Python process that has already ended does not read.
        let _ = writeln!(orders, "{job}");
        let mut answer = String::new();
        answers.read_line(&mut answer).ok()?;
        let Ok(serde_json::Value::Object(ready)) = serde_json::from_str(&answer) else {
            let _ = child.wait();
            return None;
        };
        let versions = ready["versions"].as_str().unwrap_or_default().to_owned();
        let peers = ready["peers"].as_array().into_iter().flatten();
        let peers = peers.filter_map(|peer| peer.as_str().map(str::to_owned)).collect();
        Some(Python { child, orders: Some(orders), answers, versions, peers })
    }

    fn order(&mut self, order: &serde_json::Value) -> String {
        writeln!(self.orders.as_mut().expect("it is running"), "{order}").expect("it reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        answer
    }

    pub fn answers(&mut self, peer: &str) -> Vec<Answer> {
        let answer = self.order(&serde_json::json!({"action": "answers", "peer": peer}));
        let answers: serde_json::Value = serde_json::from_str(&answer).expect("valid JSON");
        let numbers = |value: &serde_json::Value| -> Vec<u32> {
            value.as_array().into_iter().flatten().filter_map(|id| id.as_u64()).map(|id| id as u32).collect()
        };
        let answers = answers.as_array().into_iter().flatten();
        let answer = |answer: &serde_json::Value| Answer {
            ids: numbers(&answer["ids"]),
            mask: numbers(&answer["mask"]).into_iter().map(|is_in| is_in != 0).collect(),
        };
        answers.map(answer).collect()
    }

    pub fn time(&mut self, peer: &str, group: usize) -> Duration {
        let answer = self.order(&serde_json::json!({"action": "time", "peer": peer, "group": group}));
        Duration::from_nanos(answer.trim().parse().expect("nanoseconds"))
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // The process ends with its input.
        self.orders = None;
        let _ = self.child.wait();
    }
}
