//! What a session needs of its model, resolved once for all its turns.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rolecall_conversation::Conversation;
use rolecall_encode::{Decoder, Encoder};
use rolecall_format::{Codec, Field, Format, Layout, Op, Slot};
use rolecall_openai::Request;
use rolecall_parse::{Ids, OutputParser, ParseOptions, Reply};
use rolecall_render::growth::{Grown, Growth, Longer, NotGrown, ReplyRule};
use rolecall_render::jinja::Spot;
use rolecall_render::{DateTime, FinalStop, Forms, LossPolicy, ModelText, Prompt, Writer};

use super::fingerprint::Fingerprint;
use super::prompt::offered_tools;
use super::templates::ChosenTemplate;
use super::writer::{ModelWriter, Resolved};
use super::{Model, Purpose, ReplyContext};
use crate::Error;
use crate::parse::IdParser;

/// A model with everything of a request except its messages, resolved once.
pub(crate) struct Setup {
    pub model: Model,
    /// The request without its messages.
    pub request: Request,
    pub encoder: Arc<Encoder>,
    pub decoder: Arc<Decoder>,
    /// The texts of the tokens that may stop the model, and the ids of those that are tokens.
    pub stops: Arc<[String]>,
    pub stop_ids: Vec<u32>,
    /// Those of these ids that the layouts of a reply read.
    read_stop_ids: Vec<u32>,
    /// The token that ends a reply for which the template itself writes no end.
    pub final_stop: Option<String>,
    /// The literal texts of a reply's layouts.
    read: Vec<String>,
    /// The marker that closes reasoning.
    pub reasoning_end: Option<String>,
    /// The white space with which the format ends a turn without a stop token.
    pub turn_space: String,
    /// The settings on which the ids depend, as text.
    pub switches: String,
    pub fingerprint: OnceLock<Fingerprint>,
    /// Whether the end of a conversation of any session was rendered with its first messages. Most templates do
    /// not look back that far, and what they do not read need not be prepared for them.
    pub needs_head: AtomicBool,
    /// The parser after the last generation prompt, with that text. The next one is mostly the same.
    last_parser: Mutex<Option<(String, OutputParser)>>,
    writer: Arc<ModelWriter>,
    /// How the format spells its control tokens, if that was chosen.
    spelling: Option<String>,
    reply: Arc<Reply>,
    /// How replies are parsed, without the tools and the end of the prompt.
    policies: ParseOptions,
    tools: Vec<rolecall_conversation::Tool>,
    /// The conversation without messages, with and without a generation prompt.
    frames: [Conversation; 2],
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Setup {
    /// Resolves a request that has no messages, for a session that began at some time.
    pub(super) fn at(model: &Model, request: Request, now: Option<DateTime>) -> Result<Setup, Error> {
        let mut settings = model.settings.of(&request)?;
        // What the parser returns is passed in the form that the template writes correctly.
        settings.forms = Forms::AsWanted;
        settings.now = now.or(settings.now);
        let Resolved { settings, mut writer } = model.resolve_with(settings, &request, Purpose::Answer)?;
        // Sessions of a template that does not read the clock share a setup.
        if let Writer::Template(template, options) = &mut writer.writer
            && !template.may_read_clock()
        {
            options.now = None;
        }
        model.unread_switches(&request, &settings, &writer)?;
        let encoder = model.shared.encoders.encoder(&writer, settings.of_encoder())?;
        let decoder = model.decoder()?;
        let spelling = settings.spelling(&request.conversation).map(str::to_owned);
        let reply = model.reply_by(&writer, spelling.as_deref(), Some(&decoder))?;
        let layouts = model.layouts_by(&writer)?;
        let found = model.stops_of(&writer)?;
        let mut stop_ids: Vec<u32> = found.ids().collect();
        stop_ids.sort_unstable();
        let stops = Arc::clone(&found.texts);
        let final_stop = model.final_stop(&writer)?;
        let policies = settings.policies(ParseOptions::default());
        let tools = offered_tools(&request);
        let frame = |generates| Conversation { add_generation_prompt: Some(generates), ..request.conversation.clone() };
        let frames = [frame(false), frame(true)];
        let reasoning_end = reasoning_end(&layouts);
        let read = layout_texts(&layouts);
        let is_read = |id: &u32| reads(&read, encoder.tokenizer().token_text(*id));
        let read_stop_ids = stop_ids.iter().copied().filter(is_read).collect();
        let turn_space = writer.format().map(|format| turn_space(format)).unwrap_or_default();
        Ok(Setup {
            model: model.clone(),
            request,
            encoder,
            decoder,
            stops,
            stop_ids,
            read_stop_ids,
            final_stop,
            read,
            reasoning_end,
            turn_space,
            switches: format!("{:?}", (settings.bos, settings.rules, &settings.options, settings.protect)),
            fingerprint: OnceLock::new(),
            needs_head: AtomicBool::new(false),
            last_parser: Mutex::default(),
            writer: writer.into(),
            spelling,
            reply,
            policies,
            tools,
            frames,
        })
    }

    /// Returns the conversation without messages.
    pub fn frame(&self, generates: bool) -> &Conversation {
        &self.frames[usize::from(generates)]
    }

    /// Renders a whole conversation.
    pub fn render(&self, conversation: &Conversation) -> Result<(Prompt, Option<Growth>), Error> {
        self.writer.writer.render_growing(conversation).map_err(|error| self.writer.refused(error))
    }

    /// Renders the end of a longer conversation.
    pub fn grow(&self, growth: &Growth, longer: &Longer<'_>) -> Result<Grown, NotGrown> {
        self.writer.writer.grow(growth, longer)
    }

    /// Returns the place in the template that writes a byte of a conversation's prompt.
    pub fn spot_at(&self, conversation: &Conversation, byte: usize) -> Option<Spot> {
        self.writer.writer.spot_at(conversation, byte).ok().flatten()
    }

    /// Returns the chat template that renders the session.
    pub(super) fn chosen(&self) -> Option<&ChosenTemplate> {
        self.writer.chosen.as_ref()
    }

    /// Returns the format that renders the session.
    pub fn format(&self) -> Option<&Format> {
        self.writer.format().map(|format| &**format)
    }

    /// Returns what determines where replies end.
    pub fn reply_rule(&self) -> ReplyRule<'_> {
        ReplyRule { format: self.format(), stops: &self.stops }
    }

    /// Returns the time that the chat template sees, if it may read it.
    pub(super) fn clock(&self) -> Option<DateTime> {
        self.writer.clock()
    }

    /// Returns the time at which a session that begins now has its clock. A format has none.
    pub fn time(&self) -> Option<DateTime> {
        self.chosen()?;
        self.clock().or_else(|| self.model.settings.of(&self.request).ok().and_then(|settings| settings.time()))
    }

    /// Returns the text of a prompt that the model itself would write.
    pub fn replies(&self, prompt: &Prompt, conversation: &Conversation) -> Result<Vec<ModelText>, Error> {
        let mut policy = LossPolicy::assistant();
        (policy.final_stop, policy.allow_masked_stop, policy.allow_empty) = (FinalStop::Ignore, true, true);
        Ok(self.writer.writer.loss(prompt, conversation, &self.stops, &policy)?.replies)
    }

    /// Reports whether the format or template itself may write a text.
    pub fn writes(&self, text: &str) -> bool {
        match &self.writer.writer {
            Writer::Template(template, _) => template.source().contains(text),
            Writer::Format(format, _) => {
                format.controls.iter().any(|control| control.texts().any(|known| known == text))
            }
        }
    }

    /// Reports whether an id may stop the model.
    pub fn can_stop(&self, id: u32) -> bool {
        self.stop_ids.contains(&id)
    }

    /// Reports whether the layouts of a reply read an id, so that the parser determines what it
    /// means.
    pub fn reads(&self, id: u32) -> bool {
        match self.can_stop(id) {
            true => self.read_stop_ids.contains(&id),
            false => reads(&self.read, self.encoder.tokenizer().token_text(id)),
        }
    }

    /// Returns what is known about a reply. `tail` is the end of the prompt, `ids` are those of its calls.
    pub fn reply_context(self: &Arc<Self>, tail: &str, ids: Ids) -> Result<ReplyContext, Error> {
        let options = self.parse_options(tail, ids);
        let context = self.model.context_of(Arc::clone(&self.writer), self.spelling.clone(), options)?;
        Ok(context.with_setup(Arc::clone(self)))
    }

    /// Returns the ids that may stop the model, each with whether the layouts of a reply read it.
    pub fn stops(&self) -> impl Iterator<Item = (u32, bool)> {
        self.stop_ids.iter().map(|id| (*id, self.read_stop_ids.contains(id)))
    }

    /// Reports whether a prompt's end has the opening of the assistant's turn.
    pub fn opens_turn(&self, tail: &str) -> bool {
        self.reply.has_opening(tail)
    }

    /// Returns a parser for the ids of a reply. `tail` is the end of the prompt. `ids` are those of its calls.
    pub fn id_parser(&self, tail: &str, ids: Ids) -> IdParser {
        let last = || self.last_parser.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last().as_ref().filter(|(known, _)| known == tail).and_then(|(_, parser)| parser.with_ids(ids));
        let parser = known.unwrap_or_else(|| {
            let parser = OutputParser::new(&self.reply, self.parse_options(tail, ids));
            *last() = Some((tail.to_owned(), parser.clone()));
            parser
        });
        IdParser::new(parser, Arc::clone(&self.decoder))
    }

    fn parse_options(&self, tail: &str, ids: Ids) -> ParseOptions {
        let (tools, prompt_tail) = (self.tools.clone(), tail.to_owned());
        ParseOptions { tools, prompt_tail, ids, ..self.policies.clone() }
    }
}

/// Reports whether one of these literal texts has a token's text.
pub(super) fn reads(literals: &[String], token: Option<String>) -> bool {
    token.is_some_and(|text| literals.iter().any(|literal| literal.contains(&text)))
}

impl Model {
    /// Resolves a request without its messages, for a session that begins now or began at some time.
    pub(crate) fn setup_of(&self, request: Request, began: Option<DateTime>) -> Result<Arc<Setup>, Error> {
        self.setups.of(self, request, began)
    }
}

/// Returns the literal texts of a reply's layouts.
pub(super) fn layout_texts(layouts: &Format) -> Vec<String> {
    let slots = [Slot::Assistant, Slot::AssistantLast, Slot::AssistantWithCalls, Slot::Call];
    let mut texts = Vec::new();
    for layout in slots.into_iter().filter_map(|slot| layouts.layout(slot)) {
        collect_texts(layout.ops(), layouts, &mut texts);
    }
    texts
}

fn collect_texts(ops: &[Op], format: &Format, texts: &mut Vec<String>) {
    for op in ops {
        match op {
            Op::Literal(text) => texts.push(text.clone()),
            Op::Control(id) => texts.extend(format.control(*id).texts().map(str::to_owned)),
            Op::Group(ops) => collect_texts(ops, format, texts),
            _ => {}
        }
    }
}

/// Returns the white space with which a format ends a reply for which it writes nothing else.
fn turn_space(format: &Format) -> String {
    let ops = format.layout(Slot::Assistant).map_or(&[][..], Layout::ops);
    let last = ops.iter().rposition(|op| matches!(op, Op::Hole { .. } | Op::Group(_) | Op::Control(_) | Op::Own(_)));
    let Some(last) = last.filter(|last| matches!(ops[*last], Op::Hole { .. } | Op::Group(_))) else {
        return String::new();
    };
    let texts = ops[last + 1..].iter().map(|op| if let Op::Literal(text) = op { text.as_str() } else { "" });
    Some(texts.collect()).filter(|text: &String| text.trim().is_empty()).unwrap_or_default()
}

/// Returns the marker that a layout writes directly after the reasoning.
fn reasoning_end(layouts: &Format) -> Option<String> {
    let slots = [Slot::Assistant, Slot::AssistantWithCalls, Slot::AssistantLast];
    slots.into_iter().find_map(|slot| after_reasoning(layouts.layout(slot)?.ops(), None, layouts))
}

/// Finds the marker after the reasoning. `outer` is what follows these parts of a layout.
fn after_reasoning(ops: &[Op], outer: Option<&Op>, format: &Format) -> Option<String> {
    let is_reasoning =
        |op: &Op| matches!(op, Op::Hole { field: Field::Reasoning, codec, .. } if *codec != Codec::Present);
    for (at, op) in ops.iter().enumerate() {
        let follows = ops.get(at + 1).or(outer);
        if let Op::Group(inner) = op
            && let Some(found) = after_reasoning(inner, follows, format)
        {
            return Some(found);
        }
        let marker = match (is_reasoning(op), follows) {
            (true, Some(Op::Literal(text))) => first_marker(text),
            (true, Some(Op::Control(id))) => format.control(*id).text.clone(),
            _ => continue,
        };
        return Some(marker).filter(|marker| !marker.is_empty());
    }
    None
}

/// Returns the first word of a text in brackets, or else the text without white space around it.
fn first_marker(text: &str) -> String {
    let text = text.trim();
    let closes = |open: char| match open {
        '<' => Some('>'),
        '[' => Some(']'),
        _ => None,
    };
    match text.chars().next().and_then(closes).and_then(|close| text.find(close)) {
        Some(end) => text[..=end].to_owned(),
        None => text.to_owned(),
    }
}
