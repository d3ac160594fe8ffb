use std::sync::Arc;

use rolecall::Origin;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, object};
use rolecall::format::{Format, Op, Slot, load, shared_calls};
use rolecall::infer::infer;
use rolecall::infer::{Outcome, Part};
use rolecall::loss::{LossPolicy, spans as loss_spans};
use rolecall::parse::{ParseOptions, Reply};
use rolecall::render::{Options, RuleMode, render};

use super::message::{Places, Said};
use crate::{FolderTemplates, generate};

/// A format whose replies are written and read.
pub struct Subject {
    /// What it is called in a failure.
    pub label: String,
    /// What writes.
    pub format: Arc<Format>,
    /// What reads.
    pub reply: Arc<Reply>,
    /// What it has a place for.
    pub places: Places,
    /// What a text could spell to look like the format's own.
    pub marks: Vec<String>,
    /// What must be read as it was written.
    pub promise: Promise,
}

/// What a format promises to read as it was written.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// White space at the ends of texts too.
    pub white_space: bool,
    /// Reasoning.
    pub reasoning: bool,
    /// Calls.
    pub calls: bool,
    /// Several calls.
    pub parallel_calls: bool,
}

impl Promise {
    /// Everything, which is what a format here promises.
    pub const ALL: Promise = Promise { white_space: true, reasoning: true, calls: true, parallel_calls: true };

    /// Whether this message is promised.
    pub fn has(&self, said: &Said) -> bool {
        let calls = said.message.get("tool_calls").and_then(Json::as_array).map_or(0, <[Json]>::len);
        let reasoning = said.message.get("reasoning_content").is_some();
        (self.reasoning || !reasoning) && (self.calls || calls == 0) && (self.parallel_calls || calls < 2)
    }
}

/// A reply as a format writes it.
#[derive(Clone, Debug)]
pub struct Written {
    /// How the prompt ended.
    pub prompt_tail: String,
    /// What the model writes, in pieces, and which of them are control tokens.
    pub pieces: Vec<(String, bool)>,
}

impl Written {
    /// What the model writes.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// Its pieces, and which of them are control tokens.
    pub fn tokens(&self) -> Vec<(&str, bool)> {
        self.pieces.iter().map(|(text, is_control)| (text.as_str(), *is_control)).collect()
    }
}

impl Subject {
    /// A format, if it has calls or reasoning.
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
        marks.sort();
        marks.dedup();
        let reply = Arc::new(Reply::new(&format));
        Some(Subject { label, reply, places, marks, format: Arc::new(format), promise: Promise::ALL })
    }

    /// Writes what was said as a model of this format would.
    pub fn write(&self, said: &Said) -> Result<Written, String> {
        let user = object! { "role" => "user", "content" => "Please." };
        let has_user = [Slot::User, Slot::UserFirst].into_iter().any(|slot| self.format.layout(slot).is_some());
        let messages = if has_user { vec![user, said.message.clone()] } else { vec![said.message.clone()] };
        let messages: Vec<Json> = messages.into_iter().map(Json::Object).collect();
        let mut request = Object::new();
        request.insert("messages", Json::Array(messages));
        let conversation = Conversation::from_json(Json::Object(request)).map_err(|error| error.to_string())?;
        let options = |rules| Options { rules, ..Options::default() };
        let prompt = render(&conversation, &self.format, &options(RuleMode::Enforce))
            .or_else(|_| render(&conversation, &self.format, &options(RuleMode::Reference)))
            .map_err(|error| error.to_string())?;
        let spans =
            loss_spans(&prompt, &conversation, &self.format, LossPolicy::Last).map_err(|error| error.to_string())?;
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
            return Err("nothing is written".to_owned());
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

    /// The generation prompt's fixed text.
    fn opening(&self) -> String {
        let ops = self.format.layout(Slot::Generate).map_or(&[][..], |layout| layout.ops());
        let each = ops.iter().map(|op| match op {
            Op::Literal(text) => text.as_str(),
            Op::Control(id) => self.format.controls[id.0].text.as_str(),
            _ => "",
        });
        each.collect()
    }

    /// How a reply is read.
    pub fn options(&self, said: &Said, prompt_tail: &str) -> ParseOptions {
        ParseOptions { tools: said.tools(), prompt_tail: prompt_tail.to_owned(), ..ParseOptions::default() }
    }
}

/// Where the model's text begins, when it is to begin at that place: a prompt ends behind a whole token, and a turn that opens otherwise
/// than the generation prompt may part from it inside one.
fn whole_tokens(prompt: &str, at: usize) -> usize {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '>' | ']' | ':');
    prompt[..at].char_indices().rev().find(|(_, c)| is_end(*c)).map_or(0, |(end, c)| end + c.len_utf8())
}

/// The literal texts of a layout.
fn literals(ops: &[Op]) -> Vec<String> {
    let each = ops.iter().flat_map(|op| match op {
        Op::Literal(text) => vec![text.clone()],
        Op::Group(inner) => literals(inner),
        _ => Vec::new(),
    });
    each.collect()
}

/// What a reader may take for a mark of its own: every part of a mark that begins and ends where a tag or a line does.
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

/// Every format here that has calls or reasoning, and every call layout that formats share.
pub fn built_in() -> Vec<Subject> {
    let registry = rolecall::format::registry();
    let formats = registry.iter().map(|format| (format.name.clone(), format.clone()));
    let shared = shared_calls().filter_map(|(name, source)| Some((format!("calls/{name}"), load(source).ok()?)));
    formats.chain(shared).filter_map(|(label, format)| Subject::new(label, format)).collect()
}

/// Every template of a folder, by the layout that is inferred from it, if that has calls or reasoning. What the inference is not sure
/// of is not promised.
pub fn inferred(templates: &FolderTemplates) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for (label, template) in &templates.compiled {
        let inferred = infer(template);
        let is_sure = |part| matches!(inferred.report.outcome(part), Some(Outcome::Verified { .. }));
        let promise = Promise {
            white_space: false,
            reasoning: is_sure(Part::Reasoning),
            calls: is_sure(Part::Calls) && is_sure(Part::Arguments) && has_marked_strings(&inferred.format),
            parallel_calls: is_sure(Part::ParallelCalls),
        };
        subjects.extend(Subject::new(label.clone(), inferred.format).map(|subject| Subject { promise, ..subject }));
    }
    subjects
}

/// Whether a string among the arguments ends in something of the format: where it does not, `x=true` may be either.
fn has_marked_strings(format: &Format) -> bool {
    let layout = format.layout(Slot::ArgumentString);
    layout.is_none_or(|layout| !matches!(layout.ops().last(), Some(Op::Hole { .. })))
}
