//! What a run of a template did with its inputs, kept until somebody asks for the account.

use std::sync::Arc;

use rolecall_conversation::Conversation;

use super::adapt::ReplacementValues;
use super::prepare::{Inputs, Trace};
use super::{ChatTemplate, TemplateOptions};
use crate::Account;

/// What a run of a template read and wrote of a conversation, from which its account follows. It costs less than the
/// account: a byte for each value, and the pieces of texts that are not written as a whole.
#[derive(Debug)]
pub struct RunRecord {
    /// What the run did with each value, in the order of the inputs.
    values: Box<[u8]>,
    trace: Trace,
    adapted: ReplacementValues,
    /// The output, if the account has to look at pieces of it.
    text: String,
    template: Arc<ChatTemplate>,
    options: TemplateOptions,
}

impl RunRecord {
    pub(super) fn new(
        inputs: &Inputs<'_>,
        trace: Trace,
        adapted: &ReplacementValues,
        text: &str,
        template: &Arc<ChatTemplate>,
        options: &TemplateOptions,
    ) -> RunRecord {
        let text = if trace.has_pieces() { text.to_owned() } else { String::new() };
        let (template, options) = (Arc::clone(template), options.clone());
        RunRecord { values: inputs.traces(), trace, adapted: adapted.clone(), text, template, options }
    }

    /// Returns the account of the conversation that was rendered.
    pub fn account(self, conversation: &Conversation) -> Account {
        let RunRecord { values, trace, adapted, text, template, options } = self;
        let inputs = Inputs::new(conversation, &template, &options, &adapted);
        inputs.set_traces(&values);
        inputs.account(conversation, &options, &adapted, trace, &text)
    }
}
