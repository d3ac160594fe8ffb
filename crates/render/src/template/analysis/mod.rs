//! Analysis of what a chat template accepts and does. It is based on the template's program and on
//! short conversations rendered through it, where the origin of every byte shows what became of
//! each text. The template's source is never searched.

mod arguments;
mod budget;
mod calls;
mod effort;
mod finding;
mod forms;
mod probe;
mod sample;
mod support;
mod switch;

use rolecall_conversation::json::Object;
use rolecall_jinja as jinja;

use super::{ChatTemplate, Nulls, TemplateOptions};
use crate::{Error, Origin};

pub use arguments::ArgumentForm;
pub use budget::ProbeBudget;
pub use calls::{IdForm, WantedCalls};
pub(super) use effort::EffortProbe;
pub use effort::{EFFORT_SWITCH, EFFORTS};
pub use finding::{Finding, FindingKind};
pub use forms::ContentForm;
pub(super) use forms::{EmptyContent, FormProbe};
pub use support::{Capability, Support};
pub use switch::Switch;

use probe::{Probe, ProbedPrompt};

/// Determines the form in which a template expects tool calls. Also returns the number of steps
/// that this took.
pub(super) fn wanted_calls(template: &ChatTemplate) -> (Result<WantedCalls, Error>, u64) {
    let budget = ProbeBudget::default();
    let wanted = calls::wanted(&Probe::new(template, &TemplateOptions::default(), &budget));
    (budget.check().map(|()| wanted), budget.spent())
}

/// Finds out a form that a template writes in conversations with tools or without. If that takes too much, it is not
/// known.
pub(super) fn form_of<T>(
    template: &ChatTemplate,
    has_tools: bool,
    budget: &ProbeBudget,
    find: impl FnOnce(&FormProbe<'_, '_>) -> T,
) -> Option<T> {
    let form = find(&FormProbe::new(&Probe::new(template, &TemplateOptions::default(), budget), has_tools));
    budget.check().is_ok().then_some(form)
}

/// Finds out something of the levels of reasoning of a template beside these switches.
pub(super) fn effort_of<T>(
    template: &ChatTemplate,
    options: &TemplateOptions,
    given: &Object,
    find: impl FnOnce(&EffortProbe<'_, '_>) -> T,
) -> Option<T> {
    let budget = ProbeBudget::default();
    let found = find(&EffortProbe::new(&Probe::new(template, options, &budget), given));
    budget.check().is_ok().then_some(found)
}

/// Reports whether a template writes the calls of a message only if its content is null.
pub(super) fn needs_nulls(template: &ChatTemplate) -> bool {
    let (template, budget) = (template.needing_nulls(false), ProbeBudget::default());
    let renders = |nulls: Nulls| {
        let probe = Probe::new(&template, &TemplateOptions { nulls, ..TemplateOptions::default() }, &budget);
        let is_written = |rest: &&str| {
            let mut callings = support::ARGUMENTS.iter().map(|arguments| support::calling(1, "null", arguments));
            callings.any(|calling| probe.run(&[sample::USER, &calling], rest).is_ok_and(|probed| has_calls(&probed)))
        };
        ["", sample::TOOLS].iter().any(is_written)
    };
    !renders(Nulls::Missing) && renders(Nulls::Kept)
}

/// Reports whether the second message's calls are written.
fn has_calls(probed: &ProbedPrompt) -> bool {
    probed.pieces.iter().any(
        |piece| matches!(&piece.origin, Some(Origin::Message { message: 1, field }) if field.starts_with("tool_calls")),
    )
}

/// The result of analyzing a chat template.
///
/// ```
/// use rolecall_render::{Capability, ChatTemplate, FindingKind, Support, TemplateOptions, analyze_template};
///
/// let source = "{% for m in messages %}<|{{ m.role }}|>{% if '</think>' in m.content %}{{ m.content.split('</think>')[1] }}\
///     {% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
/// let template = ChatTemplate::compile(source, Vec::new())?;
/// let analysis = analyze_template(&template, &TemplateOptions::default())?;
/// assert_eq!(analysis.support(Capability::System), &Support::Yes);
/// assert_eq!(analysis.support(Capability::Tools), &Support::No);
/// let gated = &analysis.findings[0];
/// assert_eq!((gated.kind, gated.spot.map(|spot| spot.column)), (FindingKind::ContentGated, Some(46)));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TemplateAnalysis {
    /// What the program reads, compares and calls.
    pub program: jinja::Analysis,
    /// What the template supports, in the order of [`Capability::ALL`].
    pub support: Vec<(Capability, Support)>,
    /// The form in which the template expects tool calls.
    pub calls: WantedCalls,
    /// Variables that are neither part of the conversation nor special tokens.
    pub switches: Vec<Switch>,
    /// How the template handles the BOS token.
    pub bos: BosUse,
    /// Notable properties, in source order. Those without a position come first.
    pub findings: Vec<Finding>,
}

/// How a template handles the BOS token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BosUse {
    /// The model has no BOS token, or it is not known.
    NoToken,
    /// No plain prompt could be rendered.
    Unknown,
    /// Prompts begin with the BOS token.
    Written,
    /// Prompts do not begin with the BOS token.
    NotWritten,
}

impl TemplateAnalysis {
    /// Reports whether the template supports a capability.
    pub fn support(&self, capability: Capability) -> &Support {
        let found = self.support.iter().find(|(known, _)| *known == capability);
        found.map_or(&Support::Unknown, |(_, support)| support)
    }

    /// Adds the findings that depend on whether the tokenizer adds the BOS token.
    pub fn note_tokenizer(&mut self, adds_bos: bool) {
        self.findings.extend(finding::bos(&self.program, self.bos, adds_bos));
        self.findings.sort_by_key(Finding::order);
    }
}

/// Returns what a template's program reads, compares and calls, and which of the variables are
/// switches. This is the part of an analysis that needs little probing.
///
/// ```
/// use rolecall_render::{ChatTemplate, ProbeBudget, TemplateOptions, template_switches};
/// let template = ChatTemplate::compile("{% if enable_thinking %}<think>{% endif %}", Vec::new())?;
/// let (_, switches) = template_switches(&template, &TemplateOptions::default(), &ProbeBudget::default())?;
/// assert_eq!(switches[0].name, "enable_thinking");
/// # Ok::<(), rolecall_render::Error>(())
/// ```
pub fn template_switches(
    template: &ChatTemplate,
    options: &TemplateOptions,
    budget: &ProbeBudget,
) -> Result<(jinja::Analysis, Vec<Switch>), Error> {
    let program = program(template, options, budget)?;
    let switches = switch::find(&program, template, &Probe::new(template, options, budget));
    budget.check()?;
    Ok((program, switches))
}

/// Analyzes a template. The limits, the clock and the template arguments in `options` are used.
/// Without a clock, a fixed one is used.
///
/// All probes share one [`ProbeBudget`]. A template that exceeds it is refused with
/// [`Error::Probes`].
pub fn analyze_template(template: &ChatTemplate, options: &TemplateOptions) -> Result<TemplateAnalysis, Error> {
    analyze_template_within(template, options, &ProbeBudget::default())
}

/// Analyzes a template like [`analyze_template`], with the given budget.
pub fn analyze_template_within(
    template: &ChatTemplate,
    options: &TemplateOptions,
    budget: &ProbeBudget,
) -> Result<TemplateAnalysis, Error> {
    let program = program(template, options, budget)?;
    let probe = Probe::new(template, options, budget);
    let support = support::find(&probe);
    let bos = probe.bos();
    let switches = switch::find(&program, template, &probe);
    let findings = finding::find(&program, &probe, &support);
    let calls = calls::wanted(&probe);
    // Results after the budget ran out would be guesses.
    budget.check()?;
    Ok(TemplateAnalysis { calls, program, support, switches, bos, findings })
}

/// Returns what the program reads, compares and calls. The analysis itself takes steps from the
/// budget.
fn program(template: &ChatTemplate, options: &TemplateOptions, budget: &ProbeBudget) -> Result<jinja::Analysis, Error> {
    let program = template.program.analyze(&options.limits);
    budget.spend(program.as_ref().map_or_else(jinja::Error::steps, |program| program.steps));
    program.map_err(super::in_template)
}
