use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderMap;
use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use super::Observer;
use super::log::Level;
use super::route::route;
use super::stage::{Stage, Stages};
use super::trace_context::TraceContext;
use crate::FaultCode;
use crate::clock::random;

/// What is seen of a request. Clones write to the same place.
#[derive(Clone, Debug)]
pub struct RequestLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    observer: Arc<Observer>,
    id: Box<str>,
    route: &'static str,
    began: Instant,
    began_at: SystemTime,
    context: TraceContext,
    facts: Mutex<Facts>,
}

/// What the work on a request has found out.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name of the model, which is one of those that are served.
    pub model: Option<Box<str>>,
    /// The code of the error.
    pub code: Option<FaultCode>,
    pub ids: IdCounts,
    pub stages: Stages,
    /// The request and the reply, if the log is to have them.
    request: Option<String>,
    reply: Option<String>,
}

/// Numbers of ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdCounts {
    /// The ids of the prompt.
    pub prompt: u64,
    /// The ids of the reply.
    pub reply: u64,
    /// The ids of the prompt that a session had.
    pub kept: u64,
}

/// A request that ended.
#[derive(Debug)]
pub struct Done<'a> {
    pub id: &'a str,
    pub route: &'static str,
    pub status: u16,
    pub is_whole: bool,
    pub began: Instant,
    pub began_at: SystemTime,
    pub elapsed: Duration,
    pub context: &'a TraceContext,
    pub facts: &'a Facts,
}

/// Measures a stage until it is dropped.
#[derive(Debug)]
pub struct Timing<'a> {
    seen: &'a RequestLog,
    stage: Stage,
    from: Instant,
}

impl RequestLog {
    /// Begins to look at a request.
    pub fn begin(observer: &Arc<Observer>, path: &str, headers: &HeaderMap) -> RequestLog {
        observer.metrics.begin();
        RequestLog::new(observer, path, headers)
    }

    /// Looks at work that is no request of a client, and that nobody is told of.
    pub fn alone(observer: &Arc<Observer>) -> RequestLog {
        RequestLog::new(observer, "", &HeaderMap::new())
    }

    fn new(observer: &Arc<Observer>, path: &str, headers: &HeaderMap) -> RequestLog {
        RequestLog(Arc::new(Inner {
            observer: Arc::clone(observer),
            id: given_id(headers).unwrap_or_else(|| format!("req-{:016x}", random()).into()),
            route: route(path),
            began: Instant::now(),
            began_at: SystemTime::now(),
            context: TraceContext::of(headers),
            facts: Mutex::default(),
        }))
    }

    /// Returns the id of the request.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Measures a stage until the result is dropped.
    pub fn time(&self, stage: Stage) -> Timing<'_> {
        Timing { seen: self, stage, from: Instant::now() }
    }

    /// Notes the model of the request.
    pub fn model(&self, name: &str) {
        self.facts().model = Some(name.into());
    }

    /// Notes the number of ids of the prompt, and of those that a session had.
    pub fn prompt_ids(&self, count: usize, kept: usize) {
        let ids = &mut self.facts().ids;
        (ids.prompt, ids.kept) = (count as u64, kept as u64);
    }

    /// Notes the number of ids of the reply.
    pub fn reply_ids(&self, count: u64) {
        self.facts().ids.reply = count;
    }

    /// Notes an error.
    pub fn fault(&self, code: FaultCode) {
        self.facts().code = Some(code);
    }

    /// Reports whether what is said is to be noted.
    pub fn wants_content(&self) -> bool {
        self.0.observer.has_content
    }

    /// Notes the request itself, if the log is to have it.
    pub fn request(&self, body: &str) {
        if self.wants_content() {
            self.facts().request = Some(body.to_owned());
        }
    }

    /// Adds to the reply itself, if the log is to have it.
    pub fn reply(&self, part: &[u8]) {
        if self.wants_content() {
            self.facts().reply.get_or_insert_default().push_str(&String::from_utf8_lossy(part));
        }
    }

    /// Tells that the request ended, and whether the client got the whole answer.
    pub fn end(&self, status: u16, is_whole: bool) {
        let Inner { observer, id, route, began, began_at, context, .. } = &*self.0;
        let facts = self.facts().clone();
        let elapsed = began.elapsed();
        let done =
            Done { id, route, status, is_whole, began: *began, began_at: *began_at, elapsed, context, facts: &facts };
        observer.metrics.end(&done);
        observer.log.write(done.level(), "request", &done.line());
        observer.traces.send(&done);
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        self.seen.facts().stages.add(self.stage, self.from, Instant::now());
    }
}

impl Done<'_> {
    fn level(&self) -> Level {
        match self.status {
            500.. => Level::Error,
            _ if self.facts.code.is_some() || !self.is_whole => Level::Warning,
            _ => Level::Info,
        }
    }

    /// Returns the line of the log.
    fn line(&self) -> Object {
        let mut line = Object::with_capacity(24);
        let text = |text: &str| Json::from(text);
        let count = |count: u64| Json::from(i64::try_from(count).unwrap_or(i64::MAX));
        line.insert("id", text(self.id));
        line.insert("trace_id", Json::from(format!("{:032x}", self.context.trace)));
        line.insert("route", text(self.route));
        if let Some(model) = &self.facts.model {
            line.insert("model", text(model));
        }
        line.insert("status", count(u64::from(self.status)));
        if let Some(code) = &self.facts.code {
            line.insert("code", text(code.name()));
        }
        line.insert("whole", Json::Bool(self.is_whole));
        let ids = &self.facts.ids;
        for (name, number) in [("prompt_ids", ids.prompt), ("kept_ids", ids.kept), ("reply_ids", ids.reply)] {
            line.insert(name, count(number));
        }
        line.insert("us", count(micros(self.elapsed)));
        for (stage, spent) in self.facts.stages.iter() {
            line.insert(format!("{}_us", stage.name()), count(micros(spent.busy)));
        }
        for (name, content) in [("request", &self.facts.request), ("reply", &self.facts.reply)] {
            if let Some(content) = content {
                line.insert(name, text(content));
            }
        }
        line
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the client's id of the request, if it is one that can stand in a log.
fn given_id(headers: &HeaderMap) -> Option<Box<str>> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_sane = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    ((1..=128).contains(&id.len()) && id.bytes().all(is_sane)).then(|| id.into())
}

/// The header with the id of a request.
pub const REQUEST_ID: &str = "x-request-id";
