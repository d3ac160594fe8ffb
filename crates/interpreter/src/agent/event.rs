use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message, object};
use rolecall::session::Finish;
use rolecall::{Event, answer};

use super::ToolResult;
use crate::CodeOutput;

/// A step of an agent's turn.
#[derive(Debug)]
#[non_exhaustive]
pub enum AgentEvent<'a> {
    /// A prompt is sent: how many ids of the one before stay, and the new ones.
    Prompt {
        /// The number of ids that stay.
        keep: usize,
        /// The ids that follow them.
        ids: &'a [u32],
    },
    /// A part of the reply.
    Reply(Event<'a>),
    /// The whole reply.
    Message {
        /// What was sampled.
        ids: &'a [u32],
        /// Why it ended.
        finish: Finish,
        /// The message that was read.
        message: &'a Message,
    },
    /// A call is going to be run, if the policy allows it.
    Call(&'a OwnCall),
    /// What code prints while it runs.
    Output(&'a CodeOutput),
    /// What became of a call.
    Result {
        /// The call.
        call: &'a OwnCall,
        /// What the model reads.
        result: &'a ToolResult,
    },
    /// The turn ends.
    End(TurnEnd),
}

/// A call of a function, or code to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCall {
    /// Its index in the reply.
    pub index: usize,
    /// How many calls the reply has.
    pub of: usize,
    /// Its id. It may be empty.
    pub id: String,
    /// The function's name. Code has none.
    pub name: Option<String>,
    /// The arguments as JSON text, or the code.
    pub input: String,
}

impl OwnCall {
    /// Reports whether this is code.
    pub fn is_code(&self) -> bool {
        self.name.is_none()
    }

    /// Returns the name by which a policy knows it.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("code_interpreter")
    }
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model answered.
    Answer,
    /// A reply reached its limit of ids.
    Length,
    /// The model called again after the last round that the policy allows.
    Rounds,
    /// The time of the policy was over.
    Time,
    /// Somebody stopped it.
    Stopped,
}

impl TurnEnd {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            TurnEnd::Answer => "answer",
            TurnEnd::Length => "length",
            TurnEnd::Rounds => "rounds",
            TurnEnd::Time => "time",
            TurnEnd::Stopped => "stopped",
        }
    }
}

impl AgentEvent<'_> {
    /// Returns the event as an object with a `type`: `prompt`, `message`, `call`, `output`, `result`, `end`, or one of
    /// [`answer::of_event`]'s.
    pub fn to_json(&self) -> Json {
        match self {
            AgentEvent::Prompt { keep, ids } => {
                object! { "type" => "prompt", "keep" => number(*keep), "ids" => numbers(ids) }.into()
            }
            AgentEvent::Reply(event) => answer::of_event(event),
            AgentEvent::Message { ids, finish, message } => object! {
                "type" => "message", "ids" => numbers(ids), "finish" => finish.name(),
                "message" => message.as_object().clone(),
            }
            .into(),
            AgentEvent::Call(call) => of_call("call", call).into(),
            AgentEvent::Output(output) => of_output(output).into(),
            AgentEvent::Result { call, result } => {
                let mut object = of_call("result", call);
                object.insert("text", result.text.clone().into());
                if let Some(code) = result.error {
                    object.insert("error", code.into());
                }
                let pictures: Vec<Json> = result.pictures.iter().map(|name| name.as_str().into()).collect();
                if !pictures.is_empty() {
                    object.insert("pictures", pictures.into());
                }
                object.into()
            }
            AgentEvent::End(end) => object! { "type" => "end", "why" => end.name() }.into(),
        }
    }
}

fn number(number: usize) -> Json {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn numbers(ids: &[u32]) -> Json {
    ids.iter().map(|id| i64::from(*id).into()).collect::<Vec<Json>>().into()
}

fn of_call(kind: &str, call: &OwnCall) -> Object {
    let mut object = object! { "type" => kind, "index" => number(call.index), "id" => call.id.as_str() };
    match &call.name {
        Some(name) => {
            object.insert("name", name.as_str().into());
            object.insert("arguments", call.input.as_str().into());
        }
        None => object.insert("code", call.input.as_str().into()),
    }
    object
}

fn of_output(output: &CodeOutput) -> Object {
    let of = |kind: &str, text: &str| object! { "type" => "output", "kind" => kind, "text" => text };
    match output {
        CodeOutput::Stdout(text) => of("stdout", text),
        CodeOutput::Stderr(text) => of("stderr", text),
        CodeOutput::Result(text) => of("result", text),
        CodeOutput::Note(text) => of("note", text),
        CodeOutput::Picture { name, media } => {
            object! { "type" => "output", "kind" => "picture", "name" => name.as_str(), "media" => *media }
        }
        CodeOutput::Error { name, message, traceback } => {
            let lines: Vec<Json> = traceback.iter().map(|line| line.as_str().into()).collect();
            object! { "type" => "output", "kind" => "error", "name" => name.as_str(), "text" => message.as_str(), "traceback" => lines }
        }
    }
}
