use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::exit::Exit;

/// How many refused lines are named at the end.
const NAMED: usize = 10;

/// How many lines were answered, and which were refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub answered: u64,
    pub refused: u64,
    /// The first of the refused.
    pub named: Vec<u64>,
    pub tokens: u64,
}

impl Tally {
    pub fn refuse(&mut self, line: u64) {
        self.refused += 1;
        if self.named.len() < NAMED {
            self.named.push(line);
        }
    }

    /// Adds what was counted behind it.
    pub fn add(&mut self, behind: &Tally) {
        self.answered += behind.answered;
        self.refused += behind.refused;
        self.tokens += behind.tokens;
        let room = NAMED - self.named.len().min(NAMED);
        self.named.extend(behind.named.iter().take(room));
    }

    pub fn exit(&self) -> Exit {
        if self.refused == 0 { Exit::Good } else { Exit::Refused }
    }

    /// What is said at the end, if a line was refused.
    pub fn diagnostic(&self, name: &str) -> Option<Diagnostic<'static>> {
        let more = if self.refused > self.named.len() as u64 { ", .." } else { "" };
        let lines = if self.refused == 1 { "line" } else { "lines" };
        let named: Vec<String> = self.named.iter().map(u64::to_string).collect();
        Some(Diagnostic {
            severity: Severity::Error,
            code: "refused_lines",
            message: match self.refused {
                0 => return None,
                1 => format!("1 of {} lines was refused", self.answered),
                refused => format!("{refused} of {} lines were refused", self.answered),
            },
            place: Place::Named(format!("{name}, {lines} {}{more}", named.join(", "))),
            help: Vec::new(),
        })
    }
}
