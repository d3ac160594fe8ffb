//! The law that no marker is left in the content without a report.

use rolecall::format::{Format, Op, Slot};
use rolecall::parse::{Malformed, Why};

use super::laws::{Broken, Reader};
use super::log::{Log, Seen};

impl Reader<'_> {
    /// Checks that each of the format's own markers in the content lies in a malformed span, unless
    /// it is in backticks.
    pub(super) fn reports_markers(&self, text: &str, log: &Log) -> Result<(), Broken> {
        let spans: Vec<_> = log
            .seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Malformed(malformed) => Some(malformed.span.start as usize..malformed.span.end as usize),
                _ => None,
            })
            .collect();
        let runs = runs(log);
        for mark in &self.subject.own {
            let left: usize = runs.iter().map(|run| unquoted(run, mark)).sum();
            if left == 0 {
                continue;
            }
            let is_reported = |at: &usize| spans.iter().any(|span| span.start < at + mark.len() && *at < span.end);
            let reported = text.match_indices(mark.as_str()).filter(|(at, _)| is_reported(at)).count();
            // Text that was read as another marker may be left out of the middle of this one. The
            // report may name a shorter marker with which this one begins.
            let is_apart = |seen: &&Seen| match seen {
                Seen::Malformed(Malformed {
                    span,
                    why: Why::StrayMarker(known) | Why::OtherSyntax { mark: known, .. },
                }) => {
                    let begun = common(&text[span.start as usize..], mark);
                    let is_cut = span.end - span.start > known.len() as u64 || begun > known.len();
                    mark.starts_with(known.as_str()) && is_cut && begun < mark.len()
                }
                // What is reported is the beginning of this one.
                Seen::Malformed(Malformed { span, .. }) => {
                    let said = &text[span.start as usize..span.end as usize];
                    !said.is_empty() && said.len() < mark.len() && mark.starts_with(said)
                }
                _ => false,
            };
            let apart = log.seen.iter().filter(is_apart).count();
            if left > reported + apart {
                return Err(Broken {
                    law: "no marker is left in the content without a report",
                    output: text.to_owned(),
                    what: format!("{mark:?} occurs {left} times, {reported} are reported\n  {:?}", log.seen),
                });
            }
        }
        Ok(())
    }
}

/// Returns how many bytes two texts have in common at their start.
fn common(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// Returns the stretches of content that nothing but reports interrupts.
fn runs(log: &Log) -> Vec<String> {
    let mut runs: Vec<String> = Vec::new();
    let mut is_open = false;
    for seen in &log.seen {
        match seen {
            Seen::Content(text) if is_open => runs.last_mut().expect("one is open").push_str(text),
            Seen::Content(text) => {
                runs.push(text.clone());
                is_open = true;
            }
            // Reasoning that becomes content leaves out the marker that opened it.
            Seen::Malformed(Malformed { why: Why::UnclosedReasoning, .. }) => is_open = false,
            Seen::Malformed(_) => {}
            _ => is_open = false,
        }
    }
    runs
}

/// Counts the occurrences of a marker that are not in backticks.
fn unquoted(text: &str, mark: &str) -> usize {
    let is_quoted = |at: usize| text[..at].ends_with('`') && text[at + mark.len()..].starts_with('`');
    text.match_indices(mark).filter(|(at, _)| !is_quoted(*at)).count()
}

/// Returns the markers of a format's replies that are tags: what the layouts write in angle
/// brackets, and capitals in square brackets. Other text of a layout is ordinary text elsewhere.
pub(super) fn own_markers(format: &Format) -> Vec<String> {
    let mut texts = Vec::new();
    for slot in Slot::ALL.into_iter().filter(|slot| slot.is_reply()) {
        collect(format.layout(slot).map_or(&[][..], |layout| layout.ops()), format, &mut texts);
    }
    let mut marks: Vec<String> = texts.iter().flat_map(|text| tags(text)).collect();
    marks.sort();
    marks.dedup();
    marks
}

fn collect(ops: &[Op], format: &Format, texts: &mut Vec<String>) {
    for op in ops {
        match op {
            Op::Literal(text) => texts.push(text.clone()),
            Op::Control(id) => texts.push(format.controls[id.0].text.clone()),
            Op::Group(inner) => collect(inner, format, texts),
            _ => {}
        }
    }
}

fn tags(text: &str) -> Vec<String> {
    let mut tags = Vec::new();
    for (open, close) in [('<', '>'), ('[', ']')] {
        for (start, _) in text.match_indices(open) {
            let Some(length) = text[start..].find(close).map(|at| at + close.len_utf8()) else { continue };
            let tag = &text[start..start + length];
            let inside = &tag[1..tag.len() - close.len_utf8()];
            let is_tag = match open {
                '<' => inside.contains(char::is_alphabetic) && !inside.contains(['<', '{', '`', ' ', '\n']),
                _ => inside.len() >= 2 && inside.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c == '/'),
            };
            if is_tag {
                tags.push(tag.to_owned());
            }
        }
    }
    tags
}
