//! A peer in Python, timed in its own process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value};

/// A Python process that reads a job and then orders, one on a line, and answers each with a line.
pub struct Python {
    child: Child,
    /// `None` after closing, which ends the process.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Python {
    /// Starts a script on one thread, and returns the object with which it answers its job. Returns
    /// `None` if there is no Python, or if the script ends because a package is missing.
    pub fn start(script: &str, job: &str) -> Option<(Python, Map<String, Value>)> {
        let mut child = Command::new("python3")
            .args(["-c", script])
            .envs([("TOKENIZERS_PARALLELISM", "false"), ("RAYON_NUM_THREADS", "1"), ("OMP_NUM_THREADS", "1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut orders = child.stdin.take()?;
        let answers = BufReader::new(child.stdout.take()?);
        // A Python process that has already ended does not read.
        let _ = writeln!(orders, "{job}");
        let mut python = Python { child, orders: Some(orders), answers };
        match serde_json::from_str(&python.answer()?) {
            Ok(Value::Object(ready)) => Some((python, ready)),
            _ => None,
        }
    }

    /// Returns the answer to an order.
    pub fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders.as_mut().expect("it is running"), "{order}").expect("it reads");
        self.answer().expect("it answers")
    }

    /// Returns the time that an order took, which is the answer in nanoseconds.
    pub fn time(&mut self, order: &str) -> Duration {
        Duration::from_nanos(self.ask(order).trim().parse().expect("nanoseconds"))
    }

    fn answer(&mut self) -> Option<String> {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).ok()?;
        Some(answer)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // The process ends with its input.
        self.orders = None;
        let _ = self.child.wait();
    }
}
