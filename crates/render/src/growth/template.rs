//! Growth of a chat template's prompt.

use std::sync::Arc;

use rolecall_conversation::Conversation;

use super::{Grown, Growth, GrowthKind, Longer, NotGrown};
use crate::template::growing;
use crate::{ChatTemplate, Error, Prompt, TemplateOptions};

pub(super) use growing::TemplateGrowth;

pub(super) fn render(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<(Prompt, Option<TemplateGrowth>), Error> {
    growing::render(conversation, template, options)
}

pub(super) fn grow(
    growth: &TemplateGrowth,
    longer: &Longer<'_>,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<Grown, NotGrown> {
    let (start, prompt, growth) = growing::grow(growth, longer, template, options)?;
    Ok(Grown { start, prompt, growth: growth.map(|growth| Growth(GrowthKind::Template(Arc::new(growth)))) })
}
