//! Growth of a chat template's prompt.

use rolecall_conversation::Conversation;

use super::{Grown, Longer, NotGrown};
use crate::{ChatTemplate, Error, Prompt, TemplateOptions, render_template};

/// The state of a template's rendering.
#[derive(Debug)]
pub(super) struct TemplateGrowth;

pub(super) fn render(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<(Prompt, Option<TemplateGrowth>), Error> {
    Ok((render_template(conversation, template, options)?, None))
}

pub(super) fn grow(
    _growth: &TemplateGrowth,
    _longer: &Longer<'_>,
    _template: &ChatTemplate,
    _options: &TemplateOptions,
) -> Result<Grown, NotGrown> {
    Err(NotGrown::Unsupported("a template's loop"))
}
