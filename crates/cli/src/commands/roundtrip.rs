//! `rolecall roundtrip`: renders each assistant message, parses it back and compares the two.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Bound;
use std::path::Path;

use rolecall::conversation::{Conversation, Json, Role, object};
use rolecall::dataset;
use rolecall::parse::ParseOptions;
use rolecall::roundtrip::{DifferenceKind, FieldDifference, differences};
use rolecall::training::check_replies;
use rolecall::{Origin, Prompt, Reading, Request, Stop, answer};
use rolecall_text::common_prefix;

use crate::args::Roundtrip;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::job::{only_request, refused};
use crate::output::Output;
use crate::paint::{Paint, Style};
use crate::reading::ParseRun;
use crate::refusal::Refusal;
use crate::visible::escape;

/// A message and the result of its round trip.
struct Trip {
    message: usize,
    /// The output that the model would have written.
    output: String,
    reading: Reading,
    differences: Vec<FieldDifference>,
}

impl Trip {
    /// Reports whether the message was parsed as it was written.
    fn is_same(&self) -> bool {
        let changed = |difference: &FieldDifference| difference.kind == DifferenceKind::Changed;
        !self.differences.iter().any(changed) && self.reading.malformed.is_empty()
    }
}

pub fn run(args: &Roundtrip, output: &Output) -> Result<Exit, Failure> {
    let reader = ParseRun::new(&args.layouts, None, output)?;
    let source = files::read_text(args.input.as_deref().unwrap_or(Path::new("-")))?;
    let samples = dataset::read(&source.text, None).map_err(Refusal::from);
    let request = samples.and_then(|(_, samples)| only_request(samples));
    let trips = request.and_then(|request| {
        check_replies(&request.conversation, source.text.len())?;
        let trips = trips(&reader, &request)?;
        reader.warn_about(&request, output)?;
        Ok(trips)
    });
    let trips = trips.map_err(|refusal| refused(refusal, &source))?;
    let same = trips.iter().all(Trip::is_same);
    if args.json {
        let messages: Vec<Json> = trips.iter().map(of_trip).collect();
        output.write_json(&Json::Object(object! { "same" => same, "messages" => messages }))?;
    } else {
        output.write(&draw(&trips, output.paint))?;
    }
    Ok(if same { Exit::Good } else { Exit::Refused })
}

fn trips(reader: &ParseRun, request: &Request) -> Result<Vec<Trip>, Refusal> {
    let messages = &request.conversation.messages;
    let spoken = (0..messages.len()).filter(|at| *messages[*at].role() == Role::Assistant);
    spoken.map(|at| trip(reader, request, at)).collect()
}

/// Renders the conversation with and without a message. The text that is only in the first is what
/// the model writes.
fn trip(reader: &ParseRun, request: &Request, at: usize) -> Result<Trip, Refusal> {
    let up_to = |end: usize, generation: bool| {
        let conversation = &request.conversation;
        // Copy only the messages that are needed.
        let conversation = Conversation {
            messages: conversation.messages[..end].to_vec(),
            tools: conversation.tools.clone(),
            documents: conversation.documents.clone(),
            add_generation_prompt: Some(generation),
            continue_final_message: false,
            template_kwargs: conversation.template_kwargs.clone(),
        };
        let (id, format, other) = (request.id.clone(), request.format.clone(), request.other.clone());
        reader.job.prompt_of(Request { id, format, conversation, other })
    };
    let whole = up_to(at + 1, false)?;
    let before = match at {
        // Some formats and templates refuse an empty conversation.
        0 => up_to(0, true).map_or(String::new(), |prompt| prompt.text().to_owned()),
        _ => up_to(at, true)?.text().to_owned(),
    };
    // Some generation prompts open something that the template does not write for a given answer.
    let shared = common_prefix(&before, whole.text());
    let (tail, written) = whole.text().split_at(shared);
    let context = reader.job.model.reply_context_after(whole.request(), tail, ParseOptions::default())?;
    let (mut parser, mut reading) = (context.text_parser(), Reading::default());
    parser.push_text(written, &mut |event| reading.add(&event));
    parser.finish(Stop::End, &mut |event| reading.add(&event));
    let message = &request.conversation.messages[at];
    let fields = fields_written(whole.prompt(), at);
    let differences = differences(message, &reading, |field| is_written(&fields, field));
    Ok(Trip { message: at, output: written.to_owned(), reading, differences })
}

/// Returns the fields of a message that occur in a prompt.
fn fields_written(prompt: &Prompt, at: usize) -> BTreeSet<String> {
    let fields = prompt.segments().filter_map(|segment| match segment.origin {
        Origin::Message { message, field } if message == at => Some(field.into_owned()),
        _ => None,
    });
    fields.collect()
}

/// Reports whether one of the fields is at a path or inside it.
fn is_written(fields: &BTreeSet<String>, path: &str) -> bool {
    fields
        .range::<str, _>((Bound::Included(path), Bound::Unbounded))
        .next()
        .is_some_and(|field| field.starts_with(path))
}

/// `{"index", "output", "same", "read": {"message", ..}, "differences": [{"field", "kind", "said", "read"}]}`
fn of_trip(trip: &Trip) -> Json {
    let differences = trip.differences.iter().map(|difference| {
        Json::Object(object! {
            "field" => difference.field.as_str(), "kind" => difference.kind.code(),
            "said" => difference.said.as_str(), "read" => difference.read.as_str(),
        })
    });
    Json::Object(object! {
        "index" => trip.message as i64,
        "output" => trip.output.as_str(),
        "same" => trip.is_same(),
        "read" => answer::of_reading(None, &trip.reading),
        "differences" => differences.collect::<Vec<Json>>(),
    })
}

fn draw(trips: &[Trip], paint: Paint) -> String {
    let mut page = String::new();
    if trips.is_empty() {
        page.push_str("no assistant messages\n");
    }
    for trip in trips {
        let (style, verdict) = match (trip.is_same(), trip.differences.is_empty()) {
            (true, true) => (Style::Strong, "parsed back unchanged"),
            (true, false) => (Style::Strong, "parsed back, except for what the layout cannot represent"),
            (false, _) => (Style::Error, "parsed differently"),
        };
        let _ = write!(page, "message {}: ", trip.message);
        paint.push(&mut page, style, verdict);
        page.push_str("\n  ");
        paint.push(&mut page, Style::Frame, "output");
        let _ = writeln!(page, "  {}", escape(&trip.output));
        for difference in &trip.differences {
            let why = match difference.kind {
                DifferenceKind::WhiteSpace => "white space at the ends differs",
                DifferenceKind::NotWritten => "the layout does not write it",
                DifferenceKind::Changed => "changed",
            };
            let _ = writeln!(page, "  {}: {why}", escape(&difference.field));
            let _ = writeln!(page, "    written  {}", escape(&difference.said));
            let _ = writeln!(page, "    parsed   {}", escape(&difference.read));
        }
        for malformed in &trip.reading.malformed {
            let span = &malformed.span;
            let _ =
                writeln!(page, "  malformed at {}..{}: {}", span.start, span.end, escape(&malformed.why.to_string()));
        }
    }
    page
}
