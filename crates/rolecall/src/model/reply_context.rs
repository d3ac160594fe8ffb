use std::sync::Arc;

use rolecall_conversation::{Json, Tool, object};
use rolecall_format::Format;
use rolecall_grammar::{self as grammar, Grammar};
use rolecall_infer::LayoutWarning;
use rolecall_openai::Request;
use rolecall_parse::{OutputParser, ParseOptions, ReasoningSplit, Reply};

use super::setup::{Setup, layout_texts, reads};
use super::writer::{ModelWriter, Resolved};
use super::{Model, ModelPrompt, Purpose, offered_tools};
use crate::Error;
use crate::parse::IdParser;

/// What is known about a reply before it arrives: its layouts, the offered tools, and how the prompt
/// ends. It makes any number of parsers, for text and for ids, and grammars.
///
/// ```
/// use rolecall::parse::ParseOptions;
/// use rolecall::{Model, Reading, Request, Stop};
/// let model = Model::open("qwen2.5")?;
/// let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Hello"}]}"#)?;
/// let context = model.reply_context(request, ParseOptions::default())?;
/// let (mut parser, mut reading) = (context.text_parser(), Reading::default());
/// parser.push_text("Hi!<|im_end|>", &mut |event| reading.add(&event));
/// parser.finish(Stop::End, &mut |event| reading.add(&event));
/// assert_eq!(reading.content, "Hi!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReplyContext {
    model: Model,
    writer: Arc<ModelWriter>,
    /// How the format spells its control tokens, if that was chosen.
    spelling: Option<String>,
    reply: Arc<Reply>,
    options: ParseOptions,
    warnings: Arc<[LayoutWarning]>,
    /// The setup of the session that awaits the reply, which has the stops, and the last parser for ids.
    setup: Option<Arc<Setup>>,
}

impl ReplyContext {
    /// Returns a parser for the reply's text.
    pub fn text_parser(&self) -> OutputParser {
        OutputParser::new(&self.reply, self.options.clone())
    }

    /// Returns a splitter of the reply's text into its reasoning and the rest.
    pub fn reasoning_split(&self) -> ReasoningSplit {
        ReasoningSplit::new(self.text_parser())
    }

    /// Returns a parser for the text after the reasoning, as the splitter returns it.
    pub fn parser_after_reasoning(&self) -> OutputParser {
        OutputParser::after_reasoning(&self.reply, self.options.clone())
    }

    /// Returns the texts that open and close reasoning, such as `<think>` and `</think>`, if the replies
    /// have it.
    pub fn around_reasoning(&self) -> Option<(&str, &str)> {
        self.reply.around_reasoning()
    }

    /// Reports whether calls are read.
    pub fn reads_calls(&self) -> bool {
        self.reply.reads_calls()
    }

    /// Reports whether a call's id may come after its name, so that it replaces the generated one.
    pub fn has_late_ids(&self) -> bool {
        self.reply.has_late_ids()
    }

    /// Returns the context of the same reply after another prompt, of which the end is given.
    #[must_use]
    pub fn after_prompt(self, prompt_tail: impl Into<String>) -> ReplyContext {
        ReplyContext { options: ParseOptions { prompt_tail: prompt_tail.into(), ..self.options }, setup: None, ..self }
    }

    /// Adds the setup of a session.
    pub(super) fn with_setup(self, setup: Arc<Setup>) -> ReplyContext {
        ReplyContext { setup: Some(setup), ..self }
    }

    /// Returns how the reply's text is parsed. Several parsers can share it.
    pub fn reply(&self) -> &Arc<Reply> {
        &self.reply
    }

    /// Returns the offered tools, including those of messages.
    pub fn tools(&self) -> &[Tool] {
        &self.options.tools
    }

    /// Returns the end of the prompt.
    pub fn prompt_tail(&self) -> &str {
        &self.options.prompt_tail
    }

    /// Returns the layouts of the reply: those of the format, or those inferred from the chat template.
    pub fn layouts(&self) -> Result<Arc<Format>, Error> {
        self.model.layouts_by(&self.writer)
    }

    /// Returns a parser for the reply's token ids. This loads the tokenizer.
    pub fn id_parser(&self) -> Result<IdParser, Error> {
        if let Some(setup) = &self.setup {
            return Ok(setup.id_parser(&self.options.prompt_tail, self.options.ids));
        }
        let decoder = self.model.decoder()?;
        let reply = self.model.reply_by(&self.writer, self.spelling.as_deref(), Some(&decoder))?;
        Ok(IdParser::new(OutputParser::new(&reply, self.options.clone()), decoder))
    }

    /// Returns the ids that may end the reply, each with whether the layouts of a reply read it. Those that
    /// they read must be passed to the parser, because they mean something to it. The others end the reply
    /// and are no part of it. This loads the tokenizer.
    ///
    /// ```no_run
    /// use rolecall::{Model, Request};
    /// let model = Model::open("path/to/model")?;
    /// let prompt = model.prompt(Request::from_text(r#"[{"role": "user", "content": "Hi"}]"#)?)?;
    /// for (id, is_read) in prompt.reply()?.stops()? {
    ///     println!("{id} {is_read}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stops(&self) -> Result<Vec<(u32, bool)>, Error> {
        if let Some(setup) = &self.setup {
            return Ok(setup.stops().collect());
        }
        let (read, tokenizer) = (layout_texts(&*self.layouts()?), self.model.tokenizer()?);
        let stops = self.model.stops_of(&self.writer)?;
        Ok(stops.ids().map(|id| (id, reads(&read, tokenizer.token_text(id)))).collect())
    }

    /// Returns a grammar of what an engine may sample as the reply.
    ///
    /// The tools and the prompt's tail are those of the context. The tokens come from the tokenizer,
    /// if the model has one.
    pub fn grammar(&self, options: grammar::Options) -> Result<Grammar, Error> {
        let tools = self.options.tools.clone();
        let prompt_tail = Some(self.options.prompt_tail.clone());
        let options = grammar::Options { tools, prompt_tail, tokens: self.model.tokens_or(options.tokens)?, ..options };
        grammar::grammar(&*self.layouts()?, &options).map_err(Error::Grammar)
    }

    /// Returns the parts of the reply that the layouts inferred from the chat template do not read,
    /// or that could not be verified. The layouts of a format have no such parts.
    ///
    /// ```
    /// use rolecall::parse::ParseOptions;
    /// use rolecall::template::ModelTemplates;
    /// use rolecall::{Model, Request};
    /// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
    /// let templates = ModelTemplates::from_json(&source.into())?;
    /// let model = Model::builder().templates(templates).open()?;
    /// let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Hello"}]}"#)?;
    /// assert!(model.reply_context(request, ParseOptions::default())?.warnings().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn warnings(&self) -> &[LayoutWarning] {
        &self.warnings
    }
}

impl Model {
    /// Returns what is known about the reply to a request.
    ///
    /// The tools and the end of the prompt come from the request and override those of the options.
    pub fn reply_context(&self, mut request: Request, options: ParseOptions) -> Result<ReplyContext, Error> {
        if !request.conversation.continue_final_message {
            request.conversation.add_generation_prompt = Some(true);
        }
        let request = Arc::new(request);
        let prompt_tail = self.prompt_tail(Arc::clone(&request))?;
        self.reply_context_after(&request, prompt_tail, options)
    }

    /// Returns what is known about the reply to a request whose prompt ends with this text. Nothing is
    /// rendered.
    ///
    /// The tools come from the request and override those of the options.
    pub fn reply_context_after(
        &self,
        request: &Request,
        prompt_tail: impl Into<String>,
        options: ParseOptions,
    ) -> Result<ReplyContext, Error> {
        let Resolved { settings, writer } = self.resolve(request, Purpose::Answer)?;
        let spelling = settings.spelling(&request.conversation).map(str::to_owned);
        let (tools, prompt_tail) = (offered_tools(request), prompt_tail.into());
        let options = ParseOptions { tools, prompt_tail, ..settings.policies(options) };
        self.context_of(writer.into(), spelling, options)
    }

    pub(super) fn context_of(
        &self,
        writer: Arc<ModelWriter>,
        spelling: Option<String>,
        options: ParseOptions,
    ) -> Result<ReplyContext, Error> {
        Ok(ReplyContext {
            reply: self.reply_by(&writer, spelling.as_deref(), None)?,
            warnings: self.layout_warnings_by(&writer)?,
            model: self.clone(),
            writer,
            spelling,
            options,
            setup: None,
        })
    }

    /// Returns what is known about the reply to a request whose messages are
    /// [`assumed`](assumed_messages).
    ///
    /// The tools determine the types of arguments even if the format has no place to offer tools.
    pub fn assumed_reply_context(&self, request: Request, options: ParseOptions) -> Result<ReplyContext, Error> {
        match self.reply_context(request.clone(), options.clone()) {
            Err(Error::Render(rolecall_render::Error::NoPlace { .. } | rolecall_render::Error::ToolText { .. }))
                if request.conversation.tools.is_some() =>
            {
                let mut plain = request;
                let tools = plain.conversation.tools.take().unwrap_or_default();
                let context = self.reply_context(plain, options)?;
                Ok(ReplyContext { options: ParseOptions { tools, ..context.options }, ..context })
            }
            context => context,
        }
    }
}

impl ModelPrompt {
    /// Returns what is known about the reply to this prompt, with the policies of the model and the request.
    pub fn reply(&self) -> Result<ReplyContext, Error> {
        self.reply_context(ParseOptions::default())
    }

    /// Returns what is known about the reply to this prompt.
    ///
    /// The tools and the end of the prompt come from the prompt and override those of the options.
    pub fn reply_context(&self, options: ParseOptions) -> Result<ReplyContext, Error> {
        let policies = self.model.settings.of(&self.request)?.policies(options);
        let options = ParseOptions { tools: self.tools(), prompt_tail: self.prompt.text().to_owned(), ..policies };
        self.model.context_of(Arc::clone(&self.writer), self.spelling.clone(), options)
    }
}

/// Returns the messages that a reply is assumed to answer if its conversation is unknown: one user
/// message, `Hi`.
pub fn assumed_messages() -> Json {
    Json::Array(vec![Json::Object(object! { "role" => "user", "content" => "Hi" })])
}
