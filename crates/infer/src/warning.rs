use std::fmt;

use crate::{InferredFormat, Outcome, TurnPart};

/// A warning about a part of the replies that the inferred layouts do not read, or that could not
/// be verified.
///
/// ```
/// use rolecall_infer::infer;
/// use rolecall_render::ChatTemplate;
/// let source = "{% for m in messages %}{{ raise_exception('Not today.') }}{% endfor %}";
/// let warnings = infer(&ChatTemplate::compile(source, Vec::new())?).warnings();
/// assert_eq!(warnings[0].code(), "part_not_read");
/// assert_eq!(
///     warnings[0].to_string(),
///     "the layouts inferred from the chat template cannot parse the content: Not today."
/// );
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutWarning {
    /// The part.
    pub part: TurnPart,
    /// Whether the layouts read the part, although this could not be verified.
    pub is_read: bool,
    /// The reason.
    pub why: String,
}

impl LayoutWarning {
    /// Returns a stable name for the kind of warning: `part_not_read` or `part_not_verified`.
    pub fn code(&self) -> &'static str {
        if self.is_read { "part_not_verified" } else { "part_not_read" }
    }
}

impl fmt::Display for LayoutWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            TurnPart::Content => "the content",
            TurnPart::Reasoning => "the reasoning",
            TurnPart::Calls => "calls",
            TurnPart::ParallelCalls => "several calls in one turn",
            TurnPart::Arguments => "all arguments of calls",
            TurnPart::Ids => "ids of calls",
            TurnPart::Opening => "the opening of the turn",
        };
        let why = &self.why;
        match self.is_read {
            true => write!(
                f,
                "the layouts inferred from the chat template parse {part}, but this could not be verified: {why}"
            ),
            false => write!(f, "the layouts inferred from the chat template cannot parse {part}: {why}"),
        }
    }
}

impl InferredFormat {
    /// Returns a warning for each part that the layouts do not read, or that could not be verified.
    /// A part that the template does not write has none.
    pub fn warnings(&self) -> Vec<LayoutWarning> {
        let report = &self.report;
        // If the template accepts only one call, its own error says so.
        let is_refused = |part: TurnPart| part == TurnPart::ParallelCalls && self.format.rules.max_calls == Some(1);
        let of = |(part, outcome): &(TurnPart, Outcome)| match outcome {
            Outcome::Absent if *part == TurnPart::Calls => {
                report.lacks_calls().map(|why| LayoutWarning { part: *part, is_read: false, why: why.to_owned() })
            }
            Outcome::Missing(_) if is_refused(*part) => None,
            Outcome::Missing(why) | Outcome::WriteOnly(why) => {
                Some(LayoutWarning { part: *part, is_read: false, why: why.clone() })
            }
            Outcome::ReadOnly(why) if !report.read_back.contains(part) => {
                Some(LayoutWarning { part: *part, is_read: true, why: why.clone() })
            }
            Outcome::ReadOnly(_) | Outcome::Verified { .. } | Outcome::Absent => None,
        };
        let mut warnings: Vec<LayoutWarning> = report.parts.iter().filter_map(of).collect();
        let is_told = warnings.iter().any(|warning| warning.part == TurnPart::Calls);
        if let Some(why) = report.unread_beside.clone().filter(|_| !is_told) {
            warnings.push(LayoutWarning { part: TurnPart::Calls, is_read: true, why });
        }
        // Without calls, there is nothing to report about their parts. A reason for all of them is
        // reported once.
        if let Some(calls) = warnings.iter().find(|warning| warning.part == TurnPart::Calls).cloned() {
            let is_of_calls =
                |part: TurnPart| matches!(part, TurnPart::ParallelCalls | TurnPart::Arguments | TurnPart::Ids);
            let is_said = |warning: &LayoutWarning| !calls.is_read || warning.why == calls.why;
            warnings.retain(|warning| !(is_of_calls(warning.part) && is_said(warning)));
        }
        warnings
    }
}
