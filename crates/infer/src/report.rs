use std::fmt::Write;

use rolecall_format::Field;
use rolecall_render::Error;

/// What was found out about a template, part by part.
///
/// ```
/// use rolecall_infer::{Outcome, Part, infer};
/// use rolecall_render::ChatTemplate;
/// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
/// let report = infer(&ChatTemplate::compile(source, Vec::new())?).report;
/// assert!(matches!(report.outcome(Part::Content), Some(Outcome::Verified { .. })));
/// assert_eq!(report.outcome(Part::Calls), Some(&Outcome::Absent));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Each part once, in the order of [`Part`].
    pub parts: Vec<(Part, Outcome)>,
    /// What a reader should know beside that.
    pub notes: Vec<Note>,
    /// Conversations rendered to find it out.
    pub renders: usize,
    /// Steps that this took, as [`rolecall_render::ProbeBudget`] counts them.
    pub steps: u64,
    /// Why nothing was inferred, where a limit was hit: by an answer alone, or by all conversations together.
    pub error: Option<Error>,
}

/// A part of what an assistant's turn may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// The answer.
    Content,
    /// What was thought before.
    Reasoning,
    /// A call of a function.
    Calls,
    /// Several calls in one turn.
    ParallelCalls,
    /// A call's arguments.
    Arguments,
    /// A call's id.
    Ids,
    /// What opens the turn and waits for the model.
    Opening,
}

/// What became of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The layout writes it as the template does, in so many probes that had no part in finding it.
    Verified {
        /// How many.
        probes: usize,
    },
    /// The layout reads it, but writes it otherwise than the template.
    ReadOnly(String),
    /// The layout writes it as the template does, but what it wrote is not read back.
    WriteOnly(String),
    /// The template does not write it.
    Absent,
    /// It could not be told how the template writes it, or the template refuses it.
    Missing(String),
}

/// Something that a reader of a report should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Which part it is about.
    pub part: Part,
    /// What.
    pub words: String,
    /// The template's line, where one is known.
    pub line: Option<u32>,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 7] =
        [Part::Content, Part::Reasoning, Part::Calls, Part::ParallelCalls, Part::Arguments, Part::Ids, Part::Opening];

    /// A stable name for programs: `parallel-calls`.
    pub fn name(self) -> &'static str {
        match self {
            Part::Content => "content",
            Part::Reasoning => "reasoning",
            Part::Calls => "calls",
            Part::ParallelCalls => "parallel-calls",
            Part::Arguments => "arguments",
            Part::Ids => "ids",
            Part::Opening => "opening",
        }
    }
}

impl Report {
    /// What became of a part.
    pub fn outcome(&self, part: Part) -> Option<&Outcome> {
        self.parts.iter().find(|(known, _)| *known == part).map(|(_, outcome)| outcome)
    }

    /// The columns of [`Report::markdown_row`], as the head of a Markdown table.
    pub fn markdown_head() -> String {
        let names: Vec<&str> = Part::ALL.iter().map(|part| part.name()).collect();
        format!("| template | {} | notes |\n|{}\n", names.join(" | "), " --- |".repeat(Part::ALL.len() + 2))
    }

    /// The report as one line of a Markdown table.
    pub fn markdown_row(&self, template: &str) -> String {
        let mut row = format!("| {template} |");
        for part in Part::ALL {
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
        for (part, outcome) in &self.parts {
            let noted = |why: &String| self.notes.iter().any(|note| note.part == *part && note.words == *why);
            if let Outcome::ReadOnly(why) | Outcome::WriteOnly(why) | Outcome::Missing(why) = outcome
                && !noted(why)
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

    /// Of a template that was tried out in part only.
    pub(crate) fn of_error(error: Error) -> Report {
        let missing = |part| (part, Outcome::Missing(error.to_string()));
        Report { parts: Part::ALL.map(missing).into(), error: Some(error.clone()), ..Report::default() }
    }

    pub(crate) fn set(&mut self, part: Part, outcome: Outcome) {
        match self.parts.iter_mut().find(|(known, _)| *known == part) {
            Some(entry) => entry.1 = outcome,
            None => self.parts.push((part, outcome)),
        }
    }

    pub(crate) fn note(&mut self, part: Part, words: impl Into<String>, line: Option<u32>) {
        let note = Note { part, words: words.into(), line };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The part that a field of a turn belongs to.
pub(crate) fn part_of(field: Field) -> Part {
    match field {
        Field::Reasoning => Part::Reasoning,
        Field::Calls => Part::Calls,
        _ => Part::Content,
    }
}

fn one_line(words: &str) -> String {
    let kept = words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200);
    kept.collect::<String>().replace('|', "\\|").replace('<', "\\<")
}
