use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use rolecall::conversation::{Json, object};
use tokio::net::TcpListener;

use crate::fault::answer;
use crate::turn::apart;
use crate::{Fault, Gateway, chat, tokens};

/// Answers requests on a listener until `end` is ready. Then no more are accepted, and those that are
/// being answered end first.
pub async fn serve(
    gateway: Gateway,
    listener: TcpListener,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new().fallback(handle).with_state(Arc::new(gateway));
    axum::serve(listener, router).with_graceful_shutdown(end).await
}

async fn handle(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    match find(gateway, request).await {
        Ok(response) => response,
        Err(fault) => fault.into_response(),
    }
}

async fn find(gateway: Arc<Gateway>, request: Request) -> Result<Response, Fault> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if path == "/health" {
        return Ok(answer(&object! { "status" => "ok" }.into()));
    }
    if !gateway.keys.allow(bearer(&head.headers)) {
        let help = Some("send the header `Authorization: Bearer KEY`".into());
        return Err(Fault { help, ..Fault::new(401, "invalid_api_key", "the API key is missing or wrong") });
    }
    let method = |wanted: Method| match head.method == wanted {
        true => Ok(()),
        false => Err(Fault::new(405, "method_not_allowed", format!("{path} takes {wanted}"))),
    };
    if path == "/v1/models" {
        method(Method::GET)?;
        return Ok(answer(&gateway.list()));
    }
    if let Some(name) = path.strip_prefix("/v1/models/") {
        method(Method::GET)?;
        return Ok(answer(&gateway.model(Some(&name.into()))?.about().into()));
    }
    if !["/v1/chat/completions", "/v1/render", "/tokenize", "/detokenize"].contains(&path) {
        return Err(Fault::new(404, "not_found", format!("there is no {path}")));
    }
    method(Method::POST)?;
    let permit = gateway.enter()?;
    let most = gateway.limits.body_bytes;
    let body = tokio::time::timeout(gateway.limits.body, to_bytes(body, most)).await;
    let body = body.map_err(|_| Fault::new(408, "slow_request", "the request took too long to arrive"))?;
    let body = body.map_err(|error| match has_limit(&error) {
        true => Fault::new(413, "too_large", format!("the request has more than {most} bytes")),
        false => Fault::new(400, "broken_request", "the request did not arrive whole"),
    })?;
    let body = std::str::from_utf8(&body).map_err(|_| Fault::new(400, "not_utf_8", "the request is not UTF-8"))?;
    if path == "/v1/chat/completions" {
        return chat::chat(gateway, body, permit).await;
    }
    let work: fn(&Gateway, &str) -> Result<Json, Fault> = match path {
        "/v1/render" => chat::render,
        "/tokenize" => tokens::tokenize,
        _ => tokens::detokenize,
    };
    let body = body.to_owned();
    let made = apart(move || {
        let made = work(&gateway, &body);
        drop(permit);
        made
    });
    Ok(answer(&made.await?))
}

/// Reports whether a body is too large.
fn has_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

/// Returns the key of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}
