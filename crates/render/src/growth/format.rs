//! Growth of a format's prompt.

use rolecall_conversation::Conversation;
use rolecall_format::Format;

use super::{Grown, Longer, NotGrown};
use crate::{Error, Options, Prompt};

/// The state of a format's rendering.
#[derive(Debug)]
pub(super) struct FormatGrowth;

pub(super) fn render(
    conversation: &Conversation,
    format: &Format,
    options: &Options,
) -> Result<(Prompt, Option<FormatGrowth>), Error> {
    Ok((crate::render(conversation, format, options)?, None))
}

pub(super) fn grow(
    _growth: &FormatGrowth,
    _longer: &Longer<'_>,
    _format: &Format,
    _options: &Options,
) -> Result<Grown, NotGrown> {
    Err(NotGrown::Unsupported("a format's turns"))
}
