use std::fmt::Write;

use rolecall_format::{Field, Format, Slot};
use rolecall_render::Error;

/// The findings about a template, for each part.
///
/// ```
/// use rolecall_infer::{Outcome, TurnPart, infer};
/// use rolecall_render::ChatTemplate;
/// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
/// let report = infer(&ChatTemplate::compile(source, Vec::new())?).report;
/// assert!(matches!(report.outcome(TurnPart::Content), Some(Outcome::Verified { .. })));
/// assert_eq!(report.outcome(TurnPart::Calls), Some(&Outcome::Absent));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The outcome of each part, in the order of [`TurnPart`].
    pub parts: Vec<(TurnPart, Outcome)>,
    /// The parts that were parsed back correctly from every probe.
    pub read_back: Vec<TurnPart>,
    /// What was lost, if calls are parsed back alone but not beside content or reasoning.
    pub unread_beside: Option<String>,
    /// Whether the template offers tools but writes no calls.
    pub only_offers_tools: bool,
    /// Additional notes for the reader.
    pub notes: Vec<Note>,
    /// The number of conversations rendered.
    pub renders: usize,
    /// The number of steps taken, as counted by [`rolecall_render::ProbeBudget`].
    pub steps: u64,
    /// The error, if nothing was inferred because a limit was exceeded, either by a single answer
    /// or by all probes together.
    pub error: Option<Error>,
}

/// A part of an assistant's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TurnPart {
    /// The answer.
    Content,
    /// The reasoning before the answer.
    Reasoning,
    /// A function call.
    Calls,
    /// Several calls in one turn.
    ParallelCalls,
    /// A call's arguments.
    Arguments,
    /// A call's id.
    Ids,
    /// The opening of the turn, after which the model continues.
    Opening,
}

/// The outcome of inferring a part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The layout writes the part as the template does. Additional probes that were not used for
    /// inference confirm this.
    Verified {
        /// The number of these probes.
        probes: usize,
    },
    /// The layout can parse the part, but writes it differently from the template.
    ReadOnly(String),
    /// The layout writes the part as the template does, but its output is not parsed back
    /// correctly.
    WriteOnly(String),
    /// The template does not write the part.
    Absent,
    /// The template refuses the part, or it could not be determined how the template writes it.
    Missing(String),
}

/// A note for the reader of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The part that the note is about.
    pub part: TurnPart,
    /// The text of the note.
    pub words: String,
    /// The template's line, if known.
    pub line: Option<u32>,
}

impl TurnPart {
    /// All parts.
    pub const ALL: [TurnPart; 7] = [
        TurnPart::Content,
        TurnPart::Reasoning,
        TurnPart::Calls,
        TurnPart::ParallelCalls,
        TurnPart::Arguments,
        TurnPart::Ids,
        TurnPart::Opening,
    ];

    /// Returns a stable, machine-readable name, such as `parallel-calls`.
    pub fn name(self) -> &'static str {
        match self {
            TurnPart::Content => "content",
            TurnPart::Reasoning => "reasoning",
            TurnPart::Calls => "calls",
            TurnPart::ParallelCalls => "parallel-calls",
            TurnPart::Arguments => "arguments",
            TurnPart::Ids => "ids",
            TurnPart::Opening => "opening",
        }
    }
}

impl Report {
    /// Returns the outcome of a part.
    pub fn outcome(&self, part: TurnPart) -> Option<&Outcome> {
        self.parts.iter().find(|(known, _)| *known == part).map(|(_, outcome)| outcome)
    }

    /// Returns the reason if the template may lead to calls that the layouts do not read.
    pub(crate) fn lacks_calls(&self) -> Option<&str> {
        match self.outcome(TurnPart::Calls) {
            Some(Outcome::Missing(why)) => Some(why),
            Some(Outcome::Absent) if self.only_offers_tools => Some("the template offers tools but writes no calls"),
            _ => None,
        }
    }

    /// Returns the header of a Markdown table with the columns of [`Report::markdown_row`].
    pub fn markdown_head() -> String {
        let names: Vec<&str> = TurnPart::ALL.iter().map(|part| part.name()).collect();
        format!("| template | {} | notes |\n|{}\n", names.join(" | "), " --- |".repeat(TurnPart::ALL.len() + 2))
    }

    /// Returns the report as one row of a Markdown table.
    pub fn markdown_row(&self, template: &str) -> String {
        let mut row = format!("| {template} |");
        for part in TurnPart::ALL {
            let cell = match self.outcome(part) {
                Some(Outcome::Verified { probes }) => format!("yes ({probes})"),
                Some(Outcome::ReadOnly(_)) => "read only".to_owned(),
                Some(Outcome::WriteOnly(_)) => "write only".to_owned(),
                Some(Outcome::Missing(_)) => "no".to_owned(),
                Some(Outcome::Absent) | None => "–".to_owned(),
            };
            let _ = write!(row, " {cell} |");
        }
        let mut notes: Vec<String> = Vec::new();
        let mut last = "";
        for (part, outcome) in &self.parts {
            let noted = |why: &String| self.notes.iter().any(|note| note.part == *part && note.words == *why);
            // A reason that several parts have in common is given once.
            if let Outcome::ReadOnly(why) | Outcome::WriteOnly(why) | Outcome::Missing(why) = outcome
                && !noted(why)
                && std::mem::replace(&mut last, why) != why
            {
                notes.push(format!("{}: {}", part.name(), one_line(why)));
            }
        }
        for note in &self.notes {
            let line = note.line.map_or(String::new(), |line| format!(" (line {line})"));
            notes.push(format!("{}: {}{line}", note.part.name(), one_line(&note.words)));
        }
        let _ = writeln!(row, " {} |", notes.join("; "));
        row
    }

    /// Returns the report for a template that could not be probed completely.
    pub(crate) fn of_error(error: Error) -> Report {
        let missing = |part| (part, Outcome::Missing(error.to_string()));
        Report { parts: TurnPart::ALL.map(missing).into(), error: Some(error.clone()), ..Report::default() }
    }

    pub(crate) fn set(&mut self, part: TurnPart, outcome: Outcome) {
        match self.parts.iter_mut().find(|(known, _)| *known == part) {
            Some(entry) => entry.1 = outcome,
            None => self.parts.push((part, outcome)),
        }
    }

    /// Records that a format has its calls from elsewhere, with the reason.
    pub(crate) fn borrow(&mut self, format: &Format, why: &str) {
        let has_ids = format.layout(Slot::Call).is_some_and(|layout| layout.prints(Field::Id));
        for part in [TurnPart::Calls, TurnPart::ParallelCalls, TurnPart::Arguments, TurnPart::Ids] {
            if part != TurnPart::Ids || has_ids {
                self.set(part, Outcome::ReadOnly(why.to_owned()));
            }
        }
    }

    pub(crate) fn note(&mut self, part: TurnPart, words: impl Into<String>, line: Option<u32>) {
        let note = Note { part, words: words.into(), line };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Returns the part that a field of a turn belongs to.
pub(crate) fn part_of(field: Field) -> TurnPart {
    match field {
        Field::Reasoning => TurnPart::Reasoning,
        Field::Calls => TurnPart::Calls,
        _ => TurnPart::Content,
    }
}

fn one_line(words: &str) -> String {
    let kept = words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200);
    kept.collect::<String>().replace('|', "\\|").replace('<', "\\<")
}
