use rolecall_format::{Codec, Field, Format, Op, Slot};
use rolecall_render::ChatTemplate;

use crate::Limits;
use crate::arguments::{self, Arguments, argument};
use crate::calls::{self, Calls, Plain, Variants};
use crate::located::{Located, locate};
use crate::pattern::ops;
use crate::probe::{NoContent, Probe, Refusal, Stage};
use crate::report::{Outcome, Part, Report};
use crate::said::{CONTENT, NAMES, REASONING, Said, plain_calls};
use crate::sequence::{Item, hole_at, items};
use crate::turn::{Forms, Pattern, pattern};

/// What a template's layouts are, and how sure that is.
#[derive(Clone, Debug, PartialEq)]
pub struct Inferred {
    /// A format of nothing but the layouts of the assistant's turn.
    pub format: Format,
    /// What was found, part by part.
    pub report: Report,
}

/// Infers the layouts with which a template writes an assistant's turn, within the usual limits.
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
pub fn infer(template: &ChatTemplate) -> Inferred {
    infer_within(template, Limits::default())
}

/// The same within these limits.
pub fn infer_within(template: &ChatTemplate, limits: Limits) -> Inferred {
    let probe = Probe::new(template, limits);
    let mut report = Report::default();
    let found = find(&probe, &mut report);
    let format = found.map_or_else(|| Format::new("inferred"), |found| found.format());
    report.renders = probe.renders();
    report.parts.sort_by_key(|(part, _)| *part);
    Inferred { format, report }
}

/// Everything that was found.
struct Found {
    opening: String,
    assistant: Pattern,
    with_calls: Option<Pattern>,
    calls: Option<Calls>,
    content: Codec,
    reasoning: Codec,
    stops: Vec<String>,
}

fn find(probe: &Probe<'_>, report: &mut Report) -> Option<Found> {
    let (stage, plain) = match said_plainly(probe) {
        Ok(found) => found,
        Err(refusal) => {
            report.set(Part::Content, Outcome::Missing(refusal.words.clone()));
            report.note(Part::Content, refusal.words, refusal.line);
            return None;
        }
    };
    let opening = probe.opening(&stage).unwrap_or_default();
    let preferred = opening.chars().count();
    let shape = |said: &Said, stage: &Stage, arguments: Option<&Arguments>| -> Option<Located> {
        let turn = probe.turn(said, stage).ok()?;
        locate(probe, &turn, said, arguments)
    };
    let nothing = Said::default();
    let thought = Said::default().with_reasoning(REASONING);
    let both = Said::content(CONTENT).with_reasoning(REASONING);
    let forms = Forms {
        neither: None,
        content: Some(plain.items.clone()),
        reasoning: shape(&thought, &stage, None).map(|located| located.items),
        both: shape(&both, &stage, None).map(|located| located.items),
    };
    let assistant = pattern(&forms, preferred, report)?;
    let known = known_of(&plain.items, &forms);
    // Calls.
    let mut found = Found {
        opening,
        assistant,
        with_calls: None,
        calls: None,
        content: Codec::Text,
        reasoning: Codec::Text,
        stops: Vec::new(),
    };
    let called = first_call(probe, &stage);
    match called {
        Ok((stage, base, arguments)) => {
            let said = |content: bool, reasoning: bool| {
                let mut said = Said::default();
                said.content = content.then(|| CONTENT.to_owned());
                said.reasoning = reasoning.then(|| REASONING.to_owned());
                said.calling(plain_calls(1))
            };
            let variant = |content: bool, reasoning: bool| shape(&said(content, reasoning), &stage, Some(&arguments));
            let variants = Variants {
                alone: variant(false, false),
                content: variant(true, false),
                reasoning: variant(false, true).filter(|located| located.has(Field::Reasoning)),
                both: variant(true, true).filter(|located| located.has(Field::Reasoning)),
            };
            let calls = calls::find(probe, &stage, arguments.clone(), &base, &variants, &known);
            if let Some(calls) = calls {
                let (before, behind) = calls.margins();
                let folded =
                    |located: &Option<Located>| located.as_ref().and_then(|located| located.folded(before, behind));
                let forms = Forms {
                    neither: folded(&variants.alone),
                    content: folded(&variants.content),
                    reasoning: folded(&variants.reasoning),
                    both: folded(&variants.both),
                };
                found.with_calls = pattern(&forms, preferred, report);
                if let Err(refusal) = &calls.parallel {
                    report.set(Part::ParallelCalls, Outcome::Missing(refusal.words.clone()));
                }
                found.calls = Some(calls);
            } else {
                report
                    .set(Part::Calls, Outcome::Missing("the calls could not be told from what is around them".into()));
            }
        }
        Err(refusal) => {
            report.set(Part::Calls, Outcome::Missing(refusal.words.clone()));
        }
    }
    let _ = nothing;
    Some(found)
}

/// The surroundings in which an answer alone comes out.
fn said_plainly(probe: &Probe<'_>) -> Result<(Stage, Located), Refusal> {
    let mut first = None;
    for tools in [true, false] {
        let stage = Stage { tools, ..Stage::default() };
        let said = Said::content(CONTENT);
        match probe.turn(&said, &stage) {
            Ok(turn) => match locate(probe, &turn, &said, None).filter(|located| located.has(Field::Content)) {
                Some(located) => return Ok((stage, located)),
                None => first = first.or_else(|| Some(Refusal::new("an answer is not in the prompt"))),
            },
            Err(refusal) => first = first.or(Some(refusal)),
        }
    }
    Err(first.unwrap_or_else(|| Refusal::new("nothing was tried")))
}

/// The surroundings in which a call comes out, and how its arguments are written.
fn first_call(probe: &Probe<'_>, plain: &Stage) -> Result<(Stage, Said, Arguments), Refusal> {
    let mut first = None;
    for results in [false, true] {
        for tools in [plain.tools, !plain.tools] {
            for content in [(None, NoContent::Empty), (None, NoContent::Null), (Some(CONTENT), NoContent::Empty)] {
                let stage = Stage { tools, no_content: content.1, results, ..plain.clone() };
                let base = Said { content: content.0.map(str::to_owned), ..Said::default() };
                let said = base.clone().calling(plain_calls(1));
                let turn = match probe.turn(&said, &stage) {
                    Ok(turn) => turn,
                    Err(refusal) => {
                        first = first.or(Some(refusal));
                        continue;
                    }
                };
                let id = probe.id(0, NAMES[0]);
                if turn.places(NAMES[0]).is_empty() && turn.places(&id).is_empty() {
                    first = first.or_else(|| Some(Refusal::new("the template writes no calls")));
                    continue;
                }
                match arguments::find(probe, &stage, content.0) {
                    Some(arguments) => return Ok((stage, base, arguments)),
                    None => {
                        first = first.or_else(|| Some(Refusal::new("the arguments of a call are not in the prompt")))
                    }
                }
            }
        }
    }
    Err(first.unwrap_or_else(|| Refusal::new("the template writes no calls")))
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
    }
}

impl Found {
    fn format(&self) -> Format {
        let codec = |field: Field| match field {
            Field::Content => self.content.clone(),
            Field::Reasoning => self.reasoning.clone(),
            _ => Codec::Text,
        };
        let mut layouts: Vec<(Slot, Vec<Op>)> = Vec::new();
        layouts.push((Slot::Assistant, ops(&self.assistant.items, &self.assistant.groups, &codec)));
        if let Some(with_calls) = &self.with_calls {
            layouts.push((Slot::AssistantWithCalls, ops(&with_calls.items, &with_calls.groups, &codec)));
        }
        if let Some(calls) = &self.calls {
            let codec = |field: Field| match (field, &calls.arguments) {
                (Field::Arguments, Arguments::Whole { codec, .. }) => codec.clone(),
                _ => Codec::Text,
            };
            layouts.push((Slot::Call, ops(&calls.call(), &[], &codec)));
            let row = &calls.row;
            if !(row.open.is_empty() && row.close.is_empty()) {
                let around = [row.open.as_slice(), &[Item::Hole(Field::Calls)], &row.close].concat();
                layouts.push((Slot::Calls, ops(&around, &[], &codec)));
            }
            if !row.separator.is_empty() {
                layouts.push((Slot::CallSeparator, ops(&row.separator, &[], &codec)));
            }
            if let Arguments::Each(each) = &calls.arguments {
                let of = |middle: &[Item], suffix: &[Item], codec: &Codec| {
                    let codec = |field: Field| if field == Field::Value { codec.clone() } else { Codec::Text };
                    ops(&argument(&each.row.prefix, middle, suffix), &[], &codec)
                };
                let string = of(&each.middle, &each.row.suffix, &each.string);
                match &each.other {
                    Some((middle, suffix, codec)) => {
                        let other = of(middle, suffix, codec);
                        if other != string {
                            layouts.push((Slot::ArgumentString, string));
                        }
                        layouts.push((Slot::Argument, other));
                    }
                    None => layouts.push((Slot::Argument, string)),
                }
                if !each.row.separator.is_empty() {
                    layouts.push((Slot::ArgumentSeparator, ops(&each.row.separator, &[], &codec)));
                }
            }
        }
        layouts.push((Slot::Generate, ops(&items(&self.opening), &[], &codec)));
        let mut format = Format::new("inferred");
        let mut generation = (*format.generation).clone();
        generation.stop = self.stops.clone();
        format.generation = std::sync::Arc::new(generation);
        format.with_layouts(layouts)
    }
}
