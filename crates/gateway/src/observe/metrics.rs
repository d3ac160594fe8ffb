//! The metrics, in the text format of OpenMetrics, which Prometheus reads.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::request_log::Done;
use super::stage::Stage;
use crate::Fault;

/// Labels, each with its value.
type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// The metrics of a gateway.
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels<3>, Counter>,
    faults: Family<Labels<1>, Counter>,
    seconds: Family<Labels<1>, Histogram, fn() -> Histogram>,
    /// One for each stage, so that no label is looked up.
    stages: [Histogram; Stage::ALL.len()],
    ids: Family<Labels<2>, Counter>,
    sessions: Family<Labels<1>, Counter>,
    store_faults: Counter,
    running: Gauge,
}

impl Metrics {
    /// Returns metrics that are all zero. The counters are those of lines and spans that were dropped.
    pub fn new(lines: Counter, spans: Counter) -> Metrics {
        let mut registry = Registry::with_prefix("rolecall");
        let requests = Family::default();
        registry.register("requests", "Requests by route, status and model", requests.clone());
        let faults = Family::default();
        registry.register("faults", "Errors by their code", faults.clone());
        let seconds: Family<Labels<1>, Histogram, fn() -> Histogram> = Family::new_with_constructor(|| buckets(LONG));
        registry.register(
            "request_seconds",
            "Time from the head of a request to the end of its answer",
            seconds.clone(),
        );
        let by_stage: Family<Labels<1>, Histogram, fn() -> Histogram> = Family::new_with_constructor(|| buckets(SHORT));
        registry.register("stage_seconds", "Time of each stage of a request", by_stage.clone());
        let stages = Stage::ALL.map(|stage| by_stage.get_or_create_owned(&[("stage", stage.name().into())]));
        let ids = Family::default();
        registry.register(
            "ids",
            "Token ids by model: of prompts, of replies, and of prompts that were kept",
            ids.clone(),
        );
        let sessions = Family::default();
        registry.register(
            "sessions",
            "Requests that could continue a session, by whether one was found",
            sessions.clone(),
        );
        let store_faults = Counter::default();
        registry.register("store_faults", "Errors of the store of sessions", store_faults.clone());
        let running = Gauge::default();
        registry.register("running_requests", "Requests that are being answered", running.clone());
        registry.register("dropped_log_lines", "Log lines that were dropped because writing was slow", lines);
        registry.register("dropped_spans", "Spans that were dropped because the collector was slow", spans);
        Metrics { registry, requests, faults, seconds, stages, ids, sessions, store_faults, running }
    }

    /// Counts a request that begins.
    pub fn begin(&self) {
        self.running.inc();
    }

    /// Counts a request that ended.
    pub fn end(&self, done: &Done<'_>) {
        self.running.dec();
        let model = || Cow::Owned(done.facts.model.as_deref().unwrap_or_default().to_owned());
        let status = Cow::Owned(done.status.to_string());
        let labels = [("route", done.route.into()), ("status", status), ("model", model())];
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&[("route", done.route.into())]).observe(done.elapsed.as_secs_f64());
        if let Some(code) = &done.facts.code {
            self.faults.get_or_create(&[("code", Cow::Borrowed(code.name()))]).inc();
        }
        for (stage, spent) in done.facts.stages.iter() {
            if let Some(histogram) = self.stages.get(stage as usize) {
                histogram.observe(spent.busy.as_secs_f64());
            }
        }
        let ids = &done.facts.ids;
        for (kind, count) in [("prompt", ids.prompt), ("reply", ids.reply), ("kept", ids.kept)] {
            if count > 0 {
                self.ids.get_or_create(&[("kind", kind.into()), ("model", model())]).inc_by(count);
            }
        }
    }

    /// Counts whether a session was found.
    pub fn session(&self, is_found: bool) {
        let result = if is_found { "found" } else { "new" };
        self.sessions.get_or_create(&[("result", result.into())]).inc();
    }

    /// Counts an error of finding or keeping a turn, unless the client made it.
    pub fn store_fault(&self, fault: &Fault) {
        if fault.status >= 500 {
            self.store_faults.inc();
        }
    }

    /// Returns all metrics as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bounds of times that an engine determines, in seconds.
const LONG: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// The bounds of times of our own work, and of waiting for an engine, in seconds.
const SHORT: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

fn buckets(bounds: &'static [f64]) -> Histogram {
    Histogram::new(bounds.iter().copied())
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Metrics")
    }
}
