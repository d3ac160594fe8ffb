//! What a chat template takes and does: from its program, and from short conversations run through it, where the origin of
//! every byte says what became of each text. Nothing is looked for in the template's source.

mod arguments;
mod budget;
mod calls;
mod finding;
mod probe;
mod support;
mod switch;

use rolecall_jinja as jinja;

use super::{ChatTemplate, TemplateOptions};
use crate::Error;

pub use arguments::ArgumentForm;
pub use budget::ProbeBudget;
pub use calls::{IdForm, WantedCalls};
pub use finding::{Finding, FindingKind};
pub use support::{Capability, Support};
pub use switch::Switch;

use probe::Probe;

/// The form in which a template wants tool calls, and the steps that it took to find it out.
pub(super) fn wanted_calls(template: &ChatTemplate) -> (Result<WantedCalls, Error>, u64) {
    let budget = ProbeBudget::default();
    let wanted = calls::wanted(&Probe::new(template, &TemplateOptions::default(), &budget));
    (budget.check().map(|()| wanted), budget.spent())
}

/// What a chat template takes and does.
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
    /// What it takes, in the order of [`Capability::ALL`].
    pub support: Vec<(Capability, Support)>,
    /// In which form it wants tool calls.
    pub calls: WantedCalls,
    /// Variables that are neither the conversation's own nor special tokens.
    pub switches: Vec<Switch>,
    /// What it does with the token that opens a text.
    pub bos: BosUse,
    /// What a reader should know, in the order of the source; what has no place comes first.
    pub findings: Vec<Finding>,
}

/// What a template does with the token that opens a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BosUse {
    /// The model has none, or it is not known.
    NoToken,
    /// No plain prompt came out to look at.
    Unknown,
    /// Prompts begin with it.
    Written,
    /// They do not.
    NotWritten,
}

impl TemplateAnalysis {
    /// Whether it takes something.
    pub fn support(&self, capability: Capability) -> &Support {
        let found = self.support.iter().find(|(known, _)| *known == capability);
        found.map_or(&Support::Unknown, |(_, support)| support)
    }

    /// Adds what is found once the tokenizer is known, by whether it writes the token that opens a text by itself.
    pub fn note_tokenizer(&mut self, adds_bos: bool) {
        self.findings.extend(finding::bos(&self.program, self.bos, adds_bos));
        self.findings.sort_by_key(Finding::order);
    }
}

/// What a template's program reads, compares and calls, and the switches among that: what an analysis knows without trying much.
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

/// Analyzes a template. Of the options, limits, the clock and switches are used; without a clock it is given one.
///
/// Everything that is tried out shares one [`ProbeBudget`]; a template that asks for more is refused with [`Error::Probes`].
pub fn analyze_template(template: &ChatTemplate, options: &TemplateOptions) -> Result<TemplateAnalysis, Error> {
    analyze_template_within(template, options, &ProbeBudget::default())
}

/// The same within a budget.
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
    // What came out after the budget had run out would be a guess.
    budget.check()?;
    Ok(TemplateAnalysis { calls, program, support, switches, bos, findings })
}

/// What the program reads, compares and calls; looking at it takes steps, too.
fn program(template: &ChatTemplate, options: &TemplateOptions, budget: &ProbeBudget) -> Result<jinja::Analysis, Error> {
    let program = template.program.analyze(&options.limits);
    budget.spend(program.as_ref().map_or_else(jinja::Error::steps, |program| program.steps));
    program.map_err(super::in_template)
}
