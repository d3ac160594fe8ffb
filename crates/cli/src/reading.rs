//! Parsing of model output: which layouts, prompts and tools apply to the outputs of a run.

use std::path::Path;

use rolecall::Request;
use rolecall::conversation::{Json, json, object};
use rolecall::encode::Protect;
use rolecall::infer::LayoutWarning;
use rolecall::model::{ReplyContext, assumed_messages};
use rolecall::parse::{Ids, ParseOptions};

use crate::args::{Chat, Layouts, OwnTemplate};
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::failure::Failure;
use crate::job::Job;
use crate::output::Output;
use crate::refusal::Refusal;

/// A run that parses model output.
pub struct ParseRun {
    pub job: Job,
}

impl ParseRun {
    /// Creates a reader. The tokenizer is that of the ids to parse, or none for text.
    pub fn new(layouts: &Layouts, tokenizer: Option<&Path>, output: &Output) -> Result<ParseRun, Failure> {
        let chat = Chat {
            named: layouts.named.clone(),
            options: layouts.options.clone(),
            bos_tokens: layouts.bos_tokens.clone(),
            eos_token: layouts.eos_token.clone(),
            ..Chat::default()
        };
        let own = OwnTemplate { template: layouts.template.clone(), running: layouts.running.clone(), forms: None };
        Ok(ParseRun { job: Job::open(&chat, &own, tokenizer, Protect::default(), output)? })
    }

    /// Returns what is known about the reply to a request. The end of the prompt comes from rendering the
    /// request, unless it is given.
    pub fn context(
        &self,
        request: Request,
        tail: Option<&str>,
        policies: &ParseOptions,
    ) -> Result<ReplyContext, Refusal> {
        let model = &self.job.model;
        Ok(match tail {
            Some(tail) => model.reply_context_after(&request, tail, policies.clone())?,
            None => model.reply_context(request, policies.clone())?,
        })
    }

    /// Like [`context`](Reader::context), for a request of which only the tools are known.
    pub fn context_of_tools(
        &self,
        tools: Option<Json>,
        tail: Option<&str>,
        policies: &ParseOptions,
    ) -> Result<ReplyContext, Refusal> {
        let request = request_of_one_word(tools)?;
        match tail {
            Some(_) => self.context(request, tail, policies),
            None => Ok(self.job.model.assumed_reply_context(request, policies.clone())?),
        }
    }

    /// Prints what the layouts of the replies to a request do not cover.
    pub fn warn_about(&self, request: &Request, output: &Output) -> Result<(), Refusal> {
        let context = self.job.model.reply_context_after(request, "", ParseOptions::default())?;
        self.warn(context.warnings(), output);
        Ok(())
    }

    /// Prints these warnings.
    pub fn warn(&self, warnings: &[LayoutWarning], output: &Output) {
        for warning in warnings {
            output.show(&Diagnostic {
                severity: Severity::Warning,
                code: warning.code(),
                message: warning.to_string(),
                place: DiagnosticPlace::Named(self.job.model.name().to_owned()),
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

/// Reads the tools of a file: a list, or the tools of a request.
pub fn tools_of(text: &str) -> Result<Option<Json>, Refusal> {
    Ok(match json::parse(text).map_err(rolecall_openai::Error::from)? {
        Json::Object(mut object) if object.get("tools").is_some() => object.remove("tools"),
        other => Some(other),
    })
}

/// Returns the policies with a call id seed for this line.
pub fn with_ids_of(policies: &ParseOptions, line: u64) -> ParseOptions {
    let ids = match policies.ids {
        Ids::Seeded(seed) => Ids::Seeded(seed.wrapping_add(line)),
        Ids::Nine(seed) => Ids::Nine(seed.wrapping_add(line)),
    };
    ParseOptions { ids, ..policies.clone() }
}
