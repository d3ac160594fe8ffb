//! The layouts of a template's replies: inferred, with the calls that the tokenizer's tokens tell, and
//! with the known corrections.

use std::sync::Arc;

use rolecall_format::{Format, Slot};
use rolecall_infer::{LayoutWarning, Report, TurnPart, infer};
use rolecall_render::{ChatTemplate, TemplateCode};

use crate::templates::WatchedCode;

/// The layouts by which the replies of a template's model are parsed.
#[derive(Clone, Debug)]
pub struct ReplyLayouts {
    /// A format that contains only these layouts.
    pub format: Format,
    /// What was found out about each part before the corrections.
    pub report: Report,
    /// The formats whose corrections were applied, because models of their families deviate from the
    /// template.
    pub corrections: Vec<&'static str>,
    /// The parts that the layouts do not cover.
    pub warnings: Vec<LayoutWarning>,
}

/// Infers the layouts of a template's replies. `tokens` returns the texts of the control tokens of the
/// model's tokenizer, or nothing if the model has none; it is called only if the template does not tell
/// how the model writes calls.
///
/// ```
/// use rolecall::format::write_reply;
/// use rolecall::template::{ChatTemplate, infer_layouts};
/// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}";
/// let layouts = infer_layouts(&ChatTemplate::compile(source, Vec::new())?, Vec::new)?;
/// assert!(write_reply(&layouts.format).contains("{content}</s>"));
/// # Ok::<(), rolecall::Error>(())
/// ```
pub fn infer_layouts(
    template: &ChatTemplate,
    tokens: impl FnOnce() -> Vec<String>,
) -> Result<ReplyLayouts, rolecall_render::Error> {
    let watched = template.code().map(WatchedCode::of);
    let template = &match &watched {
        Some(watched) => template.clone().with_code(Arc::clone(watched) as Arc<dyn TemplateCode>),
        None => template.clone(),
    };
    let inferred = infer(template).complete();
    // Code that cannot be run looks like code that refuses a conversation.
    if let Some(error) = watched.as_ref().and_then(|watched| watched.unavailable()) {
        return Err(rolecall_render::Error::Code(error));
    }
    let mut inferred = inferred?;
    if inferred.lacks_calls() {
        inferred.borrow_calls(template, &tokens());
    }
    let mut warnings = inferred.warnings();
    let (format, corrections) = inferred.format.clone().corrected(template.source());
    // Text that a correction adds comes from a public source, not from the inference.
    let is_corrected = |slots: &[Slot]| slots.iter().any(|slot| format.layout(*slot) != inferred.format.layout(*slot));
    let calls = is_corrected(&[Slot::Call]);
    let turns = is_corrected(&[Slot::Assistant, Slot::AssistantWithCalls]);
    warnings.retain(|warning| match warning.part {
        TurnPart::Calls | TurnPart::ParallelCalls | TurnPart::Arguments | TurnPart::Ids => !calls,
        _ => !turns,
    });
    Ok(ReplyLayouts { format, report: inferred.report, corrections, warnings })
}
