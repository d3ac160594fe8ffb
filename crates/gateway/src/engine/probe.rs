//! What an engine is asked about itself.

use std::time::Duration;

use futures_util::StreamExt;
use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Object};
use tokio::time::{Instant, timeout_at};

use super::about::ContextSource;
use super::fields::{count, text};
use super::trouble::{broken, cause, down, refused};
use super::{About, Engine};
use crate::{Fault, FaultCode};

/// The page with an engine's models.
const MODELS: &str = "/v1/models";

/// The most bytes of a page that an engine has about itself.
const MOST_BYTES: usize = 4 << 20;

impl Engine {
    /// Asks the engine whether it is ready, and what it is. It has `patience` to answer all questions.
    pub async fn probe(&self, patience: Duration) -> Result<About, Fault> {
        if let Some(fault) = self.local_fault() {
            return Err(fault);
        }
        let deadline = Instant::now() + patience;
        let asked = async |paths: &'static [&'static str]| {
            let answer = timeout_at(deadline, self.first_page(paths)).await;
            answer.unwrap_or_else(|_| {
                let paths = paths.join(" or ");
                let message = format!("the engine did not answer {paths} within {} s", patience.as_secs_f64());
                Err(Fault::new(FaultCode::EngineSlow, message))
            })
        };
        let (health, models) = (asked(&["/health"]).await?, asked(&[MODELS]).await?);
        // Of the engines by text, not all have the former, but it must be one of OpenAI's servers.
        match self.kind().is_by_text() {
            true => models.as_ref().ok_or_else(|| refused(404, "there is no /v1/models"))?,
            false => health.as_ref().ok_or_else(|| refused(404, "there is no /health"))?,
        };
        self.note_ready();
        let mut about = About::of_models(models);
        for page in self.wire().pages() {
            (page.read)(&object(asked(page.paths).await?), &mut about);
        }
        Ok(about)
    }

    /// Asks the engine for the most ids of a prompt and its reply.
    pub(super) async fn own_context(&self) -> Result<Option<u64>, Fault> {
        let pages = || self.wire().pages().iter();
        let mut about = match pages().any(|page| page.context == ContextSource::Alone) {
            true => About::default(),
            false => About::of_models(self.page(MODELS).await?),
        };
        for page in pages().filter(|page| page.context != ContextSource::No) {
            if about.context.is_none() {
                (page.read)(&object(self.first_page(page.paths).await?), &mut about);
            }
        }
        Ok(about.context)
    }

    /// Returns what the engine says of each of its models.
    pub(super) async fn cards(&self) -> Result<Vec<Object>, Fault> {
        let page = object(self.page(MODELS).await?);
        let cards = page.get("data").and_then(Json::as_array).unwrap_or_default();
        Ok(cards.iter().filter_map(Json::as_object).cloned().collect())
    }

    /// Returns the first of these pages that exists.
    async fn first_page(&self, paths: &[&str]) -> Result<Option<String>, Fault> {
        for path in paths {
            if let Some(page) = self.page(path).await? {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Returns a page of the engine, or `None` if there is none.
    pub(super) async fn page(&self, path: &str) -> Result<Option<String>, Fault> {
        let url = format!("{}{path}", self.address);
        let response = self.client.get(&url).send().await.map_err(|error| down(&url, &error))?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk.map_err(|error| broken(&cause(&error)))?);
            if bytes.len() > MOST_BYTES {
                return Err(broken(&format!("{path} has more than {MOST_BYTES} bytes")));
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match status {
            200..300 => Ok(Some(text)),
            404 | 405 | 501 => Ok(None),
            503 => {
                let help = Some("wait until the engine has loaded its model".into());
                Err(Fault { help, ..Fault::new(FaultCode::EngineLoading, "the engine is not ready yet") })
            }
            status => Err(refused(status, &text)),
        }
    }
}

impl About {
    fn of_models(page: Option<String>) -> About {
        let mut about = About::default();
        for model in object(page).get("data").and_then(Json::as_array).unwrap_or_default() {
            let Some(model) = model.as_object() else { continue };
            about.models.extend(text(model, "id").map(str::to_owned));
            about.context = about.context.or(count(model, "max_model_len"));
        }
        about
    }
}

/// Reads a page that has an object. Other pages say nothing.
fn object(page: Option<String>) -> Object {
    match page.map(|page| json::parse(&page)) {
        Some(Ok(Json::Object(object))) => object,
        _ => Object::new(),
    }
}
