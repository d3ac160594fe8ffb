//! Input items: what a client says, and what it sends back of earlier answers.

use std::collections::HashMap;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Call, Json, object};

use super::field::{get, list, missing, needed_text, object, refuse_others, text, typed_text, unsupported, wrong};
use super::id::{answer_of, item_id, kind_of, reply_of};
use super::input_file::{AttachedFile, UploadedFiles, UserContent};
use super::input_mcp::{Approvals, PendingCall};
use super::mcp_context::McpContext;
use super::places::{MessageItems, Places};
use super::result_order::ResultOrder;
use crate::{Fault, FaultCode};

/// The input of a request.
#[derive(Debug, Default)]
pub struct Input {
    /// The messages that it means. The items of one turn of the model are one message.
    pub messages: Vec<Json>,
    pub places: Places,
    /// The items as they are shown later, each with an id.
    pub items: Vec<Json>,
    /// The calls that the client has approved and that have no result yet.
    pub approved: Vec<PendingCall>,
    /// The lists of tools among the items, by their servers: digests.
    pub listed: Object,
    /// The files that messages attach.
    pub files: Vec<AttachedFile>,
}

/// Reads a text, or a list of items. Those of the answer that the input goes on from are known, and not sent again.
/// Results of its calls that ran here are messages, too.
pub fn read(input: &Json, previous: Option<&str>, context: &McpContext) -> Result<Input, Fault> {
    let approvals = Approvals::of(&context.approvals);
    let mut messages = context.results.clone();
    if let Some(text) = input.as_str() {
        approvals.check_answered()?;
        let part = object! { "type" => "input_text", "text" => text };
        messages.push(object! { "role" => "user", "content" => text }.into());
        return Ok(Input {
            messages,
            places: Places::of_text(),
            items: vec![shown_message("user", vec![part.into()], item_id("msg", &super::id::new(), 0))],
            ..Input::default()
        });
    }
    let items = input.as_array().ok_or_else(|| wrong("input", "a text or a list of items", input))?;
    if items.is_empty() {
        return Err(missing("input"));
    }
    let known = previous.and_then(|answer| answer.strip_prefix("resp_")).map(str::to_owned);
    let places = vec![None; messages.len()];
    let uploaded = context.files.clone();
    let own = super::id::new();
    let mut reader = InputReader { messages, places, own, known, approvals, uploaded, ..InputReader::default() };
    for (index, item) in items.iter().enumerate() {
        reader.read(index, item)?;
    }
    reader.close();
    if reader.messages.len() == context.results.len() {
        return Err(Fault::at("input", FaultCode::MissingField, "input: the items say nothing"));
    }
    let mut approved = reader.approvals.finish(&reader.messages)?;
    let InputReader { messages, places, items, listed, files, .. } = reader;
    let order = ResultOrder::of(&messages, &context.calls);
    let (messages, places) = (order.apply(messages), order.apply(places));
    approved.iter_mut().for_each(|call| call.message = order.place(call.message));
    Ok(Input { messages, places: Places::of_items(places), items, approved, listed, files })
}

/// Puts items together to messages.
#[derive(Default)]
pub(super) struct InputReader {
    pub(super) messages: Vec<Json>,
    /// Of each message, the items that it comes from, unless it is of the answer before.
    places: Vec<Option<MessageItems>>,
    pub(super) items: Vec<Json>,
    open: Option<Open>,
    /// What the ids of items without one are made of.
    own: String,
    /// What the ids of the items of the answer before have in common.
    known: Option<String>,
    /// By the ids of calls of the code interpreter, the ids to which their results refer.
    codes: HashMap<String, String>,
    pub(super) approvals: Approvals,
    pub(super) listed: Object,
    uploaded: UploadedFiles,
    files: Vec<AttachedFile>,
}

/// A turn of the model whose items are being read.
#[derive(Default)]
pub(super) struct Open {
    /// The reply that the items come from, if their ids say so.
    answer: Option<String>,
    content: Option<String>,
    reasoning: String,
    calls: Vec<Json>,
    /// The results of those of its calls that ran here, each with the index of its item.
    pub(super) results: Vec<(usize, Object)>,
    place: MessageItems,
}

impl InputReader {
    fn read(&mut self, index: usize, item: &Json) -> Result<(), Fault> {
        let path = format!("input[{index}]");
        let item = object(item, &path)?;
        let kind = match text(item, &path, "type")? {
            Some(kind) => kind,
            // The type of a message may be left out.
            None if get(item, "role").is_some() => "message",
            None => return Err(missing(&format!("{path}.type"))),
        };
        let id = text(item, &path, "id")?;
        if self.known.is_some() && id.and_then(answer_of) == self.known.as_deref() {
            let field = format!("{path}.id");
            let message = format!("{field}: the answer of `previous_response_id` has this item");
            let help = Some(
                "leave the item out; send the result of a call as `function_call_output` with its `call_id`".into(),
            );
            return Err(Fault { help, ..Fault::at(&field, FaultCode::Conflict, message) });
        }
        match kind {
            "message" => self.read_message(index, &path, item, id),
            "reasoning" => self.read_reasoning(index, &path, item, id),
            "function_call" => self.read_call(index, &path, item, id),
            "function_call_output" => self.read_output(index, &path, item, id),
            "code_interpreter_call" => self.read_code(index, &path, item, id),
            "mcp_list_tools" => self.read_mcp_list(index, &path, item, id),
            "mcp_call" => self.read_mcp_call(index, &path, item, id),
            "mcp_approval_request" => self.read_mcp_request(index, &path, item, id),
            "mcp_approval_response" => self.read_mcp_response(index, &path, item, id),
            kind => {
                let path = format!("{path}.type");
                let message = format!("{path}: the gateway does not support items of the type `{kind}`");
                let help =
                    "use message, reasoning, function_call, function_call_output, code_interpreter_call and those of MCP"
                        .into();
                Err(Fault { help: Some(help), ..Fault::at(&path, FaultCode::UnsupportedItem, message) })
            }
        }
    }

    fn read_message(&mut self, index: usize, path: &str, item: &Object, id: Option<&str>) -> Result<(), Fault> {
        refuse_others(item, path, &["type", "role", "content", "id", "status"])?;
        let role = needed_text(item, path, "role")?;
        let content_path = format!("{path}.content");
        let content = get(item, "content").ok_or_else(|| missing(&content_path))?;
        let given = id;
        let id = self.id_of("msg", index, id);
        if let (Json::Array(parts), "user") = (content, role) {
            let UserContent { mut chat, shown, files } = self.uploaded.read(parts, &content_path)?;
            self.files.extend(files);
            let only = match &chat[..] {
                [part] => part.as_object().and_then(|part| part.get("text")).cloned(),
                _ => None,
            };
            let content = only.unwrap_or_else(|| std::mem::take(&mut chat).into());
            self.items.push(shown_message(role, shown, id));
            self.push(index, object! { "role" => role, "content" => content });
            return Ok(());
        }
        let parts = texts(content, &content_path)?;
        match role {
            "assistant" => {
                let said: String = parts.concat();
                let answer = reply_of(&id);
                let goes_on = self.goes_on(given, answer.as_deref());
                let open = self.open(index, goes_on, answer);
                open.content.get_or_insert_default().push_str(&said);
                open.place.content = index;
                let part = |text: &String| {
                    let nothing = Vec::<Json>::new();
                    object! { "type" => "output_text", "text" => text.as_str(), "annotations" => nothing }.into()
                };
                self.items.push(shown_message(role, parts.iter().map(part).collect(), id));
            }
            "user" | "system" | "developer" => {
                let part = |kind: &str| {
                    let part = |text: &String| object! { "type" => kind, "text" => text.as_str() }.into();
                    parts.iter().map(part).collect::<Vec<Json>>()
                };
                let content = match &parts[..] {
                    [text] => Json::from(text.as_str()),
                    _ => part("text").into(),
                };
                self.items.push(shown_message(role, part("input_text"), id));
                self.push(index, object! { "role" => role, "content" => content });
            }
            _ => {
                let wrong = format!("{path}.role: expected \"user\", \"assistant\", \"system\" or \"developer\"");
                return Err(Fault::at(&format!("{path}.role"), FaultCode::WrongValue, wrong));
            }
        }
        Ok(())
    }

    fn read_reasoning(&mut self, index: usize, path: &str, item: &Object, id: Option<&str>) -> Result<(), Fault> {
        refuse_others(item, path, &["type", "id", "summary", "content", "encrypted_content", "status"])?;
        let parts = |key: &str, kind: &str| match get(item, key) {
            None => Ok(Vec::new()),
            Some(parts) => typed_texts(parts, &format!("{path}.{key}"), &[kind]),
        };
        let (content, summary) = (parts("content", "reasoning_text")?, parts("summary", "summary_text")?);
        if content.is_empty() {
            let plain = "send the reasoning itself as `content`, or leave the item out";
            if text(item, path, "encrypted_content")?.is_some() {
                return Err(unsupported(&format!("{path}.encrypted_content"), plain));
            }
            if !summary.is_empty() {
                return Err(unsupported(&format!("{path}.summary"), plain));
            }
        }
        let given = id;
        let id = self.id_of("rs", index, id);
        let answer = reply_of(&id);
        let goes_on = self.goes_on(given, answer.as_deref());
        let open = self.open(index, goes_on, answer);
        content.iter().for_each(|text| open.reasoning.push_str(text));
        open.place.reasoning = index;
        let part =
            |kind: &'static str| move |text: &String| Json::from(object! { "type" => kind, "text" => text.as_str() });
        let summary: Vec<Json> = summary.iter().map(part("summary_text")).collect();
        let content: Vec<Json> = content.iter().map(part("reasoning_text")).collect();
        self.items
            .push(object! { "id" => id, "type" => "reasoning", "summary" => summary, "content" => content }.into());
        Ok(())
    }

    fn read_call(&mut self, index: usize, path: &str, item: &Object, id: Option<&str>) -> Result<(), Fault> {
        refuse_others(item, path, &["type", "id", "call_id", "name", "arguments", "status"])?;
        let call_id = needed_text(item, path, "call_id")?;
        let name = needed_text(item, path, "name")?;
        let arguments = needed_text(item, path, "arguments")?;
        let function = object! { "name" => name, "arguments" => arguments };
        let call: Json = object! { "id" => call_id, "type" => "function", "function" => function }.into();
        check_call(&call, path)?;
        let given = id;
        let id = self.id_of("fc", index, id);
        self.add_call(index, given, &id, call);
        let shown = object! {
            "id" => id, "type" => "function_call", "status" => "completed", "call_id" => call_id, "name" => name,
            "arguments" => arguments,
        };
        self.items.push(shown.into());
        Ok(())
    }

    /// Reads a call of the code interpreter, with what the code wrote if it was run.
    fn read_code(&mut self, index: usize, path: &str, item: &Object, id: Option<&str>) -> Result<(), Fault> {
        refuse_others(item, path, &["type", "id", "call_id", "code", "container_id", "outputs", "status"])?;
        let code = needed_text(item, path, "code")?;
        let logs = get(item, "outputs").map(|outputs| logs(outputs, &format!("{path}.outputs"))).transpose()?;
        let own = self.id_of("ci", index, id);
        // OpenAI's item has no other id.
        let call_id = text(item, path, "call_id")?.unwrap_or(&own).to_owned();
        let call = object! {
            "id" => call_id.as_str(), "type" => "code_interpreter",
            "code_interpreter" => object! { "input" => code },
        };
        self.codes.insert(own.clone(), call_id.clone());
        self.add_call(index, id, &own, call.into());
        if let Some(logs) = &logs {
            self.push(
                index,
                object! { "role" => "tool", "tool_call_id" => call_id.as_str(), "content" => logs.as_str() },
            );
        }
        let shown = object! {
            "id" => own, "type" => "code_interpreter_call", "status" => "completed", "call_id" => call_id,
            "code" => code, "container_id" => text(item, path, "container_id")?.unwrap_or_default(),
            "outputs" => get(item, "outputs").cloned().unwrap_or(Json::Null),
        };
        self.items.push(shown.into());
        Ok(())
    }

    /// Adds a call to the open turn of the model, which begins with it if there is none.
    pub(super) fn add_call(&mut self, index: usize, given: Option<&str>, id: &str, call: Json) -> &mut Open {
        let goes_on = self.goes_on_after_results(given);
        let open = self.open(index, goes_on, reply_of(id));
        open.calls.push(call);
        open.place.calls.push(index);
        open
    }

    /// Reports whether a text or reasoning belongs to the open turn of the model. `given` is the id of its item as it was sent.
    fn goes_on(&self, given: Option<&str>, answer: Option<&str>) -> bool {
        let Some(open) = &self.open else { return false };
        let is_before = open.content.is_none() && open.calls.is_empty();
        self.goes_on_after_results(given) && (is_before || (answer.is_some() && open.answer.as_deref() == answer))
    }

    /// Reports whether an item belongs to the open turn of the model, of which results are known only if its calls ran here.
    fn goes_on_after_results(&self, given: Option<&str>) -> bool {
        let Some(open) = &self.open else { return false };
        let answer = given.and_then(reply_of);
        open.results.is_empty() || (answer.is_some() && open.answer == answer)
    }

    fn read_output(&mut self, index: usize, path: &str, item: &Object, id: Option<&str>) -> Result<(), Fault> {
        refuse_others(item, path, &["type", "id", "call_id", "output", "name", "status"])?;
        let call_id = needed_text(item, path, "call_id")?;
        let code = self.codes.get(call_id).cloned();
        if code.is_none() && kind_of(call_id) == Some("ci") {
            let field = format!("{path}.call_id");
            let help = Some("send the `call_id` of the item".into());
            let message = format!("{field}: this is the id of an item, and not of its call");
            return Err(Fault { help, ..Fault::at(&field, FaultCode::WrongValue, message) });
        }
        let call_id = code.as_deref().unwrap_or(call_id);
        let output_path = format!("{path}.output");
        let output = get(item, "output").ok_or_else(|| missing(&output_path))?;
        let parts = texts(output, &output_path)?;
        let content = match &parts[..] {
            [text] => Json::from(text.as_str()),
            parts => {
                let part = |text: &String| object! { "type" => "text", "text" => text.as_str() }.into();
                parts.iter().map(part).collect::<Vec<Json>>().into()
            }
        };
        let mut message = object! { "role" => "tool", "tool_call_id" => call_id, "content" => content };
        if let Some(name) = text(item, path, "name")? {
            message.insert("name", name.into());
        }
        self.push(index, message);
        let shown = object! {
            "id" => self.id_of("fco", index, id), "type" => "function_call_output", "status" => "completed",
            "call_id" => call_id, "output" => output.clone(),
        };
        self.items.push(shown.into());
        Ok(())
    }

    /// Returns the open turn of the model, or begins one.
    fn open(&mut self, index: usize, goes_on: bool, answer: Option<String>) -> &mut Open {
        if !goes_on {
            self.close();
        }
        self.open.get_or_insert_with(|| Open { answer, place: MessageItems::of(index), ..Open::default() })
    }

    pub(super) fn push(&mut self, index: usize, message: Object) {
        self.close();
        self.messages.push(message.into());
        self.places.push(Some(MessageItems::of(index)));
    }

    /// Ends the open turn of the model.
    fn close(&mut self) {
        let Some(Open { content, reasoning, calls, place, results, .. }) = self.open.take() else { return };
        if content.is_none() && reasoning.is_empty() && calls.is_empty() {
            return;
        }
        let mut message = object! { "role" => "assistant", "content" => content.unwrap_or_default() };
        if !reasoning.is_empty() {
            message.insert("reasoning_content", reasoning.into());
        }
        if !calls.is_empty() {
            message.insert("tool_calls", calls.into());
        }
        self.messages.push(message.into());
        self.places.push(Some(place));
        for (index, result) in results {
            self.push(index, result);
        }
    }

    pub(super) fn id_of(&self, kind: &str, index: usize, id: Option<&str>) -> String {
        id.map_or_else(|| item_id(kind, &self.own, index), str::to_owned)
    }
}

/// Refuses a call that no message can have.
pub(super) fn check_call(call: &Json, path: &str) -> Result<(), Fault> {
    let Err(error) = Call::from_json(call) else { return Ok(()) };
    let field = format!("{path}.{}", error.place.field.trim_start_matches("function."));
    let message = error.to_string().replacen(&*error.place.field, &field, 1);
    let code = FaultCode::Other(error.code());
    Err(Fault { help: Some(error.help().into()), ..Fault::at(&field, code, message) })
}

/// Reads a text, or parts of text.
fn texts(content: &Json, path: &str) -> Result<Vec<String>, Fault> {
    match content {
        Json::String(text) => Ok(vec![text.clone()]),
        Json::Array(_) => typed_texts(content, path, &["input_text", "output_text", "text"]),
        other => Err(wrong(path, "a text or a list of parts", other)),
    }
}

/// Reads parts of text of some types.
fn typed_texts(parts: &Json, path: &str, types: &[&str]) -> Result<Vec<String>, Fault> {
    let read = |(index, part): (usize, &Json)| typed_text(part, &format!("{path}[{index}]"), types);
    list(parts, path)?.iter().enumerate().map(read).collect()
}

/// Returns what code wrote.
fn logs(outputs: &Json, path: &str) -> Result<String, Fault> {
    let read = |(index, output): (usize, &Json)| {
        let path = format!("{path}[{index}]");
        let output = object(output, &path)?;
        let kind = needed_text(output, &path, "type")?;
        if kind != "logs" {
            let path = format!("{path}.type");
            let message = format!("{path}: the gateway does not support outputs of the type `{kind}`");
            let help = "describe it in an output of the type `logs`, as the model's format does".into();
            return Err(Fault { help: Some(help), ..Fault::at(&path, FaultCode::UnsupportedPart, message) });
        }
        refuse_others(output, &path, &["type", "logs"])?;
        Ok(needed_text(output, &path, "logs")?.to_owned())
    };
    list(outputs, path)?.iter().enumerate().map(read).collect::<Result<String, Fault>>()
}

fn shown_message(role: &str, content: Vec<Json>, id: String) -> Json {
    object! { "id" => id, "type" => "message", "status" => "completed", "role" => role, "content" => content }.into()
}
