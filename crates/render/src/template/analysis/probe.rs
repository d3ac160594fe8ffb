use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rolecall_conversation::json::{self, Layout, Object};
use rolecall_conversation::{Conversation, Json};
use rolecall_jinja as jinja;

use super::super::adapt::ReplacementValues;
use super::super::prepare::Inputs;
use super::super::written::source_of;
use super::super::{ChatTemplate, TemplateOptions};
use super::{BosUse, ProbeBudget};
use crate::account::ENTITIES;
use crate::{Error, Origin};

/// Renders short conversations through a template, each only once.
pub(super) struct Probe<'t> {
    template: &'t ChatTemplate,
    options: TemplateOptions,
    budget: &'t ProbeBudget,
    known: RefCell<HashMap<String, Outcome>>,
}

/// The outcome of rendering a conversation.
pub(super) type Outcome = Result<Rc<ProbedPrompt>, ProbeRefusal>;

/// The reason why a conversation could not be rendered.
#[derive(Clone, Debug)]
pub(super) struct ProbeRefusal {
    /// Whether the template itself refused the conversation.
    pub is_own: bool,
    pub words: String,
}

/// The maximum number of steps for one conversation of a few words. Real templates take a
/// thousandth of it.
const MOST_STEPS: u64 = 100_000;
/// The maximum number of bytes of its output.
const MOST_BYTES: usize = 1 << 20;

/// A rendered conversation.
pub(super) struct ProbedPrompt {
    pub text: String,
    pub pieces: Vec<ProbedPiece>,
}

pub(super) struct ProbedPiece {
    pub start: usize,
    pub end: usize,
    /// The origin in the conversation, or `None` for the template's own text.
    pub origin: Option<Origin>,
    /// The position in the template, as an offset into its source in bytes.
    pub at: Option<usize>,
}

/// An arbitrary day, for templates that write the date.
const NOON: jinja::DateTime =
    jinja::DateTime { year: 2024, month: 7, day: 26, hour: 12, minute: 0, second: 0, microsecond: 0 };

impl<'t> Probe<'t> {
    pub fn new(template: &'t ChatTemplate, options: &TemplateOptions, budget: &'t ProbeBudget) -> Probe<'t> {
        let mut options = TemplateOptions { now: options.now.or(Some(NOON)), ..options.clone() };
        options.limits.instructions = options.limits.instructions.min(MOST_STEPS);
        options.limits.output_bytes = options.limits.output_bytes.min(MOST_BYTES);
        Probe { template, options, budget, known: RefCell::default() }
    }

    /// Renders a conversation that is written as JSON: its messages, and then the other fields of
    /// the request.
    pub fn run(&self, messages: &[&str], rest: &str) -> Outcome {
        self.run_with(messages, rest, &Object::new())
    }

    /// Renders a conversation with switches.
    pub fn run_with(&self, messages: &[&str], rest: &str, switches: &Object) -> Outcome {
        let comma = if rest.is_empty() { "" } else { ", " };
        let switches = json::write(&Json::Object(switches.clone()), &Layout::default());
        let messages = messages.join(", ");
        let request = format!(r#"{{"messages": [{messages}], "chat_template_kwargs": {switches}{comma}{rest}}}"#);
        if let Some(known) = self.known.borrow().get(&request) {
            return known.clone();
        }
        let outcome = self.render(&request).map(Rc::new);
        self.known.borrow_mut().insert(request, outcome.clone());
        outcome
    }

    fn render(&self, request: &str) -> Result<ProbedPrompt, ProbeRefusal> {
        let other = |words: String| ProbeRefusal { is_own: false, words };
        let request = json::parse(request).map_err(|error| other(error.to_string()))?;
        let conversation = Conversation::from_json(request).map_err(|error| other(error.to_string()))?;
        let adapted = ReplacementValues::default();
        let ran = super::super::run(&conversation, self.template, &self.options, &adapted, Some(self.budget));
        let (inputs, output, program) = ran.map_err(|error| match error {
            Error::Template { error, .. } => {
                ProbeRefusal { is_own: error.kind() == jinja::ErrorKind::Rejected, words: error.message().to_owned() }
            }
            error => other(error.to_string()),
        })?;
        Ok(ProbedPrompt::new(&inputs, &output, &program))
    }

    /// Reports whether a prompt has an HTML entity that the template does not spell itself.
    pub fn escapes(&self, text: &str) -> bool {
        ENTITIES.iter().any(|(entity, _)| text.contains(entity) && !self.template.source().contains(entity))
    }

    /// Converts an offset into the template's source to a position.
    pub fn spot(&self, at: usize) -> jinja::Spot {
        self.template.program.spot(at)
    }

    /// Returns how the template handles the BOS token.
    pub fn bos(&self) -> BosUse {
        let token = self.template.tokens.iter().find(|(name, bos)| name == "bos_token" && !bos.is_empty());
        let Some((_, bos)) = token else { return BosUse::NoToken };
        let mut prompts = super::sample::PLAIN.iter().filter_map(|(message, rest)| self.run(&[message], rest).ok());
        match prompts.next() {
            Some(prompt) if prompt.text.starts_with(bos.as_str()) => BosUse::Written,
            Some(_) => BosUse::NotWritten,
            None => BosUse::Unknown,
        }
    }
}

impl ProbedPrompt {
    fn new(inputs: &Inputs<'_>, output: &jinja::Output, program: &jinja::Template) -> ProbedPrompt {
        let pieces = output.pieces().map(|piece| {
            let origin = match piece.origin {
                jinja::Origin::Input { tag, .. } => inputs.origin(tag),
                _ => None,
            };
            let at = source_of(program, piece.origin);
            ProbedPiece { start: piece.start, end: piece.start + piece.text.len(), origin, at }
        });
        ProbedPrompt { pieces: pieces.collect(), text: output.text().to_owned() }
    }

    /// Reports whether the prompt contains text from a matching origin.
    pub fn prints(&self, wanted: impl Fn(&Origin) -> bool) -> bool {
        self.pieces.iter().any(|piece| piece.end > piece.start && piece.origin.as_ref().is_some_and(&wanted))
    }

    /// Returns all text from matching origins, concatenated.
    pub fn text_of(&self, wanted: impl Fn(&Origin) -> bool) -> String {
        let pieces = self.pieces.iter().filter(|piece| piece.origin.as_ref().is_some_and(&wanted));
        pieces.map(|piece| &self.text[piece.start..piece.end]).collect()
    }

    /// Returns the text between the last byte of a message and the first byte of the next one, of whatever field.
    pub fn between_turns(&self, message: usize) -> &str {
        let is_of = |piece: &ProbedPiece, message: usize| {
            piece.end > piece.start && piece.origin.as_ref().is_some_and(|origin| origin.message() == Some(message))
        };
        let last = self.pieces.iter().rposition(|piece| is_of(piece, message));
        let next = last.and_then(|last| self.pieces[last..].iter().find(|piece| is_of(piece, message + 1)));
        match (last, next) {
            (Some(last), Some(next)) => &self.text[self.pieces[last].end..next.start],
            (Some(last), None) => &self.text[self.pieces[last].end..],
            _ => "",
        }
    }

    /// Returns how often the engine wrote the word `None`.
    pub fn nones(&self) -> usize {
        let made = self.pieces.iter().filter(|piece| piece.origin.is_none() && piece.at.is_none());
        made.map(|piece| self.text[piece.start..piece.end].matches("None").count()).sum()
    }

    /// Returns all text that the template itself wrote.
    pub fn own_text(&self) -> String {
        let pieces = self.pieces.iter().filter(|piece| piece.origin.is_none());
        pieces.map(|piece| &self.text[piece.start..piece.end]).collect()
    }

    /// Returns the text after the last byte of a message.
    pub fn behind(&self, message: usize) -> &str {
        let last = self.pieces.iter().rev().find(|piece| content_of(message)(piece));
        last.map_or("", |piece| &self.text[piece.end..])
    }

    /// Returns the text between the last byte of a message and the first byte of the next message.
    pub fn between(&self, message: usize) -> &str {
        let last = self.pieces.iter().rposition(content_of(message));
        let next = last.and_then(|at| self.pieces[at..].iter().find(|piece| content_of(message + 1)(piece)));
        match (last, next) {
            (Some(last), Some(next)) => &self.text[self.pieces[last].end..next.start],
            _ => "",
        }
    }

    /// Returns the position in the template's source of the text at this byte: that of the first
    /// literal from there on, or else the last one before it.
    pub fn source_at(&self, at: usize) -> Option<usize> {
        let (before, behind) = self.pieces.split_at(self.pieces.partition_point(|piece| piece.end <= at));
        behind.iter().chain(before.iter().rev()).find_map(|piece| piece.at)
    }
}

/// Returns a predicate that matches the content of a message.
fn content_of(message: usize) -> impl Fn(&ProbedPiece) -> bool {
    move |piece| matches!(&piece.origin, Some(Origin::Message { message: of, field }) if *of == message && field.starts_with("content"))
}
