use rolecall::account::Remedy;
use rolecall::training::RowNote;

use super::input::InputFiles;
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::exit::Exit;
use crate::flags;
use crate::refusal::Refusal;
use crate::refusal::{AS_WANTED, DIVIDED};

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
    /// The number of lines that have warnings, and of those from which parts are left out by design
    /// alone.
    pub noted: u64,
    pub by_design: u64,
    /// The warnings, and what is left out by design.
    pub notes: Vec<Reason>,
}

/// What an answered line adds to the counts.
#[derive(Debug, Default)]
pub struct LineCounts {
    pub tokens: u64,
    pub notes: Vec<LineNote>,
}

/// A warning about a line, with a stable code.
#[derive(Debug)]
pub struct LineNote {
    pub code: &'static str,
    /// What tells kinds with the same code apart.
    pub why: &'static str,
    pub by_design: bool,
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl LineCounts {
    /// Adds a warning, with the flag that helps against it if there is one.
    pub fn note(&mut self, code: &'static str, message: impl Into<String>) {
        let help = flags::in_flags(Vec::new(), code).pop();
        self.notes.push(LineNote { code, why: "", by_design: false, message: message.into(), help });
    }

    /// Adds what the library says about a line.
    pub fn add(&mut self, note: RowNote) {
        let help = match note.remedy {
            Some(Remedy::FormsAsWanted) => Some(AS_WANTED.to_owned()),
            Some(Remedy::DividedSamples) => Some(DIVIDED.to_owned()),
            _ => flags::in_flags(Vec::new(), note.code).pop(),
        };
        let RowNote { code, message, why, by_design, .. } = note;
        self.notes.push(LineNote { code, why, by_design, message, help });
    }
}

/// A reason for refusing lines or for a warning, identified by its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub code: String,
    /// What tells kinds with the same code apart, if anything does.
    pub why: String,
    pub count: u64,
    /// The first line with this reason; `message` and `help` are of this line.
    pub line: u64,
    pub message: String,
    pub help: Option<String>,
}

impl Tally {
    pub fn refuse(&mut self, line: u64, refusal: &Refusal) {
        self.refused += 1;
        if self.named.len() < NAMED {
            self.named.push(line);
        }
        let message = match refusal.place_in_template() {
            Some(place) => format!("{place}: {refusal}"),
            None => refusal.to_string(),
        };
        let (code, help) = (refusal.code().to_owned(), refusal.help().pop());
        add_reason(
            &mut self.reasons,
            &Reason { code, why: refusal.why().to_owned(), count: 1, line, message: shortened(&message), help },
        );
    }

    /// Counts an answered line. Several warnings of one kind in a line count once.
    pub fn tell(&mut self, line: u64, told: LineCounts) {
        self.tokens += told.tokens;
        let is_warned = told.notes.iter().any(|note| !note.by_design);
        self.noted += u64::from(is_warned);
        self.by_design += u64::from(!is_warned && !told.notes.is_empty());
        for (at, LineNote { code, why, message, help, .. }) in told.notes.iter().enumerate() {
            if told.notes[..at].iter().all(|before| (before.code, before.why) != (*code, *why)) {
                let (code, why, message) = ((*code).to_owned(), (*why).to_owned(), shortened(message));
                add_reason(&mut self.notes, &Reason { code, why, count: 1, line, message, help: help.clone() });
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
        behind.reasons.iter().for_each(|more| add_reason(&mut self.reasons, more));
        self.noted += behind.noted;
        self.by_design += behind.by_design;
        behind.notes.iter().for_each(|more| add_reason(&mut self.notes, more));
    }

    pub fn exit(&self) -> Exit {
        if self.refused == 0 { Exit::Good } else { Exit::Refused }
    }

    /// Returns the final error, if a line was refused. [`Tally::reasons_told`] belongs to it.
    pub fn diagnostic(&self, name: &str, begun: &InputFiles) -> Option<Diagnostic<'static>> {
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
            place: DiagnosticPlace::Named(place),
            help: Vec::new(),
        })
    }

    /// Returns the warnings about lines, if there are any. [`Tally::notes_told`] belongs to it.
    pub fn noted_lines(&self, name: &str) -> Option<Diagnostic<'static>> {
        Some(Diagnostic {
            severity: if self.noted > 0 { Severity::Warning } else { Severity::Note },
            code: "noted_lines",
            message: match (self.noted, self.by_design) {
                (0, 0) => return None,
                (0, 1) => format!("1 of {} lines is not whole in its prompt, by design", self.answered),
                (0, lines) => format!("{lines} of {} lines are not whole in their prompts, by design", self.answered),
                (1, _) => format!("1 of {} lines has warnings", self.answered),
                (noted, _) => format!("{noted} of {} lines have warnings", self.answered),
            },
            place: DiagnosticPlace::Named(name.to_owned()),
            help: Vec::new(),
        })
    }

    /// Returns a line for each reason for refusals.
    pub fn reasons_told(&self, begun: &InputFiles) -> Vec<String> {
        told(&self.reasons, begun)
    }

    /// Returns a line for each kind of warning.
    pub fn notes_told(&self, begun: &InputFiles) -> Vec<String> {
        told(&self.notes, begun)
    }
}

/// Returns a line for each reason, the most frequent first.
fn told(reasons: &[Reason], begun: &InputFiles) -> Vec<String> {
    let mut reasons: Vec<&Reason> = reasons.iter().collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.count));
    let told = reasons.into_iter().map(|Reason { code, count, line, message, help, .. }| {
        let place = begun.place(*line);
        let help = help.iter().map(|help| format!("; {help}")).collect::<String>();
        match count {
            1 => format!("{code}: {place}: {message}{help}"),
            count => format!("{code}: {count} lines, the first is {place}: {message}{help}"),
        }
    });
    told.collect()
}

fn add_reason(reasons: &mut Vec<Reason>, more: &Reason) {
    match reasons.iter_mut().find(|reason| (&reason.code, &reason.why) == (&more.code, &more.why)) {
        Some(reason) => reason.count += more.count,
        None => reasons.push(more.clone()),
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
