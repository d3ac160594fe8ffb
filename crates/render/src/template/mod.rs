//! Conversations through a model's own chat template, a Jinja program.
//! In: a conversation and a [`ChatTemplate`]. Out: the same [`Prompt`] that a format gives.
//! Between: `prepare` makes of the conversation what transformers hands to a template, `finish` makes a prompt of what came out,
//! `continuing` cuts it inside the last message. `analysis` says what a template takes and does.

mod analysis;
mod continuing;
mod finish;
mod prepare;

use std::sync::Arc;

use rolecall_conversation::Conversation;
use rolecall_jinja as jinja;

use crate::{Error, Prompt};

use prepare::Inputs;

pub use analysis::{
    ArgumentForm, Capability, Finding, FindingKind, Support, Switch, TemplateAnalysis, analyze_template,
};
pub use jinja::{DateTime, Error as TemplateError, Limits};

/// A model's own chat template, compiled, with the special tokens that it may name.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_render::{ChatTemplate, TemplateOptions, render_template};
///
/// let source = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}";
/// let template = ChatTemplate::compile(source, vec![("bos_token".into(), "<s>".into())])?;
/// let conversation = Conversation::new(vec![Message::user("Hello <s>")]);
/// let prompt = render_template(&conversation, &template, &TemplateOptions::default())?;
/// assert_eq!(prompt.text(), "<s><|user|>Hello <s>\n");
/// assert_eq!(prompt.origin_at(11).and_then(|origin| origin.message()), Some(0));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    program: Arc<jinja::Template>,
    source: String,
    /// `bos_token`, `eos_token` and others, by name.
    tokens: Vec<(String, String)>,
}

/// How a conversation is rendered through a template.
#[derive(Clone, Debug, Default)]
pub struct TemplateOptions {
    /// What `strftime_now` tells the template; without it, a template that asks is refused.
    pub now: Option<DateTime>,
    /// How much a template may use.
    pub limits: Limits,
    /// Switches by name (`enable_thinking`), beside those that the conversation carries.
    pub kwargs: rolecall_conversation::json::Object,
}

impl ChatTemplate {
    /// Compiles a template.
    pub fn compile(source: &str, tokens: Vec<(String, String)>) -> Result<ChatTemplate, Error> {
        let program = jinja::Template::compile(source, &Limits::default()).map_err(Error::Template)?;
        Ok(ChatTemplate { program: Arc::new(program), source: source.to_owned(), tokens })
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The special tokens that the template may name.
    pub fn tokens(&self) -> &[(String, String)] {
        &self.tokens
    }
}

/// Renders a conversation as transformers does through the same template, every byte with its origin.
pub fn render_template(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<Prompt, Error> {
    let continued = continuing::mark(conversation)?;
    let (inputs, output) = run(conversation, template, options, continued.as_ref())?;
    let end = match &continued {
        Some(continued) => continued.cut(&inputs, &output)?,
        None => output.text().len(),
    };
    Ok(finish::prompt(conversation, &inputs, &output, end))
}

fn run<'a>(
    conversation: &'a Conversation,
    template: &'a ChatTemplate,
    options: &'a TemplateOptions,
    continued: Option<&'a continuing::Continued>,
) -> Result<(Inputs<'a>, jinja::Output), Error> {
    let inputs = Inputs::new(conversation, template, options, continued);
    let clock = options.now.as_ref().map(|now| now as &dyn jinja::Clock);
    let environment = jinja::Environment { limits: options.limits.clone(), clock, ..jinja::Environment::default() };
    let output = template.program.render(&inputs.context(), &environment).map_err(Error::Template)?;
    Ok((inputs, output))
}
