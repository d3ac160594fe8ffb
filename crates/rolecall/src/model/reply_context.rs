use std::sync::Arc;

use rolecall_conversation::{Json, object};
use rolecall_encode::Decoder;
use rolecall_grammar::{self as grammar, Grammar};
use rolecall_infer::LayoutWarning;
use rolecall_openai::Request;
use rolecall_parse::{OutputParser, ParseOptions, ReasoningSplit, Reply};

use super::{Model, ModelPrompt, offered_tools};
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
    reply: Arc<Reply>,
    asked: Asked,
    options: ParseOptions,
    warnings: Arc<[LayoutWarning]>,
}

/// What the reply answers.
#[derive(Clone, Debug)]
enum Asked {
    Request(Model, Arc<Request>),
    Prompt(Box<ModelPrompt>),
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

    /// Reports whether a call's id may come after its name, so that it replaces the generated one.
    pub fn has_late_ids(&self) -> bool {
        self.reply.has_late_ids()
    }

    /// Returns the context of the same reply after another prompt, of which the end is given.
    #[must_use]
    pub fn after_prompt(self, prompt_tail: impl Into<String>) -> ReplyContext {
        ReplyContext { options: ParseOptions { prompt_tail: prompt_tail.into(), ..self.options }, ..self }
    }

    /// Returns a parser for the reply's token ids. This loads the tokenizer.
    pub fn id_parser(&self) -> Result<IdParser, Error> {
        let (reply, decoder) = match &self.asked {
            Asked::Request(model, request) => (model.id_reply(request)?, model.decoder()?),
            Asked::Prompt(prompt) => prompt.id_reply()?,
        };
        Ok(IdParser::new(OutputParser::new(&reply, self.options.clone()), decoder))
    }

    /// Returns a grammar of what an engine may sample as the reply.
    ///
    /// The tools and the prompt's tail are those of the context. The tokens come from the tokenizer,
    /// if the model has one.
    pub fn grammar(&self, options: grammar::Options) -> Result<Grammar, Error> {
        let (layouts, model) = match &self.asked {
            Asked::Request(model, request) => (model.layouts(request)?, model),
            Asked::Prompt(prompt) => (prompt.layouts()?, &prompt.model),
        };
        let tools = self.options.tools.clone();
        let prompt_tail = Some(self.options.prompt_tail.clone());
        let options = grammar::Options { tools, prompt_tail, tokens: model.tokens_or(options.tokens)?, ..options };
        grammar::grammar(&layouts, &options).map_err(Error::Grammar)
    }

    /// Returns the parts of the reply that the layouts inferred from the chat template do not read,
    /// or that could not be verified.
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
        Ok(ReplyContext {
            reply: self.reply(&request)?,
            warnings: self.layout_warnings(&request)?,
            options: ParseOptions { prompt_tail, ..self.parse_options(&request, options)? },
            asked: Asked::Request(self.clone(), request),
        })
    }

    /// Returns the options for parsing the reply to a request: its tools, and the policies of the request
    /// or the model where the options have none. The end of the prompt stays that of the options.
    pub fn parse_options(&self, request: &Request, options: ParseOptions) -> Result<ParseOptions, Error> {
        let options = self.settings.of(request)?.policies(options);
        Ok(ParseOptions { tools: offered_tools(request), ..options })
    }

    /// Returns what is known about the reply to a request whose messages are
    /// [`assumed`](assumed_messages).
    ///
    /// The tools determine the types of arguments even if the format has no place to offer tools.
    pub fn assumed_reply_context(&self, request: Request, options: ParseOptions) -> Result<ReplyContext, Error> {
        match self.reply_context(request.clone(), options.clone()) {
            Err(Error::Render(rolecall_render::Error::NoPlace { .. })) if request.conversation.tools.is_some() => {
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
    /// Returns what is known about the reply to this prompt.
    ///
    /// The tools and the end of the prompt come from the prompt and override those of the options.
    pub fn reply_context(&self, options: ParseOptions) -> Result<ReplyContext, Error> {
        Ok(ReplyContext {
            reply: self.reply()?,
            warnings: self.layout_warnings()?,
            options: self.of(options)?,
            asked: Asked::Prompt(Box::new(self.clone())),
        })
    }

    pub(super) fn id_reply(&self) -> Result<(Arc<Reply>, Arc<Decoder>), Error> {
        let decoder = self.model.decoder()?;
        Ok((self.reply_of(Some(&decoder))?, decoder))
    }
}

/// Returns the messages that a reply is assumed to answer if its conversation is unknown: one user
/// message, `Hi`.
pub fn assumed_messages() -> Json {
    Json::Array(vec![Json::Object(object! { "role" => "user", "content" => "Hi" })])
}
