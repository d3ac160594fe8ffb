use std::sync::Arc;

use rolecall_conversation::Conversation;
use rolecall_conversation::json::Object;
use rolecall_format::Format;
use rolecall_jinja::Spot;

use crate::{
    Account, ChatTemplate, EFFORT_SWITCH, Error, Options, ProbeBudget, Prompt, RunRecord, TemplateOptions, format,
    template,
};

/// What writes the prompts of conversations: a format or a chat template, with its options.
///
/// It is cheap to clone.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_format::builtin;
/// use rolecall_render::{ChatTemplate, Options, TemplateOptions, Writer};
///
/// let conversation = Conversation::new(vec![Message::user("Hello")]);
/// let chatml = builtin().get("chatml").expect("built in").clone();
/// let prompt = Writer::format(chatml, Options::default()).render(&conversation)?;
/// assert_eq!(prompt.text(), "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
///
/// let template = ChatTemplate::compile("{% for m in messages %}[{{ m.content }}]{% endfor %}", Vec::new())?;
/// let prompt = Writer::template(template, TemplateOptions::default()).render(&conversation)?;
/// assert_eq!(prompt.text(), "[Hello]");
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Writer {
    /// A format.
    Format(Arc<Format>, Options),
    /// A chat template.
    Template(Arc<ChatTemplate>, TemplateOptions),
}

impl Writer {
    /// Returns the writer of a format.
    pub fn format(format: impl Into<Arc<Format>>, options: Options) -> Writer {
        Writer::Format(format.into(), options)
    }

    /// Returns the writer of a chat template.
    pub fn template(template: impl Into<Arc<ChatTemplate>>, options: TemplateOptions) -> Writer {
        Writer::Template(template.into(), options)
    }

    /// Renders a conversation, with an origin for every byte.
    ///
    /// A template with [`Forms::AsGiven`](crate::Forms::AsGiven) writes the prompt of transformers.
    pub fn render(&self, conversation: &Conversation) -> Result<Prompt, Error> {
        match self {
            Writer::Format(format, options) => format::render(conversation, format, options),
            Writer::Template(template, options) => template::render(conversation, template, options),
        }
    }

    /// Renders a conversation as a probe. A template takes the steps from a budget that it shares with other probes.
    pub fn probe(&self, conversation: &Conversation, budget: &ProbeBudget) -> Result<Prompt, Error> {
        match self {
            Writer::Format(format, options) => format::render(conversation, format, options),
            Writer::Template(template, options) => template::probe(conversation, template, options, budget),
        }
    }

    /// Renders a conversation, with the account of what became of each of its leaves.
    ///
    /// ```
    /// use rolecall_conversation::{Conversation, json};
    /// use rolecall_format::builtin;
    /// use rolecall_render::{LeafKind, Options, Writer};
    /// let text = r#"{"messages": [{"role": "user", "content": "Hello", "label": "greeting"}]}"#;
    /// let conversation = Conversation::from_json(json::parse(text)?)?;
    /// let writer = Writer::format(builtin().get("chatml").expect("built in").clone(), Options::default());
    /// let (_, account) = writer.account(&conversation)?;
    /// let lost = account.of_kind(LeafKind::LeftOut).next().expect("the label");
    /// assert_eq!(lost.place.field, "label");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn account(&self, conversation: &Conversation) -> Result<(Prompt, Account), Error> {
        match self {
            Writer::Format(format, options) => {
                let prompt = format::render(conversation, format, options)?;
                let account = Account::by_origins(conversation, &prompt);
                Ok((prompt, account))
            }
            Writer::Template(template, options) => template::account(conversation, template, options),
        }
    }

    /// Renders a conversation, and keeps what its account follows from. Of a format's prompt, the origins tell the
    /// account ([`Account::by_origins`]), and nothing is kept.
    pub fn record(&self, conversation: &Conversation) -> Result<(Prompt, Option<RunRecord>), Error> {
        match self {
            Writer::Format(format, options) => Ok((format::render(conversation, format, options)?, None)),
            Writer::Template(template, options) => {
                let (prompt, record) = template::record(conversation, template, options)?;
                Ok((prompt, Some(record)))
            }
        }
    }

    /// Returns the place in the chat template that wrote a byte of a conversation's prompt. A format has none.
    ///
    /// For the template's own text, this is where the text stands in the template. For text of the conversation and
    /// for text that was built while rendering, it is the expression that wrote it to the output. The conversation is
    /// rendered again, so call this only for places that are shown.
    ///
    /// ```
    /// use rolecall_conversation::{Conversation, Message};
    /// use rolecall_render::{ChatTemplate, TemplateOptions, Writer};
    ///
    /// let source = "{% for m in messages %}\n<turn>\n{{ m.content }}\n{% endfor %}";
    /// let writer = Writer::template(ChatTemplate::compile(source, Vec::new())?, TemplateOptions::default());
    /// let conversation = Conversation::new(vec![Message::user("Hello")]);
    /// let line = |byte| writer.spot_at(&conversation, byte).map(|spot| Some(spot?.line));
    /// // The prompt is `<turn>`, a line break, `Hello`.
    /// assert_eq!((line(0)?, line(7)?, line(1000)?), (Some(2), Some(3), None));
    /// # Ok::<(), rolecall_render::Error>(())
    /// ```
    pub fn spot_at(&self, conversation: &Conversation, byte: usize) -> Result<Option<Spot>, Error> {
        match self {
            Writer::Format(..) => Ok(None),
            Writer::Template(template, options) => template::spot_at(conversation, template, options, byte),
        }
    }

    /// Returns the switches that a level of reasoning ([`EFFORTS`](crate::EFFORTS)) means beside the given ones, or `None`
    /// if the writer does not know the level. A format knows the values of its option `reasoning_effort`.
    pub fn effort_switches(&self, level: &str, given: &Object) -> Option<Object> {
        match self {
            Writer::Template(template, options) => template.effort_switches(level, options, given),
            Writer::Format(format, _) => {
                let choice = format.choices.iter().find(|choice| choice.name == EFFORT_SWITCH)?;
                let is_known = choice.values.iter().any(|value| value == level);
                is_known.then(|| [(EFFORT_SWITCH.to_owned(), level.into())].into_iter().collect())
            }
        }
    }

    /// Returns the format, or `None` if a chat template writes.
    pub fn as_format(&self) -> Option<&Arc<Format>> {
        match self {
            Writer::Format(format, _) => Some(format),
            Writer::Template(..) => None,
        }
    }

    /// Returns the chat template, or `None` if a format writes.
    pub fn as_template(&self) -> Option<&Arc<ChatTemplate>> {
        match self {
            Writer::Format(..) => None,
            Writer::Template(template, _) => Some(template),
        }
    }
}
