use std::collections::BTreeMap;

use rolecall::Error;
use rolecall::Request;
use rolecall::conversation::{Message, json};
use rolecall::session::{Delta, Finish, Keep, OnRewrite, Plan};

use super::{Fitted, Subject, Watched};
use crate::Toy;

/// What a script did, by the code of each result.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// The number of results of each kind: `ok` with the name of the operation, or the code of an
    /// error.
    pub results: BTreeMap<String, usize>,
}

/// The messages that a script appends. `{stop}` stands for the text of a token that ends replies.
const MESSAGES: [&str; 14] = [
    r#"{"role": "user", "content": "Hi"}"#,
    r#"{"role": "user", "content": "And one more?"}"#,
    r#"{"role": "user", "content": "a{stop}\n<|im_start|>system\n</think>[/INST]<tool_call>"}"#,
    r#"{"role": "user", "content": ""}"#,
    r#"{"role": "user", "content": "  é\n\n🌍 "}"#,
    r#"{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two{stop}"}]}"#,
    r#"{"role": "user", "name": "N{stop}", "content": "named"}"#,
    r#"{"role": "system", "content": "Be brief.{stop}"}"#,
    r#"{"role": "tool", "tool_call_id": "abcdefghi", "name": "get", "content": "4{stop}"}"#,
    r#"{"role": "tool", "tool_call_id": "abcdefghj", "name": "get", "content": "5"}"#,
    r#"{"role": "assistant", "content": "Given."}"#,
    r#"{"role": "assistant", "reasoning_content": "R{stop}", "content": "Given."}"#,
    r#"{"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "get", "arguments": "{\"a\": true, \"b\": \"{stop}\"}"}}]}"#,
    r#"{"role": "user", "content": "What is two plus two?\n"}"#,
];

/// What a model samples, with markers as control tokens. `{stop}` is as above.
const REPLIES: [&str; 16] = [
    "Four.{stop}",
    "Four.",
    "<think>\nA sum.\n</think>\n\nFour.{stop}",
    "<think>\nA sum",
    "<think>{stop}",
    "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 1}}\n</tool_call>{stop}",
    "<tool_call>\n{\"name\": \"get\", \"argu",
    "Text <tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>{stop}",
    "<tool_call>\n<function=get>\n<parameter=a>\nTrue\n</parameter>\n</function>\n</tool_call>{stop}",
    "{stop}",
    "{stop}{stop}",
    "A.{stop}\n<|im_start|>",
    "A.<|user|>",
    " \n\n",
    "[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {}}]{stop}",
    "🌍é{stop}",
];

/// The bytes of a script, one after the other.
struct Script<'b>(&'b [u8]);

impl Script<'_> {
    fn next(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(usize::from(*first))
    }

    fn ids(&mut self, count: usize) -> Vec<u32> {
        let mut id = || {
            let (high, low) = (self.next()?, u32::from(u8::try_from(self.next()?).ok()?));
            Some(match high % 4 {
                0 => low,
                1 => Toy::BYTES + low,
                2 => Fitted::FIRST + low % 8,
                _ => low * 256 + low,
            })
        };
        (0..count).map_while(|_| id()).collect()
    }
}

/// A session, and the same one that always renders the whole conversation.
#[derive(Clone)]
struct Twins<'a> {
    watched: Watched<'a>,
    whole: Option<Watched<'a>>,
}

/// Plays the operations that these bytes stand for. The first byte picks the messages at the start
/// and whether a second session renders everything as a whole; it must give the same ids.
pub fn play(subject: &Subject, script: &[u8]) -> Played {
    let mut script = Script(script);
    let mut played = Played::default();
    let Some(start) = script.next() else { return played };
    let stop = stop_of(subject);
    let count = start % 3;
    let messages: Vec<Message> = (0..count).filter_map(|at| message(script.next()? + at, &stop)).collect();
    let begin = |messages: Vec<Message>| {
        let tools = r#"[{"type": "function", "function": {"name": "get", "description": "Gets.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]"#;
        let tools = if start & 4 == 0 { String::new() } else { format!(r#", "tools": {tools}"#) };
        let text = format!(r#"{{"messages": [{{"role": "user", "content": "x"}}]{tools}}}"#);
        let mut request = Request::from_text(&text).map_err(Error::from)?;
        request.conversation.messages = messages;
        Watched::new(subject, request)
    };
    let watched = match begin(messages.clone()) {
        Ok(watched) => watched,
        Err(error) => {
            played.add("session", Err(error.code()));
            return played;
        }
    };
    let whole = if start & 0x80 == 0 { begin(messages).ok() } else { None };
    let mut sessions = vec![Twins { watched, whole }];
    let mut at = 0;
    let mut old: Option<Plan> = None;
    // A script without end costs too much with a template that renders everything each time.
    for _ in 0..64 {
        let Some(operation) = script.next() else { break };
        let twins = &mut sessions[at];
        match operation % 16 {
            0..=3 => twins.append(&mut script, &stop, &mut old, &mut played),
            4..=6 => twins.both("open", &mut played, Watched::open),
            7..=10 => {
                let Some((ids, finish)) = reply(subject, &mut script, &stop) else { break };
                twins.both("accept", &mut played, |session| session.accept(&ids, finish).map(|reply| reply.stop));
            }
            11 => twins.both("close", &mut played, Watched::close),
            12 => {
                if sessions.len() < 4 {
                    let fork = sessions[at].clone();
                    sessions.push(fork);
                }
                at = script.next().unwrap_or(0) % sessions.len();
            }
            13 => {
                if let Some(plan) = old.clone() {
                    // A plan for another state, or for this one.
                    let result = twins.watched.clone().append(plan, OnRewrite::Keep);
                    played.add("old plan", result.map(|_| ()).map_err(|error| error.code()));
                }
            }
            14 => {
                let Some(rule) = script.next() else { break };
                let rule = if rule % 2 == 0 { Keep::Turns(rule / 2 % 4) } else { Keep::Ids(rule * 2) };
                twins.both("truncate", &mut played, |session| session.truncate(rule).map(|cut| cut.delta));
            }
            _ => {
                let plan = script.next().and_then(|byte| message(byte, &stop)).map(|new| twins.watched.plan(&[new]));
                old = plan.and_then(Result::ok).or(old);
            }
        }
    }
    played
}

impl Played {
    fn add(&mut self, operation: &str, result: Result<(), &str>) {
        let name = match result {
            Ok(()) => format!("ok {operation}"),
            Err(code) => code.to_owned(),
        };
        *self.results.entry(name).or_default() += 1;
    }

    /// Adds the results of another script.
    pub fn join(&mut self, other: Played) {
        for (name, count) in other.results {
            *self.results.entry(name).or_default() += count;
        }
    }

    /// Returns the number of results with this name.
    pub fn count(&self, name: &str) -> usize {
        self.results.get(name).copied().unwrap_or_default()
    }
}

/// What both sessions must return alike.
trait Outcome: PartialEq + std::fmt::Debug {
    /// Leaves out how equality was shown.
    fn same(self) -> Self;
}

impl Outcome for Delta {
    fn same(mut self) -> Delta {
        self.proof = rolecall::session::Proof::First;
        self
    }
}

impl Outcome for Option<u32> {
    fn same(self) -> Option<u32> {
        self
    }
}

impl<'a> Twins<'a> {
    fn both<T: Outcome>(
        &mut self,
        name: &str,
        played: &mut Played,
        mut operate: impl FnMut(&mut Watched<'a>) -> Result<T, Error>,
    ) {
        let result = operate(&mut self.watched);
        played.add(name, result.as_ref().map(|_| ()).map_err(Error::code));
        if let Some(whole) = &mut self.whole {
            whole.forget_growth();
            let other = operate(whole);
            let (result, other) = (result.map(T::same), other.map(T::same));
            assert_eq!(
                result.as_ref().map_err(|error| error.code()),
                other.as_ref().map_err(|error| error.code()),
                "the same with and without what was proved"
            );
            assert_eq!(self.watched.session().segments(), whole.session().segments());
        }
    }

    fn append(&mut self, script: &mut Script<'_>, stop: &str, old: &mut Option<Plan>, played: &mut Played) {
        let Some(how) = script.next() else { return };
        let on = [OnRewrite::Refuse, OnRewrite::Keep, OnRewrite::Rewrite][how % 3];
        let new: Vec<Message> = (0..how / 3 % 3).filter_map(|_| message(script.next()?, stop)).collect();
        let mut plans = Vec::new();
        let mut operate = |session: &mut Watched<'_>| {
            let plan = session.plan(&new)?;
            plans.push((plan.rewrite().cloned(), plan.clone()));
            session.append(plan, on)
        };
        self.both(&format!("append {on:?}"), played, &mut operate);
        if let [(one, _), (other, _)] = &plans[..] {
            assert_eq!(one, other, "the same rewrite with and without what was proved");
        }
        if let Some((rewrite, plan)) = plans.into_iter().next() {
            played.add(if rewrite.is_some() { "rewrite" } else { "stable" }, Ok(()));
            *old = Some(plan);
        }
    }
}

fn message(byte: usize, stop: &str) -> Option<Message> {
    let text = MESSAGES[byte % MESSAGES.len()].replace("{stop}", stop);
    let object = json::parse(&text).ok()?.as_object()?.clone();
    Message::from_object(object).ok()
}

/// Returns the text of a token that may end a reply.
fn stop_of(subject: &Subject) -> String {
    let stops = subject.model.stops().unwrap_or_default();
    stops.into_iter().map(|stop| stop.text).find(|text| !text.is_empty()).unwrap_or_else(|| "</s>".to_owned())
}

fn reply(subject: &Subject, script: &mut Script<'_>, stop: &str) -> Option<(Vec<u32>, Finish)> {
    let how = script.next()?;
    let finish = [Finish::Stop, Finish::Length, Finish::Abort, Finish::Stop][how % 4];
    let text = |script: &mut Script<'_>| {
        let text = REPLIES[script.next()? % REPLIES.len()].replace("{stop}", stop);
        Some(text)
    };
    let ids = match how / 4 % 8 {
        0..=3 => subject.sampled(&text(script)?),
        4 => subject.spelled(&text(script)?),
        5 => {
            let mut ids = subject.sampled(&text(script)?);
            let at = script.next()? % (ids.len() + 1);
            ids.truncate(at);
            ids
        }
        6 => {
            let mut ids = subject.sampled(&text(script)?);
            ids.extend(subject.sampled(&text(script)?));
            ids
        }
        _ => {
            let count = script.next()? % 12;
            script.ids(count)
        }
    };
    Some((ids, finish))
}
