//! Replies of families whose makers ship a parser instead of a template, read with the reply format
//! of the family. The maker's parser is strict: it refuses anything that its encoder would not
//! write exactly like this.
//!
//! - A reply that the reference accepts is read the same way, and nothing is malformed.
//! - A reply that it refuses is read as one of the lenient parsers of serving engines reads it, or
//!   is reported, or ours finds more calls than any of them. In every case, no text is lost.
//! - Without a reference, there are the results of serving parsers: ours equals one of them, or the
//!   reply is reported.

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::format::Format;
use rolecall::parse::Malformed;

use super::reading::{Read, read_every_way};
use super::replies::{Said, is_all_said, strictly, written};
use super::{Context, text};
use crate::Verdict;

const UNWRAPPED: &str = "the parsers want the marker around all calls; ours reads a call without it";
const DROPPED: &str = "the serving parsers drop calls after the first section; ours keeps them";

pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    let format = match context.reply_formats.get(text(row, "family")) {
        Ok(format) => format,
        Err(_) => return Verdict::Pending("there is no reply format of this family yet"),
    };
    let tail = match tail(row, &format) {
        Ok(tail) => tail,
        Err(verdict) => return verdict,
    };
    let output = text(row, "completion");
    let read = match read_every_way(&format, strictly(tail), output) {
        Ok(read) => read,
        Err(verdict) => return verdict,
    };
    judge(row, &format, output, &read)
}

/// Returns the end of the prompt: what the format's layout `generate` writes for the row's switch.
/// The maker's encoder opens reasoning if the switch is on; otherwise it closes reasoning or opens
/// the answer.
fn tail(row: &Object, format: &Format) -> Result<String, Verdict> {
    let options = row.get("options").and_then(Json::as_object).cloned().unwrap_or_default();
    let thinks = match (options.get("thinking"), text(&options, "thinking_mode")) {
        (Some(Json::Bool(thinks)), _) => *thinks,
        (None, "thinking") => true,
        (None, "chat") => false,
        _ => return Err(Verdict::cannot_run("the row does not say whether the model reasons")),
    };
    super::replies::tail(format, thinks).map_err(Verdict::cannot_run)
}

fn judge(row: &Object, format: &Format, output: &str, read: &Read) -> Verdict {
    let ours = Said::of_reading(&read.reading);
    let misread = |expected: String| Verdict::Misread {
        expected,
        found: format!("{}\n{}", written(&ours), read.transcript),
        output: output.to_owned(),
    };
    let reported = !read.reading.malformed.is_empty();
    if !is_all_said(output, &read.reading, format) {
        return misread("every character of the output".into());
    }
    if let Some(Json::Object(expected)) = row.get("expected") {
        let expected = Said::of_message(expected);
        // A call that is cut off does not count as a call, and must be reported.
        let is_cut = ours.calls.len() < read.reading.calls.len();
        // Serving parsers, whose result this is if there are several, take any value without a word.
        let is_of_model = |malformed: &Malformed| malformed.why.is_of_model();
        let may_be_reported = row.get("opinions").is_some() && read.reading.malformed.iter().all(is_of_model);
        return match ours.means(&expected) {
            true if reported == is_cut || may_be_reported => Verdict::Passed,
            true => misread(format!("{}, malformed only if a call is cut off", written(&expected))),
            // The reference of such a row is the result on which serving parsers agree.
            false if row.get("opinions").is_some() && holds(&ours, &expected) && !reported => Verdict::Excused(DROPPED),
            false => misread(written(&expected)),
        };
    }
    let opinions = ["lenient", "opinions"].into_iter().filter_map(|key| row.get(key)?.as_object());
    let opinions: Vec<Said> = opinions
        .flat_map(|opinions| opinions.iter().filter_map(|(_, opinion)| opinion.as_object()))
        .map(|opinion| without_stops(&Said::of_message(opinion), format))
        .collect();
    if row.get("error").is_none() && opinions.is_empty() {
        return Verdict::cannot_run("the row has no expectation");
    }
    // These parsers are given the text after the reasoning, or all of it if it is not closed. Some
    // strip white space.
    let answer = if ours.content.is_empty() { &ours.reasoning } else { &ours.content };
    let is_opinion = opinions.iter().any(|opinion| {
        [answer, &ours.content].iter().any(|text| text.trim() == opinion.content.trim())
            && Said { content: ours.content.clone(), reasoning: ours.reasoning.clone(), ..opinion.clone() }.means(&ours)
    });
    // A call that is complete needs no marker around it.
    let reads_more = opinions.iter().all(|opinion| opinion.calls.len() < ours.calls.len());
    match reported || is_opinion {
        true => Verdict::Passed,
        false if reads_more && ours.content.trim().is_empty() => Verdict::Excused(UNWRAPPED),
        false => misread(format!("a report, or one of {:?}", opinions.iter().map(written).collect::<Vec<_>>())),
    }
}

/// Reports whether one reply has everything that another has, and more calls.
fn holds(more: &Said, less: &Said) -> bool {
    let shared = less.calls.len().min(more.calls.len());
    let first = Said { calls: more.calls[..shared].to_vec(), ..more.clone() };
    more.calls.len() > less.calls.len() && first.means(less)
}

fn without_stops(said: &Said, format: &Format) -> Said {
    let content = format.stops().iter().fold(said.content.clone(), |text, stop| text.replace(stop, ""));
    Said { content, ..said.clone() }
}
