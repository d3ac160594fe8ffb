use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Object};
use rolecall_format::{CallIds, Field, Format};
use rolecall_render::{ChatTemplate, Error, IdForm, TemplateOptions, template_switches};

use crate::arguments::Arguments;
use crate::borrowed::borrow_calls;
use crate::calls::{self, Parallel, Plain, Variants};
use crate::found::{FormatParts, TurnShape};
use crate::located::{LocatedTurn, locate};
use crate::other_marks::other_marks;
use crate::pattern::Pattern;
use crate::probe::{Probe, Stage};
use crate::reasoning::Settings;
use crate::report::{Outcome, Report, TurnPart};
use crate::said::{CONTENT, ProbeMessage, REASONING, plain_calls};
use crate::sequence::{Item, hole_at};
use crate::stages::Stages;
use crate::turn::{Forms, pattern};
use crate::{Limits, ends, opened, reasoning, stages, verify};

/// The layouts inferred from a template, with a report on their reliability.
#[derive(Clone, Debug, PartialEq)]
pub struct InferredFormat {
    /// A format that contains only the layouts of the assistant's turn.
    pub format: Format,
    /// The findings for each part.
    pub report: Report,
}

/// Infers the layouts with which a template writes an assistant's turn, with the default limits.
///
/// ```
/// use rolecall_format::Slot;
/// use rolecall_infer::infer;
/// use rolecall_render::ChatTemplate;
/// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
/// let inferred = infer(&ChatTemplate::compile(source, Vec::new())?);
/// assert!(inferred.format.layout(Slot::Assistant).is_some());
/// assert!(inferred.format.layout(Slot::Call).is_none());
/// # Ok::<(), rolecall_render::Error>(())
/// ```
pub fn infer(template: &ChatTemplate) -> InferredFormat {
    infer_within(template, Limits::default())
}

/// Infers the layouts like [`infer`], with the given limits.
pub fn infer_within(template: &ChatTemplate, limits: Limits) -> InferredFormat {
    let probe = Probe::new(template, limits);
    let mut report = Report::default();
    let mut format = match find(&probe, &mut report) {
        Some((found, stages)) => verify::settle(&probe, found, &stages, &mut report),
        None => Format::new("inferred"),
    };
    if let Err(error) = probe.budget().check() {
        // Results obtained until then may be incomplete.
        report = Report::of_error(error);
        format = Format::new("inferred");
    }
    report.renders = probe.renders();
    report.steps = probe.budget().spent();
    report.parts.sort_by_key(|(part, _)| *part);
    let mut inferred = InferredFormat { format, report };
    inferred.borrow_calls(template, &[]);
    inferred.format.habits.other_marks = other_marks(template, &inferred.format);
    inferred
}

impl InferredFormat {
    /// Reports whether the template may lead to calls that the layouts do not read.
    pub fn lacks_calls(&self) -> bool {
        self.report.lacks_calls().is_some()
    }

    /// Adds the calls of a shared file if the layouts lack them. Each marker of the file is in the
    /// template or one of these tokens of the model.
    pub fn borrow_calls(&mut self, template: &ChatTemplate, tokens: &[String]) {
        let Some(why) = self.report.lacks_calls().map(str::to_owned) else { return };
        let mut format = self.format.clone();
        let Some(name) = borrow_calls(template, tokens, &mut format) else { return };
        // A text that ends every answer may be a marker of the file.
        if !verify::reads_answers(&self.format, &format) {
            return;
        }
        self.format = format;
        let why = why.trim_end_matches('.');
        let owner = if tokens.is_empty() { "the template has" } else { "the template or the tokenizer has" };
        let words = format!("{why}; calls are parsed as in `{name}`, whose markers {owner}");
        self.report.borrow(&self.format, &words);
        self.report.parts.sort_by_key(|(part, _)| *part);
        self.format.habits.other_marks = other_marks(template, &self.format);
    }

    /// Returns the result, or an error if nothing was inferred because probing the template takes
    /// too much.
    ///
    /// ```
    /// use rolecall_infer::{Limits, infer_within};
    /// use rolecall_render::ChatTemplate;
    /// let template = ChatTemplate::compile("{% for m in messages %}{{ m.content }}</s>{% endfor %}", Vec::new())?;
    /// let limits = Limits { steps: 1000, ..Limits::default() };
    /// let error = infer_within(&template, limits).complete().unwrap_err();
    /// assert_eq!(error.code(), "limit-probes");
    /// # Ok::<(), rolecall_render::Error>(())
    /// ```
    pub fn complete(self) -> Result<InferredFormat, Error> {
        match self.report.error {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

fn find(probe: &Probe<'_>, report: &mut Report) -> Option<(FormatParts, Stages)> {
    let (stage, plain) = match stages::answer(probe) {
        Ok(found) => found,
        Err(refusal) => {
            report.set(TurnPart::Content, Outcome::Missing(refusal.words.clone()));
            report.note(TurnPart::Content, refusal.words, refusal.line);
            report.error = refusal.limit.map(|error| *error);
            return None;
        }
    };
    let call = stages::call(probe, &stage);
    let with_reasoning = |stage: &Stage| {
        let said = ProbeMessage::content(CONTENT).with_reasoning(REASONING);
        shape(probe, &said, stage, None).filter(|located| located.has(Field::Reasoning))
    };
    let mut switches = Object::new();
    let is_silent = || with_reasoning(&stage).is_none() && !thinks(probe, &call);
    let analysis = match is_silent() {
        true => template_switches(probe.template(), &TemplateOptions::default(), probe.budget()).ok(),
        false => None,
    };
    if let Some((program, known)) = &analysis
        && !reasoning::is_named(probe, program, &is_silent)
        && let Some(found) = reasoning::switched(&reasoning::settings(known), &stage, &with_reasoning)
    {
        let settings = json::write(&Json::Object(found.clone()), &json::Layout::default());
        report.note(TurnPart::Reasoning, format!("only with {settings}"), None);
        switches = found;
    }
    let thinking = Stage { switches, ..stage.clone() };
    let opening = probe.opening(&stage).unwrap_or_default();
    let preferred = opening.chars().count();
    let forms = Forms {
        neither: None,
        content: Some(plain.items.clone()),
        reasoning: shape(probe, &ProbeMessage::default().with_reasoning(REASONING), &thinking, None)
            .map(|located| located.items),
        both: shape(probe, &ProbeMessage::content(CONTENT).with_reasoning(REASONING), &thinking, None)
            .map(|located| located.items),
    };
    let mut found = FormatParts { opening, ..FormatParts::default() };
    found.assistant.pattern = pattern(&forms, preferred, report)?;
    found.assistant.trims = trims(probe, &thinking, None, &found.assistant.pattern);
    let mut stages = Stages { answer: stage.clone(), switches: thinking.switches, call: None };
    match call {
        Ok(call) => {
            let known = Plain { opening: preferred, ..known_of(&plain.items, &forms) };
            find_calls(probe, &call, &stages, &known, &mut found, report);
            stages.call = Some((call.stage, call.base));
        }
        Err(stages::NoCall::Silent) => {
            report.set(TurnPart::Calls, Outcome::Absent);
            report.only_offers_tools = probe.offers_tools(&stage);
        }
        Err(stages::NoCall::Refused(refusal)) => {
            report.set(TurnPart::Calls, Outcome::Missing(refusal.words.clone()));
            if refusal.line.is_some() {
                report.note(TurnPart::Calls, refusal.words, refusal.line);
            }
        }
    }
    reasoning::share(&mut found);
    let (program, settings) = match &analysis {
        Some((program, switches)) => (Some(program), reasoning::settings(switches)),
        None => (None, Settings::default()),
    };
    opened::find(probe, &stage, program, &settings, &mut found, report);
    found.stops = ends::stops(probe, &stages, &found);
    Some((found, stages))
}

fn find_calls(
    probe: &Probe<'_>,
    call: &stages::FirstCall,
    stages: &Stages,
    known: &Plain,
    found: &mut FormatParts,
    report: &mut Report,
) {
    let variant = |content: bool, reasoning: bool| {
        let said = ProbeMessage {
            content: content.then(|| CONTENT.to_owned()),
            reasoning: reasoning.then(|| REASONING.to_owned()),
            calls: plain_calls(1),
        };
        let stage = if reasoning { stages.thinking(&call.stage) } else { call.stage.clone() };
        shape(probe, &said, &stage, Some(&call.arguments))
    };
    let variants = Variants {
        alone: variant(false, false),
        content: variant(true, false),
        reasoning: variant(false, true).filter(|located| located.has(Field::Reasoning)),
        both: variant(true, true).filter(|located| located.has(Field::Reasoning)),
    };
    let calls = calls::find(probe, &call.stage, call.arguments.clone(), &call.base, &variants, known);
    let Some(calls) = calls else {
        let words = "the calls could not be separated from the text around them";
        return report.set(TurnPart::Calls, Outcome::Missing(words.to_owned()));
    };
    let (before, behind) = calls.margins();
    let folded = |located: &Option<LocatedTurn>| located.as_ref().and_then(|located| located.folded(before, behind));
    let forms = Forms {
        neither: folded(&variants.alone),
        content: folded(&variants.content),
        reasoning: folded(&variants.reasoning),
        both: folded(&variants.both),
    };
    let Some(pattern) = pattern(&forms, known.opening, report) else {
        let words = "the text around the calls differs from turn to turn";
        return report.set(TurnPart::Calls, Outcome::Missing(words.to_owned()));
    };
    match &calls.parallel {
        Parallel::Written => {}
        Parallel::First => {
            report.set(TurnPart::ParallelCalls, Outcome::Absent);
            report.note(TurnPart::ParallelCalls, "the template writes only the first of several calls", None);
        }
        Parallel::Unlike => {
            report.note(TurnPart::ParallelCalls, "a later call is written differently from the first", None);
        }
        Parallel::Refused(refusal) => {
            report.set(TurnPart::ParallelCalls, Outcome::Missing(refusal.words.clone()));
            found.one_call = refusal.line.is_some();
            if refusal.line.is_some() {
                report.note(TurnPart::ParallelCalls, refusal.words.clone(), refusal.line);
            }
        }
    }
    found.call_ids = match probe.wanted.ids {
        Some(IdForm::NineCharacters) => CallIds::Nine,
        Some(IdForm::FunctionAndNumber) => CallIds::from_text("functions.{name}:{index}").unwrap_or_default(),
        _ => CallIds::Any,
    };
    let trims = trims(probe, &stages.thinking(&call.stage), Some(&call.arguments), &pattern);
    found.with_calls = Some(TurnShape { pattern, trims });
    found.calls = Some(calls);
}

/// Reports whether the template writes reasoning in turns with calls.
fn thinks(probe: &Probe<'_>, call: &Result<stages::FirstCall, stages::NoCall>) -> bool {
    let Ok(call) = call else { return false };
    let said = call.base.clone().with_reasoning(REASONING).calling(plain_calls(1));
    shape(probe, &said, &call.stage, Some(&call.arguments)).is_some_and(|located| located.has(Field::Reasoning))
}

fn shape(probe: &Probe<'_>, said: &ProbeMessage, stage: &Stage, arguments: Option<&Arguments>) -> Option<LocatedTurn> {
    let turn = probe.turn(said, stage).ok()?;
    locate(probe, &turn, said, arguments)
}

/// Determines whether the template strips whitespace at the ends of content and reasoning.
fn trims(probe: &Probe<'_>, stage: &Stage, arguments: Option<&Arguments>, pattern: &Pattern) -> (bool, bool) {
    let padded = |text: &str| format!(" \n {text} \n ");
    let calls = || arguments.map(|_| plain_calls(1)).unwrap_or_default();
    let around = |padded: &ProbeMessage, plain: &ProbeMessage, field: Field| -> bool {
        let Some(padded) = shape(probe, padded, stage, arguments) else { return false };
        let Some(plain) = shape(probe, plain, stage, arguments) else { return false };
        hole_at(&plain.items, field).is_some() && padded.items == plain.items
    };
    let content = ProbeMessage::content(CONTENT).calling(calls());
    let content = pattern.items().contains(&Item::Hole(Field::Content))
        && around(&ProbeMessage { content: Some(padded(CONTENT)), ..content.clone() }, &content, Field::Content);
    let reasoning =
        ProbeMessage { content: arguments.is_none().then(|| CONTENT.to_owned()), ..ProbeMessage::default() };
    let reasoning = reasoning.with_reasoning(REASONING).calling(calls());
    let reasoning = pattern.items().contains(&Item::Hole(Field::Reasoning))
        && around(
            &ProbeMessage { reasoning: Some(padded(REASONING)), ..reasoning.clone() },
            &reasoning,
            Field::Reasoning,
        );
    (content, reasoning)
}

fn known_of(plain: &[Item], forms: &Forms) -> Plain {
    let at = hole_at(plain, Field::Content).unwrap_or(0);
    let last = plain.iter().rposition(|item| *item == Item::Hole(Field::Content)).unwrap_or(0);
    let between = forms.both.as_ref().and_then(|both| {
        let (thought, said) = (hole_at(both, Field::Reasoning)?, hole_at(both, Field::Content)?);
        both.get(thought + 1..said).map(<[Item]>::to_vec)
    });
    Plain {
        before: plain[..at].to_vec(),
        between: between.unwrap_or_default(),
        behind: plain.get(last + 1..).unwrap_or_default().to_vec(),
        opening: 0,
    }
}
