//! Parsing of model output: which layouts, prompts and tools apply to the outputs of a run.

use std::path::Path;
use std::sync::Arc;

use rolecall::Request;
use rolecall::conversation::{Json, object};
use rolecall::encode::Protect;
use rolecall::infer::LayoutWarning;
use rolecall::model::assumed_messages;
use rolecall::parse::{Ids, ParseOptions, Reply};

use crate::args::{Chat, Layouts, OwnTemplate};
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::failure::Failure;
use crate::job::Job;
use crate::output::Output;
use crate::refusal::Refusal;

/// A run that parses model output.
pub struct Reader {
    pub job: Job,
    /// Whether the outputs are token ids.
    reads_ids: bool,
}

/// Everything needed to parse one output.
pub struct Ready {
    pub reply: Arc<Reply>,
    pub options: ParseOptions,
    /// The parts that the layouts do not cover.
    pub warnings: Arc<[LayoutWarning]>,
}

impl Reader {
    /// Creates a reader. The tokenizer is that of the ids to parse, or none for text.
    pub fn new(
        layouts: &Layouts,
        tokenizer: Option<&Path>,
        reads_ids: bool,
        output: &Output,
    ) -> Result<Reader, Failure> {
        let chat = Chat {
            named: layouts.named.clone(),
            options: layouts.options.clone(),
            bos_tokens: layouts.bos_tokens.clone(),
            eos_token: layouts.eos_token.clone(),
            ..Chat::default()
        };
        let own =
            OwnTemplate { template: layouts.template.clone(), running: layouts.running.clone(), tool_calls: None };
        Ok(Reader { job: Job::open(&chat, &own, tokenizer, Protect::default(), output)?, reads_ids })
    }

    /// Prepares to parse the output for a request. The end of the prompt comes from rendering the
    /// request, unless it is given.
    pub fn ready(&self, request: Request, tail: Option<&str>, policies: &ParseOptions) -> Result<Ready, Refusal> {
        let request = Arc::new(speaking(request));
        let prompt_tail = match tail {
            Some(tail) => tail.to_owned(),
            None => self.job.model.prompt_tail(Arc::clone(&request))?,
        };
        self.ready_behind(&request, prompt_tail, policies)
    }

    /// Like [`ready`](Reader::ready), with the end of the prompt already rendered.
    pub fn ready_behind(
        &self,
        request: &Request,
        prompt_tail: String,
        policies: &ParseOptions,
    ) -> Result<Ready, Refusal> {
        let model = &self.job.model;
        let options = model.parse_options(request, policies.clone())?;
        let reply = if self.reads_ids { model.id_reply(request) } else { model.reply(request) };
        let warnings = model.layout_warnings(request)?;
        Ok(Ready { reply: reply?, options: ParseOptions { prompt_tail, ..options }, warnings })
    }

    /// Prints what the layouts of the replies to a request do not cover.
    pub fn warn_about(&self, request: &Request, output: &Output) -> Result<(), Refusal> {
        self.warn(&self.job.model.layout_warnings(request)?, output);
        Ok(())
    }

    /// Prints these warnings.
    pub fn warn(&self, warnings: &[LayoutWarning], output: &Output) {
        for warning in warnings {
            output.show(&Diagnostic {
                severity: Severity::Warning,
                code: warning.code(),
                message: warning.to_string(),
                place: Place::Named(self.job.model.name().to_owned()),
                help: Vec::new(),
            });
        }
    }
}

/// Returns the request that an output is assumed to answer if only the offered tools are known.
pub fn request_of_one_word(tools: Option<Json>) -> Result<Request, Refusal> {
    let mut request = object! { "messages" => assumed_messages() };
    if let Some(tools) = tools {
        request.insert("tools", tools);
    }
    Ok(Request::from_json(Json::Object(request))?)
}

/// Returns the policies with a call id seed for this line.
pub fn with_ids_of(policies: &ParseOptions, line: u64) -> ParseOptions {
    let ids = match policies.ids {
        Ids::Seeded(seed) => Ids::Seeded(seed.wrapping_add(line)),
        Ids::Nine(seed) => Ids::Nine(seed.wrapping_add(line)),
    };
    ParseOptions { ids, ..policies.clone() }
}

/// Makes the request end with the generation prompt, unless it continues its last message.
pub fn speaking(mut request: Request) -> Request {
    if !request.conversation.continue_final_message {
        request.conversation.add_generation_prompt = Some(true);
    }
    request
}
