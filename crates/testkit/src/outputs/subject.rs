use std::sync::Arc;

use rolecall::Origin;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::format::{Codec, Format, Op, Slot, is_clear_tag, load, reply_files, shared_calls};
use rolecall::infer::infer;
use rolecall::infer::{Outcome, TurnPart};
use rolecall::loss::LossPolicy;
use rolecall::parse::{ParseOptions, Reply};
use rolecall::render::{Options, RuleMode, Writer};

use super::markers::own_markers;
use super::message::{Places, Said};
use super::words::LayoutWords;
use crate::{FolderTemplates, generate};

/// A format whose replies are written and parsed.
pub struct Subject {
    /// The name of the format in failures.
    pub label: String,
    /// The format that writes the replies.
    pub format: Arc<Format>,
    /// The compiled reply that parses them.
    pub reply: Arc<Reply>,
    /// The parts of a turn for which the format has a place.
    pub places: Places,
    /// The texts that could pass for the format's own.
    pub marks: Vec<String>,
    /// The tags among them that must not remain in the content without a report.
    pub own: Vec<String>,
    /// The words that the format's layouts write.
    pub words: LayoutWords,
    /// The messages that must be parsed as they were written.
    pub promise: Promise,
}

/// The parts of a message that a format promises to parse as they were written.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// White space at the ends of texts.
    pub white_space: bool,
    /// Reasoning.
    pub reasoning: bool,
    /// Calls.
    pub calls: bool,
    /// Several calls.
    pub parallel_calls: bool,
    /// Backslashes in the arguments of calls. A layout that writes strings unchanged between the
    /// quotes of a call in Python does not promise them, because there they begin escapes.
    pub backslashes: bool,
}

impl Promise {
    /// A promise of everything, as built-in formats make.
    pub const ALL: Promise =
        Promise { white_space: true, reasoning: true, calls: true, parallel_calls: true, backslashes: true };

    /// Reports whether the promise covers this message.
    pub fn has(&self, said: &Said) -> bool {
        let calls = said.message.get("tool_calls").and_then(Json::as_array).map_or(0, <[Json]>::len);
        let reasoning = said.message.get("reasoning_content").is_some();
        let has_backslash = || {
            said.message
                .get("tool_calls")
                .is_some_and(|calls| json::write(calls, &json::Layout::default()).contains(r"\\"))
        };
        (self.reasoning || !reasoning)
            && (self.calls || calls == 0)
            && (self.parallel_calls || calls < 2)
            && (self.backslashes || !has_backslash())
    }
}

/// A reply as written by a format.
#[derive(Clone, Debug)]
pub struct Written {
    /// The end of the prompt.
    pub prompt_tail: String,
    /// The text of the model in pieces, each flagged if it is a control token.
    pub pieces: Vec<(String, bool)>,
}

impl Written {
    /// Returns the text of the model.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// Returns the pieces, each flagged if it is a control token.
    pub fn tokens(&self) -> Vec<(&str, bool)> {
        self.pieces.iter().map(|(text, is_control)| (text.as_str(), *is_control)).collect()
    }
}

impl Subject {
    /// Creates a subject for a format, if it has calls or reasoning.
    pub fn new(label: String, format: Format) -> Option<Subject> {
        let places = Places::of(&format);
        if places.calls == 0 && !places.reasoning {
            return None;
        }
        let slots: Vec<Slot> = Slot::ALL.into_iter().filter(|slot| slot.is_reply()).collect();
        let layouts = slots.iter().filter_map(|slot| Some((*slot, format.layout(*slot)?.ops().to_vec())));
        let mut own = Format::new("reply");
        own.controls = Arc::clone(&format.controls);
        let own = own.with_layouts(layouts.collect::<Vec<_>>());
        let mut marks = generate::marks(&own);
        let literals = slots.into_iter().filter_map(|slot| Some(literals(own.layout(slot)?.ops())));
        for literal in literals.flatten() {
            marks.extend(parts(&literal).map(str::to_owned));
        }
        marks.extend(format.generation.stop.iter().cloned());
        let others = format.habits.other_marks.iter().filter(|mark| is_clear_tag(mark));
        marks.extend(others.clone().cloned());
        let own = own_markers(&format).into_iter().chain(others.cloned()).collect();
        marks.sort();
        marks.dedup();
        let reply = Arc::new(Reply::new(&format));
        Some(Subject {
            label,
            reply,
            places,
            marks,
            own,
            words: LayoutWords::of(&format),
            promise: Promise { backslashes: !has_python_strings(&format), ..Promise::ALL },
            format: Arc::new(format),
        })
    }

    /// Writes a message as a model of this format would.
    pub fn write(&self, said: &Said) -> Result<Written, String> {
        let user = object! { "role" => "user", "content" => "Please." };
        let has_user = [Slot::User, Slot::UserFirst].into_iter().any(|slot| self.format.layout(slot).is_some());
        let messages = if has_user { vec![user, said.message.clone()] } else { vec![said.message.clone()] };
        let messages: Vec<Json> = messages.into_iter().map(Json::Object).collect();
        let mut request = Object::new();
        request.insert("messages", Json::Array(messages));
        let conversation = Conversation::from_json(Json::Object(request)).map_err(|error| error.to_string())?;
        let options = |rules| Options { rules, ..Options::default() };
        let prompt = Writer::format(self.format.clone(), options(RuleMode::Enforce).clone())
            .render(&conversation)
            .or_else(|_| {
                Writer::format(self.format.clone(), options(RuleMode::Reference).clone()).render(&conversation)
            })
            .map_err(|error| error.to_string())?;
        let spans = Writer::format(self.format.clone(), Options::default())
            .loss(&prompt, &conversation, &[], &LossPolicy::last())
            .map(|loss| loss.ranges())
            .map_err(|error| error.to_string())?;
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
            return Err("the format writes nothing for this message".to_owned());
        };
        let opening: String = self.opening();
        let first = match prompt.text()[..first.start].ends_with(&opening) {
            true => first.start..last.end,
            false => whole_tokens(prompt.text(), first.start)..last.end,
        };
        let pieces = prompt.segments_in(first.clone());
        let pieces = pieces.map(|piece| (piece.text.to_owned(), matches!(piece.origin, Origin::Control(_))));
        Ok(Written { prompt_tail: prompt.text()[..first.start].to_owned(), pieces: pieces.collect() })
    }

    /// Returns the fixed text of the generation prompt.
    fn opening(&self) -> String {
        let ops = self.format.layout(Slot::Generate).map_or(&[][..], |layout| layout.ops());
        let each = ops.iter().map(|op| match op {
            Op::Literal(text) => text.as_str(),
            Op::Control(id) => self.format.controls[id.0].text.as_str(),
            _ => "",
        });
        each.collect()
    }

    /// Returns the options for parsing a reply.
    pub fn options(&self, said: &Said, prompt_tail: &str) -> ParseOptions {
        ParseOptions { tools: said.tools(), prompt_tail: prompt_tail.to_owned(), ..ParseOptions::default() }
    }
}

/// Returns where the model's text begins, at or before this position. A prompt ends after a whole
/// token, but a turn that opens differently from the generation prompt may diverge from it inside a
/// token.
fn whole_tokens(prompt: &str, at: usize) -> usize {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '>' | ']' | ':');
    prompt[..at].char_indices().rev().find(|(_, c)| is_end(*c)).map_or(0, |(end, c)| end + c.len_utf8())
}

/// Returns the literal texts of a layout.
fn literals(ops: &[Op]) -> Vec<String> {
    let each = ops.iter().flat_map(|op| match op {
        Op::Literal(text) => vec![text.clone()],
        Op::Group(inner) => literals(inner),
        _ => Vec::new(),
    });
    each.collect()
}

/// Returns everything that a parser may take for a marker: every part of a literal text that begins
/// and ends at the border of a tag or a line.
fn parts(mark: &str) -> impl Iterator<Item = &str> {
    let starts = mark.match_indices(['<', '[', '\n']).map(|(at, _)| at);
    let ends = mark.match_indices(['>', ']', '\n']).map(|(at, _)| at + 1);
    let mut borders: Vec<usize> = starts.chain(ends).chain([0, mark.len()]).collect();
    borders.sort_unstable();
    borders.dedup();
    let all: Vec<&str> = borders
        .iter()
        .enumerate()
        .flat_map(|(at, start)| borders[at + 1..].iter().map(|end| &mark[*start..*end]))
        .collect();
    all.into_iter().filter(|part| part.len() > 1 && !part.trim().is_empty())
}

/// Returns every built-in format that has calls or reasoning, and every shared call layout.
pub fn built_in() -> Vec<Subject> {
    let registry = rolecall::format::registry();
    let formats = registry.iter().map(|format| (format.name.clone(), Format::clone(format)));
    let calls = shared_calls().map(|(name, source)| (format!("calls/{name}"), source));
    let replies = reply_files().map(|(name, source)| (format!("replies/{name}"), source));
    let shared = calls.chain(replies).filter_map(|(name, source)| Some((name, load(source).ok()?)));
    formats.chain(shared).filter_map(|(label, format)| Subject::new(label, format)).collect()
}

/// Returns the layouts inferred from the templates of a folder that have calls or reasoning, with
/// the corrections of their families. The promise covers only what the inference verified.
pub fn inferred(templates: &FolderTemplates) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for (label, template) in &templates.compiled {
        let inferred = infer(template);
        let is_sure = |part| matches!(inferred.report.outcome(part), Some(Outcome::Verified { .. }));
        let promise = Promise {
            white_space: false,
            reasoning: is_sure(TurnPart::Reasoning),
            calls: is_sure(TurnPart::Calls) && is_sure(TurnPart::Arguments) && has_marked_strings(&inferred.format),
            parallel_calls: is_sure(TurnPart::ParallelCalls),
            backslashes: !has_python_strings(&inferred.format),
        };
        let (format, _) = inferred.format.corrected(template.source());
        subjects.extend(Subject::new(label.clone(), format).map(|subject| Subject { promise, ..subject }));
    }
    subjects
}

/// Reports whether strings are written unchanged between the quotes of a call in Python.
fn has_python_strings(format: &Format) -> bool {
    let closes_call = |op: &Op| matches!(op, Op::Literal(text) if text.starts_with(')'));
    let call = format.layout(Slot::Call).is_some_and(|layout| layout.ops().iter().any(closes_call));
    let string = format.layout(Slot::ArgumentString).map(|layout| layout.ops());
    let is_raw = |ops: &[Op]| match ops {
        [Op::Hole { .. }, Op::Literal(open), Op::Hole { codec: Codec::Text, .. }, ..] => open.starts_with('='),
        _ => false,
    };
    call && string.is_some_and(is_raw)
}

/// Reports whether a string among the arguments ends in a marker. Without one, `x=true` may be a
/// string or a boolean.
fn has_marked_strings(format: &Format) -> bool {
    let layout = format.layout(Slot::ArgumentString);
    layout.is_none_or(|layout| !matches!(layout.ops().last(), Some(Op::Hole { .. })))
}
