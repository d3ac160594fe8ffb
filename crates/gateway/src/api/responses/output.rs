use rolecall::Stop;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};

use super::mcp_item::McpItem;
use crate::reply::token_odds::TokenOdds;

/// An item that the model says.
#[derive(Clone, Debug)]
pub struct Item {
    pub id: String,
    pub said: ItemContent,
    pub status: Status,
}

/// What an item says.
#[derive(Clone, Debug)]
pub enum ItemContent {
    Reasoning(String),
    /// A text, with how likely its tokens were if that was asked for.
    Message(String, Vec<TokenOdds>),
    Call {
        call_id: String,
        name: String,
        arguments: String,
        is_whole: bool,
    },
    Code {
        call_id: String,
        code: String,
        is_whole: bool,
        /// What became of it, if it runs here.
        run: Option<CodeRun>,
    },
    Mcp(McpItem),
    /// The tools of an MCP server.
    McpList {
        server: String,
        tools: Vec<Json>,
    },
}

/// A call of code that runs here.
#[derive(Clone, Debug, Default)]
pub struct CodeRun {
    pub container: String,
    /// What it printed, once it was run.
    pub outputs: Option<Vec<Json>>,
}

/// Whether an item is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    InProgress,
    /// The model has made a call, which has not ended.
    Calling,
    Completed,
    Incomplete,
    Failed,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::InProgress => "in_progress",
            Status::Calling => "calling",
            Status::Failed => "failed",
            Status::Completed => "completed",
            Status::Incomplete => "incomplete",
        }
    }

    /// Returns the status of an answer, and of the item at its end.
    pub fn of_stop(stop: Option<Stop>) -> Status {
        match stop {
            Some(Stop::End) => Status::Completed,
            Some(Stop::Length | Stop::Abort) | None => Status::Incomplete,
        }
    }
}

impl Item {
    /// Ends the item, if it goes on.
    pub fn close(&mut self, status: Status) {
        if self.status == Status::InProgress {
            if let ItemContent::Mcp(call) = &mut self.said {
                call.break_off();
            }
            self.status = self.ended(status);
        }
    }

    /// Returns the status of the item if it ended here.
    fn ended(&self, status: Status) -> Status {
        match &self.said {
            ItemContent::McpList { .. } => Status::Completed,
            ItemContent::Mcp(call) if call.asks() => Status::Completed,
            ItemContent::Mcp(_) => Status::Calling,
            // The model stopped in the middle of a call.
            ItemContent::Call { is_whole: false, .. } | ItemContent::Code { is_whole: false, .. } => Status::Incomplete,
            // It stopped after it.
            ItemContent::Call { .. } | ItemContent::Code { .. } => Status::Completed,
            ItemContent::Reasoning(_) | ItemContent::Message(..) => status,
        }
    }

    /// Returns the item as it is if the answer ends with a status.
    pub fn at_end(&self, status: Status) -> Json {
        let mut item = self.clone();
        item.close(status);
        if item.status == Status::Calling {
            item.status = Status::Incomplete;
        }
        item.to_json()
    }

    pub fn to_json(&self) -> Json {
        let (id, status) = (self.id.as_str(), self.status.name());
        // An item has its content once it has ended.
        let content = || match self.status {
            Status::InProgress => Vec::new(),
            _ => self.part().into_iter().collect::<Vec<Json>>(),
        };
        let nothing = Vec::<Json>::new;
        let item: Object = match &self.said {
            ItemContent::Reasoning(_) => object! {
                "id" => id, "type" => "reasoning", "status" => status, "summary" => nothing(), "content" => content(),
            },
            ItemContent::Message(..) => object! {
                "id" => id, "type" => "message", "status" => status, "role" => "assistant", "content" => content(),
            },
            ItemContent::Mcp(call) => call.to_json(id, status),
            ItemContent::McpList { server, tools } => object! {
                "id" => id, "type" => "mcp_list_tools", "server_label" => server.as_str(),
                "tools" => match self.status {
                    Status::InProgress => Vec::new(),
                    _ => tools.clone(),
                },
            },
            ItemContent::Call { call_id, name, arguments, .. } => object! {
                "id" => id, "type" => "function_call", "status" => status, "call_id" => call_id.as_str(),
                "name" => name.as_str(), "arguments" => arguments.as_str(),
            },
            ItemContent::Code { call_id, code, run, .. } => object! {
                "id" => id, "type" => "code_interpreter_call", "status" => status, "call_id" => call_id.as_str(),
                "code" => code.as_str(),
                // Without a container, the code was not run.
                "container_id" => run.as_ref().map_or("", |run| run.container.as_str()),
                "outputs" => run.as_ref().and_then(|run| run.outputs.clone()).map_or(Json::Null, Into::into),
            },
        };
        item.into()
    }

    /// Returns the only part of the item's content, if it has content.
    pub fn part(&self) -> Option<Json> {
        match &self.said {
            ItemContent::Reasoning(text) => Some(reasoning_part(text)),
            ItemContent::Message(text, odds) => Some(text_part(text, odds)),
            _ => None,
        }
    }

    pub fn has_content(&self) -> bool {
        matches!(self.said, ItemContent::Reasoning(_) | ItemContent::Message(..))
    }

    /// Returns the part before its first text.
    pub fn empty_part(&self) -> Option<Json> {
        match &self.said {
            ItemContent::Reasoning(_) => Some(reasoning_part("")),
            ItemContent::Message(..) => Some(text_part("", &[])),
            _ => None,
        }
    }
}

fn reasoning_part(text: &str) -> Json {
    object! { "type" => "reasoning_text", "text" => text }.into()
}

fn text_part(text: &str, odds: &[TokenOdds]) -> Json {
    let logprobs: Vec<Json> = odds.iter().map(TokenOdds::to_json).collect();
    object! {
        "type" => "output_text", "text" => text, "annotations" => Vec::<Json>::new(), "logprobs" => logprobs,
    }
    .into()
}
