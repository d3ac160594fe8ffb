use std::time::{Duration, Instant};

use rolecall::conversation::{Json, object};
use tokio::sync::Mutex;

use crate::Fault;
use crate::engine::About;
use crate::served_model::ServedModel;

/// Whether the engines answer, as of a moment ago.
#[derive(Debug, Default)]
pub struct Ready(Mutex<Option<(Instant, Readiness)>>);

/// An answer to `/ready`.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Whether every model can be asked.
    pub is_good: bool,
    /// The state of each model.
    pub body: Json,
}

/// How long an answer stays true. Probes of many load balancers ask the engines only once.
const FRESH: Duration = Duration::from_secs(1);

/// How long an engine may take.
const PATIENCE: Duration = Duration::from_secs(2);

impl Ready {
    /// Returns whether the engines answer, no later than their patience allows.
    pub async fn ask(&self, models: &[std::sync::Arc<ServedModel>]) -> Readiness {
        // Whoever waits here gets the answer of whoever asked.
        let mut known = self.0.lock().await;
        if let Some((at, answer)) = &*known
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let asked = models.iter().map(|served| served.engine.probe(PATIENCE));
        let answers = futures_util::future::join_all(asked).await;
        let state = |(served, answer): (&std::sync::Arc<ServedModel>, &Result<About, Fault>)| -> Json {
            object! { "name" => served.name.as_str(), "ready" => answer.is_ok() }.into()
        };
        let is_good = answers.iter().all(Result::is_ok);
        let states: Vec<Json> = models.iter().zip(&answers).map(state).collect();
        let body = object! { "ready" => is_good, "models" => states }.into();
        let answer = Readiness { is_good, body };
        *known = Some((Instant::now(), answer.clone()));
        answer
    }
}
