use super::input::Begun;
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::exit::Exit;
use crate::refusal::Refusal;

/// The maximum number of refused lines that are listed at the end.
const NAMED: usize = 10;

/// The numbers of processed and refused lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub answered: u64,
    pub refused: u64,
    /// The numbers of the first refused lines.
    pub named: Vec<u64>,
    /// The reasons for refusals, each listed once.
    pub reasons: Vec<Reason>,
    pub tokens: u64,
}

/// A reason for refusing lines, identified by its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub code: String,
    pub count: u64,
    /// The first line refused for this reason; `message` is its error message.
    pub line: u64,
    pub message: String,
}

impl Tally {
    pub fn refuse(&mut self, line: u64, refusal: &Refusal) {
        self.refused += 1;
        if self.named.len() < NAMED {
            self.named.push(line);
        }
        match self.reasons.iter_mut().find(|reason| reason.code == refusal.code()) {
            Some(reason) => reason.count += 1,
            None => {
                let code = refusal.code().to_owned();
                self.reasons.push(Reason { code, count: 1, line, message: shortened(&refusal.to_string()) });
            }
        }
    }

    /// Adds the counts of the lines that follow.
    pub fn add(&mut self, behind: &Tally) {
        self.answered += behind.answered;
        self.refused += behind.refused;
        self.tokens += behind.tokens;
        let room = NAMED - self.named.len().min(NAMED);
        self.named.extend(behind.named.iter().take(room));
        for more in &behind.reasons {
            match self.reasons.iter_mut().find(|reason| reason.code == more.code) {
                Some(reason) => reason.count += more.count,
                None => self.reasons.push(more.clone()),
            }
        }
    }

    pub fn exit(&self) -> Exit {
        if self.refused == 0 { Exit::Good } else { Exit::Refused }
    }

    /// Returns the final error, if a line was refused.
    pub fn diagnostic(&self, name: &str, begun: &Begun) -> Option<Diagnostic<'static>> {
        let mut reasons: Vec<&Reason> = self.reasons.iter().collect();
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.count));
        let told = reasons.into_iter().map(|Reason { code, count, line, message }| match count {
            1 => format!("{code}: {}: {message}", begun.place(*line)),
            count => format!("{code}: {count} lines, the first is {}: {message}", begun.place(*line)),
        });
        let more = if self.refused > self.named.len() as u64 { ", .." } else { "" };
        let lines = if self.refused == 1 { "line" } else { "lines" };
        let place = match begun.is_one() {
            true => {
                let named: Vec<String> = self.named.iter().map(u64::to_string).collect();
                format!("{name}, {lines} {}{more}", named.join(", "))
            }
            false => {
                let named: Vec<String> = self.named.iter().map(|line| begun.place(*line)).collect();
                format!("{}{more}", named.join("; "))
            }
        };
        Some(Diagnostic {
            severity: Severity::Error,
            code: "refused_lines",
            message: match self.refused {
                0 => return None,
                1 => format!("1 of {} lines was refused", self.answered),
                refused => format!("{refused} of {} lines were refused", self.answered),
            },
            place: Place::Named(place),
            help: told.collect(),
        })
    }
}

/// The maximum length of an error message in the summary, in bytes.
const TOLD: usize = 200;

fn shortened(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.char_indices().find(|(at, _)| *at >= TOLD) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => line.to_owned(),
    }
}
