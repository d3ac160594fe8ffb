//! A session as JSON.

use std::collections::HashMap;
use std::sync::Arc;

use rolecall_conversation::json::{Number, Object};
use rolecall_conversation::{Json, Message, Tool, object};
use rolecall_encode::Decoder;
use rolecall_openai::Request;

use super::{VERSION, notes};
use crate::Error;
use crate::model::clock;
use crate::model::digest::digest;
use crate::session::line::{Line, Node, Run};
use crate::session::state::SentPrompt;
use crate::session::{Seams, Segment, Session};

impl Session {
    pub(super) fn written(&self) -> Result<Object, Error> {
        let decoder = &self.setup.decoder;
        let mut written = SavedRuns::default();
        let nodes = written.own(&self.line).1;
        let branch = |branch: &Line| {
            let ((with, shared), own) = written.own(branch);
            object! { "with" => number(with), "shared" => number(shared), "runs" => runs(&own, decoder) }.into()
        };
        let branches = self.branches.iter().map(branch).collect::<Vec<Json>>();
        let sent = self.state.last_sent().map(|SentPrompt { stock, by }| {
            object! {
                "messages" => number(stock.count),
                "start" => number(stock.start),
                "end" => number(stock.end()),
                "digest" => digest(stock.prompt.text()),
                "request" => by.as_ref().map_or(Json::Null, |setup| request(&setup.request)),
            }
        });
        let reply = self.reply().map(|reply| {
            object! {
                "said" => message(&reply.said),
                "is_unfinished" => reply.is_unfinished,
                "is_closed" => reply.is_closed,
                "finish" => reply.finish.name(),
            }
        });
        let kept = self.state.next().and_then(|next| next.kept.as_ref());
        let mut saved = object! {
            "version" => VERSION,
            "model" => self.setup.fingerprint()?.to_json(),
            "clock" => self.clock.map_or(Json::Null, clock::write),
            "request" => request(&self.setup.request),
            "seams" => match self.seams { Seams::Live => "live", Seams::Whole => "whole" },
            "runs" => runs(&nodes, decoder),
            "branches" => branches,
            "head" => number(self.head.len()),
            "pending" => self.state.pending().iter().map(|pending| message(pending)).collect::<Vec<Json>>(),
            "sent" => sent.map_or(Json::Null, Json::from),
            "reply" => reply.map_or(Json::Null, Json::from),
            "is_planned" => self.state.next().is_some(),
            "kept" => kept.map_or(Json::Null, notes::write_rewrite),
            "is_open" => self.is_open(),
            "notes" => self.notes.all().into_iter().map(|(at, note)| notes::write(at, note)).collect::<Vec<Json>>(),
        };
        if self.call_seed != 0 {
            saved.insert("call_seed", format!("{:x}", self.call_seed).into());
        }
        Ok(saved)
    }
}

/// The runs that are written already, by the line that has them first.
#[derive(Default)]
struct SavedRuns {
    /// The line, and the number of its runs up to this one.
    runs: HashMap<*const Node, (usize, usize)>,
    lines: usize,
}

impl SavedRuns {
    /// Returns an earlier line with the number of runs that it shares with this one, and the runs
    /// that only this one has.
    fn own<'l>(&mut self, line: &'l Line) -> ((usize, usize), Vec<&'l Arc<Node>>) {
        let mut shared = (0, 0);
        let mut own = Vec::new();
        for node in line.back() {
            if let Some(known) = self.runs.get(&Arc::as_ptr(node)) {
                shared = *known;
                break;
            }
            own.push(node);
        }
        own.reverse();
        let new = own.iter().enumerate().map(|(at, node)| (Arc::as_ptr(node), (self.lines, shared.1 + at + 1)));
        self.runs.extend(new);
        self.lines += 1;
        (shared, own)
    }
}

/// Returns a number as JSON.
pub(super) fn number(value: usize) -> Json {
    // Nothing in memory has more bytes than fit.
    Json::from(i64::try_from(value).unwrap_or(i64::MAX))
}

fn message(message: &Message) -> Json {
    Json::Object(message.as_object().clone())
}

fn request(request: &Request) -> Json {
    let conversation = &request.conversation;
    let tools = conversation.tools.as_ref().map(|tools| Json::Array(tools.iter().map(Tool::to_json).collect()));
    object! {
        "id" => request.id.clone().unwrap_or(Json::Null),
        "format" => request.format.as_deref().map_or(Json::Null, Json::from),
        "tools" => tools.unwrap_or(Json::Null),
        "documents" => conversation.documents.clone().map_or(Json::Null, Json::Array),
        "add_generation_prompt" => conversation.add_generation_prompt.map_or(Json::Null, Json::Bool),
        "chat_template_kwargs" => conversation.template_kwargs.clone(),
        "other" => request.other.clone(),
    }
    .into()
}

fn runs(nodes: &[&Arc<Node>], decoder: &Decoder) -> Vec<Json> {
    nodes.iter().map(|node| run(&node.run, decoder).into()).collect()
}

fn run(run: &Run, decoder: &Decoder) -> Object {
    let mut object = object! {
        "ids" => run.ids.iter().map(|id| Json::from(i64::from(*id))).collect::<Vec<Json>>(),
        "segments" => run.segments.iter().map(segment).collect::<Vec<Json>>(),
        "messages" => run.messages.iter().map(|said| message(said)).collect::<Vec<Json>>(),
        "reply" => run.reply.map_or(Json::Null, number),
        "stock" => number(run.stock),
    };
    // The text of most ids is what they decode to.
    if super::read::decoded(&run.ids, decoder).ok().as_ref() != Some(&(run.bytes.clone(), run.ends.clone())) {
        let bytes = || run.bytes.iter().map(|byte| Json::from(i64::from(*byte))).collect();
        let text = std::str::from_utf8(&run.bytes).map_or_else(|_| Json::Array(bytes()), Json::from);
        object.insert("text", text);
        object.insert("ends", Json::Array(run.ends.iter().map(|end| Json::from(i64::from(*end))).collect()));
    }
    object
}

fn segment(segment: &Segment) -> Json {
    let weight = Number::from_spelling(&segment.weight.to_string()).map_or(Json::Null, Json::Number);
    object! {
        "author" => segment.author.name(),
        "message" => segment.message.map_or(Json::Null, number),
        "part" => segment.part.name(),
        "ids" => number(segment.ids.len()),
        "weight" => weight,
    }
    .into()
}
