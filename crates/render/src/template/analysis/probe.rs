use rolecall_conversation::json::{self, Object};
use rolecall_conversation::{Conversation, Json};
use rolecall_jinja as jinja;

use super::super::adapt::Adapted;
use super::super::prepare::Inputs;
use super::super::{ChatTemplate, TemplateOptions};
use crate::{Error, Origin};

/// Runs short conversations through a template.
pub(super) struct Probe<'t> {
    template: &'t ChatTemplate,
    options: TemplateOptions,
}

/// What came out.
pub(super) struct Probed {
    pub text: String,
    pub pieces: Vec<ProbedPiece>,
}

pub(super) struct ProbedPiece {
    pub start: usize,
    pub end: usize,
    /// What of the conversation it is from; none for the template's own.
    pub origin: Option<Origin>,
    /// Where the template has it.
    pub spot: Option<jinja::Spot>,
}

/// A day without any meaning, for templates that write the date.
const NOON: jinja::DateTime =
    jinja::DateTime { year: 2024, month: 7, day: 26, hour: 12, minute: 0, second: 0, microsecond: 0 };

impl<'t> Probe<'t> {
    pub fn new(template: &'t ChatTemplate, options: &TemplateOptions) -> Probe<'t> {
        let options = TemplateOptions { now: options.now.or(Some(NOON)), ..options.clone() };
        Probe { template, options }
    }

    /// Runs a conversation, which is written as JSON: its messages, then what else there is of a request. What refuses it is
    /// given in its own words.
    pub fn run(&self, messages: &[&str], rest: &str) -> Result<Probed, String> {
        self.run_with(messages, rest, &Object::new())
    }

    /// The same with switches.
    pub fn run_with(&self, messages: &[&str], rest: &str, switches: &Object) -> Result<Probed, String> {
        let comma = if rest.is_empty() { "" } else { ", " };
        let request = format!(r#"{{"messages": [{}]{comma}{rest}}}"#, messages.join(", "));
        let request = json::parse(&request).map_err(|error| error.to_string())?;
        let mut conversation = Conversation::from_json(request).map_err(|error| error.to_string())?;
        for (name, value) in switches.iter() {
            conversation.template_kwargs.insert(name.to_owned(), value.clone());
        }
        let adapted = Adapted::default();
        let ran = super::super::run(&conversation, self.template, &self.options, &adapted);
        let (inputs, output) = ran.map_err(|error| match error {
            Error::Template { error, .. } => error.message().to_owned(),
            error => error.to_string(),
        })?;
        Ok(Probed::new(&inputs, &output, &self.template.program))
    }

    pub fn switches<const N: usize>(&self, switches: [(&str, Json); N]) -> Object {
        let mut object = Object::new();
        for (name, value) in switches {
            object.insert(name.to_owned(), value);
        }
        object
    }

    /// Whether prompts begin with the token that opens a text, if one is known.
    pub fn writes_bos(&self) -> Option<bool> {
        let (_, bos) = self.template.tokens.iter().find(|(name, bos)| name == "bos_token" && !bos.is_empty())?;
        let prompt = self.run(&[super::support::USER], "").ok()?;
        Some(prompt.text.starts_with(bos.as_str()))
    }
}

impl Probed {
    fn new(inputs: &Inputs<'_>, output: &jinja::Output, program: &jinja::Template) -> Probed {
        let pieces = output.pieces().map(|piece| {
            let origin = match piece.origin {
                jinja::Origin::Input { tag, .. } => inputs.origin(tag).cloned(),
                _ => None,
            };
            let spot = match piece.origin {
                jinja::Origin::Literal { id, offset } => program.literal(id).map(|literal| {
                    let before = literal.text.get(..offset.get().unwrap_or(0)).unwrap_or("");
                    spot_behind(&literal.place, before)
                }),
                _ => None,
            };
            ProbedPiece { start: piece.start, end: piece.start + piece.text.len(), origin, spot }
        });
        Probed { pieces: pieces.collect(), text: output.text().to_owned() }
    }

    /// Whether a text that some origin has is in the prompt.
    pub fn prints(&self, wanted: impl Fn(&Origin) -> bool) -> bool {
        self.pieces.iter().any(|piece| piece.end > piece.start && piece.origin.as_ref().is_some_and(&wanted))
    }

    /// All text of an origin, put together.
    pub fn text_of(&self, wanted: impl Fn(&Origin) -> bool) -> String {
        let pieces = self.pieces.iter().filter(|piece| piece.origin.as_ref().is_some_and(&wanted));
        pieces.map(|piece| &self.text[piece.start..piece.end]).collect()
    }

    /// All text that is the template's own.
    pub fn own_text(&self) -> String {
        let pieces = self.pieces.iter().filter(|piece| piece.origin.is_none());
        pieces.map(|piece| &self.text[piece.start..piece.end]).collect()
    }

    /// The text behind the last byte of a message.
    pub fn behind(&self, message: usize) -> &str {
        let last = self.pieces.iter().rev().find(|piece| content_of(message)(piece));
        last.map_or("", |piece| &self.text[piece.end..])
    }

    /// The text between the last byte of a message and the first of the next.
    pub fn between(&self, message: usize) -> &str {
        let last = self.pieces.iter().rposition(content_of(message));
        let next = last.and_then(|at| self.pieces[at..].iter().find(|piece| content_of(message + 1)(piece)));
        match (last, next) {
            (Some(last), Some(next)) => &self.text[self.pieces[last].end..next.start],
            _ => "",
        }
    }

    /// Where the template has what stands at a byte: the first literal from there on, else the last one before.
    pub fn spot_at(&self, at: usize) -> Option<jinja::Spot> {
        let (before, behind) = self.pieces.split_at(self.pieces.partition_point(|piece| piece.end <= at));
        behind.iter().chain(before.iter().rev()).find_map(|piece| piece.spot)
    }
}

/// Whether a piece is the content of a message.
fn content_of(message: usize) -> impl Fn(&ProbedPiece) -> bool {
    move |piece| matches!(&piece.origin, Some(Origin::Message { message: of, field }) if *of == message && field.starts_with("content"))
}

fn spot_behind(place: &jinja::Place, before: &str) -> jinja::Spot {
    let lines = before.matches('\n').count() as u32;
    let last = before.rsplit('\n').next().unwrap_or("").chars().count() as u32;
    let column = if lines > 0 { last + 1 } else { place.column + last };
    let offset = u32::try_from(place.offset + before.len()).unwrap_or(u32::MAX);
    jinja::Spot { line: place.line + lines, column, offset }
}
