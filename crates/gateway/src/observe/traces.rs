//! Traces for an OpenTelemetry collector: OTLP over HTTP, in JSON. Source: the specification of OTLP,
//! "JSON Protobuf Encoding", and the environment variables of its exporters.
//!
//! The official crates would add fourteen more to write these few fields, among them a compiler for
//! Protobuf's derive macros, and they read times with a clock of their own.

use std::fmt;
use std::time::{Duration, Instant, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use super::request_log::Done;
use super::trace_context::some_random;

/// Where traces go. Clones send to the same place.
#[derive(Clone, Default)]
pub struct Traces {
    /// `None` if nobody wants them.
    spans: Option<Sender<TraceOrder>>,
    dropped: Counter,
}

/// What waits to be sent.
enum TraceOrder {
    Spans(Vec<Json>),
    /// Somebody who wants to know that all spans before were sent.
    Flush(oneshot::Sender<()>),
}

/// The most requests whose spans wait to be sent.
const WAITING: usize = 2048;

/// The most requests whose spans are sent at once.
const TOGETHER: usize = 256;

/// How long spans wait for others.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Traces {
    /// Returns traces that go to a collector, and begins to send them in the background. The endpoint is
    /// what `OTEL_EXPORTER_OTLP_ENDPOINT` has: `http://HOST:4318`. It needs a runtime.
    ///
    /// A collector that is slow or down slows no request: spans that find no place to wait are dropped
    /// and counted, and so are those that it does not take.
    pub fn to(endpoint: &str, service: &str) -> Result<Traces, String> {
        let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        let parsed = reqwest::Url::parse(&url).map_err(|error| format!("{endpoint}: {error}"))?;
        if parsed.scheme() != "http" || !parsed.has_host() {
            return Err(format!("{endpoint}: expected `http://host:port`"));
        }
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let client = client.timeout(PATIENCE).build().map_err(|error| error.to_string())?;
        let (spans, waiting) = channel(WAITING);
        let traces = Traces { spans: Some(spans), dropped: Counter::default() };
        tokio::spawn(export(waiting, client, url, service.to_owned(), traces.dropped.clone()));
        Ok(traces)
    }

    /// Returns the counter of spans that were dropped.
    pub(crate) fn dropped(&self) -> Counter {
        self.dropped.clone()
    }

    /// Waits until all spans so far are sent, but not for long.
    pub(crate) async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if let Some(sender) = &self.spans
            && sender.try_send(TraceOrder::Flush(done)).is_ok()
        {
            let _ = tokio::time::timeout(2 * PAUSE, is_done).await;
        }
    }

    /// Sends the spans of a request, if its caller wants a trace.
    pub(crate) fn send(&self, done: &Done<'_>) {
        let Some(sender) = self.spans.as_ref().filter(|_| done.context.is_sampled) else { return };
        let spans = spans(done);
        let count = spans.len() as u64;
        if sender.try_send(TraceOrder::Spans(spans)).is_err() {
            self.dropped.inc_by(count);
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Traces({})", self.spans.is_some())
    }
}

/// Sends spans to a collector until nobody can send more.
async fn export(
    mut waiting: Receiver<TraceOrder>,
    client: reqwest::Client,
    url: String,
    service: String,
    dropped: Counter,
) {
    let mut some = Vec::new();
    while waiting.recv_many(&mut some, TOGETHER).await > 0 {
        let is_urgent = |some: &[TraceOrder]| some.iter().any(|one| matches!(one, TraceOrder::Flush(_)));
        let deadline = Instant::now() + PAUSE;
        while some.len() < TOGETHER && !is_urgent(&some) {
            match tokio::time::timeout_at(deadline.into(), waiting.recv()).await {
                Ok(Some(more)) => some.push(more),
                Ok(None) | Err(_) => break,
            }
        }
        let (mut spans, mut wanting) = (Vec::new(), Vec::new());
        for one in some.drain(..) {
            match one {
                TraceOrder::Spans(more) => spans.extend(more),
                TraceOrder::Flush(done) => wanting.push(done),
            }
        }
        if spans.is_empty() {
            // Whoever waits is told by the end of its channel.
            continue;
        }
        let count = spans.len() as u64;
        let body = json::write(&envelope(spans, &service), &Layout::compact());
        let request = client.post(&url).header("content-type", "application/json").body(body);
        let is_taken = request.send().await.is_ok_and(|response| response.status().is_success());
        if !is_taken {
            dropped.inc_by(count);
        }
    }
}

/// Returns what a collector takes.
fn envelope(spans: Vec<Json>, service: &str) -> Json {
    let scope = object! { "name" => "rolecall-gateway", "version" => env!("CARGO_PKG_VERSION") };
    let scoped: Json = object! { "scope" => scope, "spans" => spans }.into();
    let resource = object! { "attributes" => vec![attribute("service.name", text(service))] };
    let of_resource: Json = object! { "resource" => resource, "scopeSpans" => vec![scoped] }.into();
    object! { "resourceSpans" => vec![of_resource] }.into()
}

/// Returns the span of a request, and one for each of its stages.
fn spans(done: &Done<'_>) -> Vec<Json> {
    let context = done.context;
    let mut attributes = vec![
        attribute("http.route", text(done.route)),
        attribute("http.response.status_code", whole(u64::from(done.status))),
        attribute("rolecall.request_id", text(done.id)),
    ];
    if let Some(model) = &done.facts.model {
        attributes.push(attribute("gen_ai.request.model", text(model)));
    }
    if let Some(code) = &done.facts.code {
        attributes.push(attribute("error.type", text(code.name())));
    }
    let ids = &done.facts.ids;
    attributes.push(attribute("gen_ai.usage.input_tokens", whole(ids.prompt)));
    attributes.push(attribute("gen_ai.usage.output_tokens", whole(ids.reply)));
    attributes.push(attribute("rolecall.kept_ids", whole(ids.kept)));
    let end = done.began + done.elapsed;
    // The kind of a server.
    let mut request = span(done, context.span, context.parent, done.route, 2, (done.began, end), attributes);
    if done.status >= 500 {
        request.insert("status", object! { "code" => 2 }.into());
    }
    let mut all = vec![request.into()];
    for (stage, spent) in done.facts.stages.iter() {
        let busy = u64::try_from(spent.busy.as_micros()).unwrap_or(u64::MAX);
        let attributes = vec![attribute("rolecall.busy_us", whole(busy))];
        let times = (spent.first, spent.last);
        all.push(span(done, some_random(), Some(context.span), stage.name(), 1, times, attributes).into());
    }
    all
}

fn span(
    done: &Done<'_>,
    id: u64,
    parent: Option<u64>,
    name: &str,
    kind: i64,
    (from, to): (Instant, Instant),
    attributes: Vec<Json>,
) -> Object {
    let mut span = object! {
        "traceId" => format!("{:032x}", done.context.trace), "spanId" => format!("{id:016x}"), "name" => name,
        "kind" => kind, "startTimeUnixNano" => nanos(done, from), "endTimeUnixNano" => nanos(done, to),
        "attributes" => attributes,
    };
    if let Some(parent) = parent {
        span.insert("parentSpanId", format!("{parent:016x}").into());
    }
    span
}

/// Returns a time since 1970 in nanoseconds, as text, as numbers of 64 bits are written.
fn nanos(done: &Done<'_>, at: Instant) -> String {
    let time = done.began_at + at.saturating_duration_since(done.began);
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn attribute(key: &str, value: Object) -> Json {
    object! { "key" => key, "value" => value }.into()
}

fn text(text: &str) -> Object {
    object! { "stringValue" => text }
}

fn whole(number: u64) -> Object {
    object! { "intValue" => number.to_string() }
}
