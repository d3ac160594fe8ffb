//! The events of a stream, from which the whole answer is put together, too.

use std::collections::VecDeque;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message, object};
use rolecall::{Event, Stop};

use super::answer::{ResponseObject, Stage};
use super::id::reply_item_id;
use super::mcp_context::McpContext;
use super::mcp_item::McpItem;
use super::output::{CodeRun, Item, ItemContent, Status};
use super::places::Places;
use super::tools::McpList;
use crate::Fault;
use crate::reply::token_odds::TokenOdds;
use crate::reply::writer::{Done, Frames, Opening, ReplyWriter};
use crate::turn::hosted_calls::{ApprovedCall, HostedKind, HostedResult, HostedTools};

/// Writes answers.
pub struct ResponseWriter {
    answer: ResponseObject,
    items: Vec<Item>,
    places: Places,
    /// The input items, if the answer is stored.
    input: Option<Vec<Json>>,
    sequence: i64,
    /// Whether a call may be sent only when it ends.
    holds_calls: bool,
    /// How likely the tokens of the next text were.
    odds: Vec<TokenOdds>,
    /// The container in which code runs, if it runs here.
    container: Option<String>,
    mcp: WriterMcp,
    /// The number of the reply. Each but the first follows calls that ran here.
    round: usize,
    /// Whether calls have run since the last event.
    has_run: bool,
}

/// What a writer knows of MCP servers.
#[derive(Debug)]
pub struct WriterMcp {
    tools: HostedTools,
    /// The lists that the answer begins with.
    lists: Vec<McpList>,
    /// The lists that the conversation has then, by their servers: digests.
    listed: Object,
    /// The calls that the client has approved and that have not begun.
    approved: VecDeque<ApprovedCall>,
}

impl WriterMcp {
    pub fn new(tools: HostedTools, lists: Vec<McpList>, listed: Object) -> WriterMcp {
        let approved = tools.approved.clone().into();
        WriterMcp { tools, lists, listed, approved }
    }
}

impl ResponseWriter {
    /// Returns a writer. `input` has the input items, if the answer is stored.
    pub fn new(answer: ResponseObject, places: Places, input: Option<Vec<Json>>, mcp: WriterMcp) -> ResponseWriter {
        ResponseWriter {
            answer,
            items: Vec::new(),
            places,
            input,
            sequence: 0,
            holds_calls: false,
            odds: Vec::new(),
            container: None,
            mcp,
            round: 0,
            has_run: false,
        }
    }

    /// Writes an event.
    fn write(&mut self, kind: &str, fields: Object, out: &mut Frames) {
        let mut event = object! { "type" => kind, "sequence_number" => self.sequence };
        fields.iter().for_each(|(key, value)| event.insert(key, value.clone()));
        self.sequence += 1;
        out.named(kind, &event.into());
    }

    /// Writes an event of the last item, or of the part of its content.
    fn write_last(&mut self, kind: &str, key: &str, value: Json, out: &mut Frames) {
        self.write_with(kind, object! { key => value }, out);
    }

    /// Writes an event of the text of the last item, with how likely its tokens were.
    fn write_text(&mut self, kind: &str, key: &str, text: &str, odds: &[TokenOdds], out: &mut Frames) {
        let logprobs: Vec<Json> = odds.iter().map(TokenOdds::without_bytes).collect();
        self.write_with(kind, object! { "logprobs" => logprobs, key => text }, out);
    }

    fn write_with(&mut self, kind: &str, own: Object, out: &mut Frames) {
        self.write_of(self.items.len().saturating_sub(1), kind, own, out);
    }

    /// Writes an event of an item.
    fn write_of(&mut self, at: usize, kind: &str, own: Object, out: &mut Frames) {
        let Some(last) = self.items.get(at) else { return };
        let index = at as i64;
        let mut fields = object! { "output_index" => index };
        if own.get("item").is_none() {
            fields.insert("item_id", last.id.as_str().into());
            if last.has_content() {
                fields.insert("content_index", 0.into());
            }
        }
        own.iter().for_each(|(key, value)| fields.insert(key, value.clone()));
        self.write(kind, fields, out);
    }

    fn write_answer(&mut self, kind: &str, stage: &Stage<'_>, out: &mut Frames) {
        let answer = self.of_stage(stage);
        self.write(kind, object! { "response" => answer }, out);
    }

    /// Begins an item, and ends the one before it.
    fn open_item(&mut self, kind: &str, said: ItemContent, out: &mut Frames) {
        self.close(Status::Completed, out);
        let id = reply_item_id(kind, self.round, &self.answer.own, self.items.len());
        self.items.push(Item { id, said, status: Status::InProgress });
        if !self.is_held() {
            self.announce(out);
        }
    }

    /// Reports whether the last item is a call that is not sent yet.
    fn is_held(&self) -> bool {
        let is_held = |item: &Item| match &item.said {
            ItemContent::Call { .. } => self.holds_calls,
            // What the client is asked must be whole.
            ItemContent::Mcp(call) => self.holds_calls || call.asks(),
            _ => false,
        };
        self.items.last().is_some_and(|last| last.status == Status::InProgress && is_held(last))
    }

    fn announce(&mut self, out: &mut Frames) {
        let Some(last) = self.items.last() else { return };
        let mut item = Item { status: Status::InProgress, ..last.clone() };
        match &mut item.said {
            ItemContent::Call { arguments, .. } => arguments.clear(),
            ItemContent::Mcp(call) if !call.asks() => call.arguments.clear(),
            _ => {}
        }
        let in_progress = match &item.said {
            ItemContent::Code { run: Some(_), .. } => Some("response.code_interpreter_call.in_progress"),
            ItemContent::Mcp(call) if !call.asks() => Some("response.mcp_call.in_progress"),
            ItemContent::McpList { .. } => Some("response.mcp_list_tools.in_progress"),
            _ => None,
        };
        let part = item.empty_part();
        self.write_last("response.output_item.added", "item", item.to_json(), out);
        if let Some(part) = part {
            self.write_last("response.content_part.added", "part", part, out);
        }
        if let Some(kind) = in_progress {
            self.write_with(kind, Object::new(), out);
        }
    }

    /// Ends the last item.
    fn close(&mut self, status: Status, out: &mut Frames) {
        let is_held = self.is_held();
        let Some(last) = self.items.last_mut().filter(|last| last.status == Status::InProgress) else { return };
        last.close(status);
        let last = last.clone();
        if is_held {
            self.announce(out);
        }
        match &last.said {
            ItemContent::Reasoning(text) => {
                self.write_last("response.reasoning_text.done", "text", text.as_str().into(), out);
            }
            ItemContent::Message(text, odds) => self.write_text("response.output_text.done", "text", text, odds, out),
            ItemContent::Call { arguments, .. } => {
                let arguments: Json = arguments.as_str().into();
                if is_held {
                    self.write_last("response.function_call_arguments.delta", "delta", arguments.clone(), out);
                }
                self.write_last("response.function_call_arguments.done", "arguments", arguments, out);
            }
            ItemContent::McpList { .. } => {
                self.write_with("response.mcp_list_tools.completed", Object::new(), out);
            }
            ItemContent::Mcp(call) if !call.asks() => {
                let arguments: Json = call.arguments.as_str().into();
                if is_held {
                    self.write_last("response.mcp_call_arguments.delta", "delta", arguments.clone(), out);
                }
                self.write_last("response.mcp_call_arguments.done", "arguments", arguments, out);
                // Its item is done when it has been run.
                if last.status == Status::Calling {
                    return;
                }
            }
            ItemContent::Mcp(_) => {}
            ItemContent::Code { code, run, .. } => {
                self.write_last("response.code_interpreter_call_code.done", "code", code.as_str().into(), out);
                // Its item is done when it has been run.
                if run.as_ref().is_some_and(|run| run.outputs.is_none()) && last.status == Status::Completed {
                    return;
                }
            }
        }
        if let Some(part) = last.part() {
            self.write_last("response.content_part.done", "part", part, out);
        }
        self.write_last("response.output_item.done", "item", last.to_json(), out);
    }

    /// Adds text to an item of its kind, which begins with it if need be.
    fn add(&mut self, text: &str, is_reasoning: bool, out: &mut Frames) {
        if text.is_empty() {
            return;
        }
        let fits = self.items.last().is_some_and(|last| match last.said {
            ItemContent::Reasoning(_) => is_reasoning && last.status == Status::InProgress,
            ItemContent::Message(..) => !is_reasoning && last.status == Status::InProgress,
            _ => false,
        });
        if !fits {
            match is_reasoning {
                true => self.open_item("rs", ItemContent::Reasoning(String::new()), out),
                false => self.open_item("msg", ItemContent::Message(String::new(), Vec::new()), out),
            }
        }
        let new = std::mem::take(&mut self.odds);
        match self.items.last_mut().map(|last| &mut last.said) {
            Some(ItemContent::Reasoning(so_far)) => {
                so_far.push_str(text);
                self.write_last("response.reasoning_text.delta", "delta", text.into(), out);
            }
            Some(ItemContent::Message(so_far, odds)) => {
                so_far.push_str(text);
                odds.extend_from_slice(&new);
                self.write_text("response.output_text.delta", "delta", text, &new, out);
            }
            _ => {}
        }
    }

    /// Returns the place of the first item whose call has not been run.
    fn next_run(&self, kind: HostedKind) -> Option<usize> {
        self.items.iter().position(|item| match (&item.said, kind) {
            (ItemContent::Code { run: Some(run), is_whole: true, .. }, HostedKind::Code) => run.outputs.is_none(),
            (ItemContent::Mcp(_), HostedKind::Tool) => item.status == Status::Calling,
            _ => false,
        })
    }

    /// Ends the calls that the end of the reply cut off.
    fn end_cut_calls(&mut self, out: &mut Frames) {
        for at in 0..self.items.len() {
            let Some(item) = self.items.get_mut(at).filter(|item| item.status == Status::Calling) else { continue };
            item.status = Status::Incomplete;
            let json = item.to_json();
            self.write_of(at, "response.output_item.done", object! { "item" => json }, out);
        }
    }

    /// Returns the answer at a stage.
    fn of_stage(&mut self, stage: &Stage<'_>) -> Json {
        let status = match stage {
            Stage::Begun => Status::InProgress,
            Stage::Ended(status, _) => *status,
            Stage::Failed(_) => Status::Incomplete,
        };
        let output = self.items.iter().map(|item| item.at_end(status)).collect();
        self.answer.at_stage(stage, output)
    }

    fn ended(&mut self, done: &Done<'_>) -> Json {
        self.of_stage(&Stage::Ended(Status::of_stop(stop_of(done)), done.usage))
    }
}

fn stop_of(done: &Done<'_>) -> Option<Stop> {
    done.said.first().and_then(|said| said.reading.stop)
}

impl ReplyWriter for ResponseWriter {
    fn open(&mut self, opening: &Opening<'_>) {
        self.holds_calls = opening.holds_calls;
        self.answer.begin(opening.history.name(), opening.usage.kept);
        // A whole answer begins with the lists, too.
        let mut unread = Frames::default();
        for McpList { server, tools, .. } in std::mem::take(&mut self.mcp.lists) {
            self.open_item("mcpl", ItemContent::McpList { server, tools }, &mut unread);
            self.close(Status::Completed, &mut unread);
        }
        self.sequence = 0;
    }

    fn begin(&mut self, _: &Opening<'_>, out: &mut Frames) {
        let lists = std::mem::take(&mut self.items);
        self.write_answer("response.created", &Stage::Begun, out);
        self.write_answer("response.in_progress", &Stage::Begun, out);
        for list in lists {
            self.open_item("mcpl", list.said, out);
            self.close(Status::Completed, out);
        }
    }

    fn event(&mut self, _: usize, event: &Event<'_>, out: &mut Frames) {
        if std::mem::take(&mut self.has_run) {
            self.round += 1;
        }
        match *event {
            Event::Content(text) => self.add(text, false, out),
            Event::Reasoning(text) => self.add(text, true, out),
            Event::CallStarted { id, name, .. } if self.mcp.tools.by_function(name).is_some() => {
                let Some(tool) = self.mcp.tools.by_function(name) else { return };
                let kind = if tool.asks { "mcpr" } else { "mcp" };
                let call = McpItem::begun(tool, id);
                self.open_item(kind, ItemContent::Mcp(call), out);
            }
            Event::CallStarted { id, name, .. } => {
                let (call_id, name) = (id.to_owned(), name.to_owned());
                self.open_item(
                    "fc",
                    ItemContent::Call { call_id, name, arguments: String::new(), is_whole: false },
                    out,
                );
            }
            Event::CodeStarted { id, .. } => {
                let run = self.container.clone().map(|container| CodeRun { container, outputs: None });
                let said = ItemContent::Code { call_id: id.to_owned(), code: String::new(), is_whole: false, run };
                self.open_item("ci", said, out);
            }
            Event::Arguments { text, .. } => {
                if let Some(Item { said: ItemContent::Mcp(call), .. }) = self.items.last_mut() {
                    call.arguments.push_str(text);
                    if !self.is_held() {
                        self.write_last("response.mcp_call_arguments.delta", "delta", text.into(), out);
                    }
                } else if let Some(Item { said: ItemContent::Call { arguments, .. }, .. }) = self.items.last_mut() {
                    arguments.push_str(text);
                    if !self.is_held() {
                        self.write_last("response.function_call_arguments.delta", "delta", text.into(), out);
                    }
                }
            }
            Event::Code { text, .. } => {
                if let Some(Item { said: ItemContent::Code { code, .. }, .. }) = self.items.last_mut() {
                    code.push_str(text);
                    self.write_last("response.code_interpreter_call_code.delta", "delta", text.into(), out);
                }
            }
            Event::CallFinished { whole, id, .. } => {
                if let Some(
                    ItemContent::Call { is_whole, call_id, .. }
                    | ItemContent::Code { is_whole, call_id, .. }
                    | ItemContent::Mcp(McpItem { is_whole, call_id, .. }),
                ) = self.items.last_mut().map(|item| &mut item.said)
                {
                    *is_whole = whole;
                    if let Some(id) = id {
                        id.clone_into(call_id);
                    }
                }
                self.close(Status::Completed, out);
            }
            Event::Stop(stop) => {
                self.close(Status::of_stop(Some(stop)), out);
                self.end_cut_calls(out);
            }
            // Its text is content.
            Event::Malformed(_) => {}
            _ => debug_assert!(false, "{event:?}"),
        }
    }

    fn text_odds(&mut self, _: usize, odds: Vec<(usize, TokenOdds)>) {
        self.odds = odds.into_iter().map(|(_, odds)| odds).collect();
    }

    fn contained(&mut self, container: &str) {
        self.container = Some(container.to_owned());
    }

    fn runs(&mut self, kind: HostedKind, out: &mut Frames) {
        // The reply has ended.
        self.close(Status::Completed, out);
        if let Some(call) = self.mcp.approved.pop_front() {
            let call = McpItem::approved(&call);
            let arguments = call.arguments.clone();
            self.open_item("mcp", ItemContent::Mcp(call), out);
            self.write_last("response.mcp_call_arguments.delta", "delta", arguments.into(), out);
            self.close(Status::Completed, out);
        }
        if let (HostedKind::Code, Some(at)) = (kind, self.next_run(kind)) {
            self.write_of(at, "response.code_interpreter_call.interpreting", Object::new(), out);
        }
    }

    fn ran(&mut self, ran: &HostedResult, out: &mut Frames) {
        self.has_run = true;
        let kind = match ran {
            HostedResult::Code(_) => HostedKind::Code,
            HostedResult::Tool(_) => HostedKind::Tool,
        };
        let Some(at) = self.next_run(kind) else { return };
        let item = &mut self.items[at];
        let (status, kind) = match ran {
            HostedResult::Code(ran) if ran.is_whole => (Status::Completed, "response.code_interpreter_call.completed"),
            HostedResult::Code(_) => (Status::Incomplete, "response.code_interpreter_call.completed"),
            HostedResult::Tool(Ok(_)) => (Status::Completed, "response.mcp_call.completed"),
            HostedResult::Tool(Err(_)) => (Status::Failed, "response.mcp_call.failed"),
        };
        item.status = status;
        match (&mut item.said, ran) {
            (ItemContent::Code { run: Some(run), .. }, HostedResult::Code(ran)) => {
                run.outputs = Some(ran.outputs.clone());
            }
            (ItemContent::Mcp(call), HostedResult::Tool(result)) => call.end(result),
            _ => {}
        }
        let json = item.to_json();
        self.write_of(at, kind, Object::new(), out);
        self.write_of(at, "response.output_item.done", object! { "item" => json }, out);
    }

    fn stored(&mut self, done: &Done<'_>, results: &[Message]) -> Option<Json> {
        let input = self.input.clone()?;
        let mut stored = object! { "response" => self.ended(done), "input" => input };
        McpContext::store_in(&mut stored, &self.mcp.listed, results);
        Some(stored.into())
    }

    fn end(&mut self, done: &Done<'_>, out: &mut Frames) {
        let status = Status::of_stop(stop_of(done));
        self.close(status, out);
        let kind = if status == Status::Completed { "response.completed" } else { "response.incomplete" };
        self.write_answer(kind, &Stage::Ended(status, done.usage), out);
    }

    fn fault(&mut self, fault: &Fault, out: &mut Frames) {
        let param = fault.param.as_deref().map_or(Json::Null, Json::from);
        let fields = object! { "code" => fault.code.name(), "message" => &*fault.message, "param" => param };
        self.write("error", fields, out);
        self.write_answer("response.failed", &Stage::Failed(fault), out);
    }

    fn whole(&mut self, done: &Done<'_>) -> Json {
        self.ended(done)
    }

    fn placed(&self, fault: Fault) -> Fault {
        self.places.name(fault)
    }
}
