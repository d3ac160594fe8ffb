use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};

use super::body::Body;
use super::id::answer_id;
use super::output::Status;
use crate::Fault;
use crate::clock::now;
use crate::reply::usage::{Usage, whole};
use crate::request::chat_request::ChatRequest;
use crate::request::number::of_double;

/// The answer that a client gets, apart from what the model says.
#[derive(Debug)]
pub struct ResponseObject {
    /// What its id and those of its items have in common.
    pub own: String,
    created: i64,
    completed: Option<i64>,
    /// What the request asked for, as the answer repeats it.
    request: Object,
    /// What was done with the conversation so far, and the number of ids that were kept.
    session: Option<(&'static str, u64)>,
}

/// How far an answer is.
pub enum Stage<'a> {
    Begun,
    Ended(Status, &'a Usage),
    Failed(&'a Fault),
}

impl ResponseObject {
    pub fn new(own: String, body: &Body, wanted: &ChatRequest, calls_are_parallel: bool) -> ResponseObject {
        let text = |text: &Option<String>| text.as_deref().map_or(Json::Null, Json::from);
        let double = |value: Option<f64>| value.map_or(Json::Null, of_double);
        let effort = body.effort.as_ref().map_or(Json::Null, |effort| effort.0.as_str().into());
        let mut request = object! {
            "background" => false, "instructions" => text(&body.instructions),
            "max_output_tokens" => body.most_ids.map_or(Json::Null, |most| whole(most).into()),
            "max_tool_calls" => Json::Null, "model" => wanted.served.name.as_str(),
            "parallel_tool_calls" => calls_are_parallel, "previous_response_id" => text(&body.previous),
            "reasoning" => object! { "effort" => effort, "summary" => Json::Null }, "service_tier" => "default",
            "store" => body.is_stored, "temperature" => double(wanted.sampling.temperature),
            "text" => object! { "format" => body.format.clone() }, "tool_choice" => body.tools.shown_choice.clone(),
            "tools" => body.tools.shown.clone(), "top_logprobs" => i64::from(wanted.logprobs.unwrap_or(0)), "top_p" => double(wanted.sampling.top_p),
            "truncation" => "disabled",
        };
        body.labels.iter().for_each(|(key, value)| request.insert(key, value.clone()));
        ResponseObject { own, created: now(), completed: None, request, session: None }
    }

    /// Sets what was done with the conversation so far.
    pub fn begin(&mut self, history: &'static str, kept: u64) {
        self.session = Some((history, kept));
    }

    /// Returns the answer with what the model said.
    pub fn at_stage(&mut self, stage: &Stage<'_>, output: Vec<Json>) -> Json {
        let (status, usage) = match stage {
            Stage::Begun => (Status::InProgress.name(), Json::Null),
            Stage::Ended(status, usage) => (status.name(), to_usage(usage)),
            Stage::Failed(_) => ("failed", Json::Null),
        };
        let error = match stage {
            // The one of the API's codes that is not about the request.
            Stage::Failed(fault) => object! { "code" => "server_error", "message" => &*fault.message }.into(),
            _ => Json::Null,
        };
        let mut details = Json::Null;
        let mut completed = Json::Null;
        match stage {
            Stage::Ended(Status::Completed, _) => completed = (*self.completed.get_or_insert_with(now)).into(),
            Stage::Ended(..) => details = object! { "reason" => "max_output_tokens" }.into(),
            _ => {}
        }
        let mut answer = object! {
            "id" => answer_id(&self.own), "object" => "response", "created_at" => self.created,
            "completed_at" => completed, "status" => status, "error" => error, "incomplete_details" => details,
            "output" => output, "usage" => usage,
        };
        self.request.iter().for_each(|(key, value)| answer.insert(key, value.clone()));
        if let Some((history, kept)) = self.session {
            answer.insert("rolecall", object! { "history" => history, "kept_tokens" => whole(kept) }.into());
        }
        answer.into()
    }
}

/// Returns the usage in the shape of this API. Its models need all counts, so those that the engine does
/// not tell are 0.
fn to_usage(usage: &Usage) -> Json {
    let mut input = object! { "cached_tokens" => 0, "cache_write_tokens" => 0 };
    usage.prompt_details().iter().for_each(|(key, value)| input.insert(key, value.clone()));
    let output = object! { "reasoning_tokens" => whole(usage.reasoning) };
    object! {
        "input_tokens" => whole(usage.prompt), "input_tokens_details" => input,
        "output_tokens" => whole(usage.reply), "output_tokens_details" => output,
        "total_tokens" => whole(usage.prompt.saturating_add(usage.reply)),
    }
    .into()
}
