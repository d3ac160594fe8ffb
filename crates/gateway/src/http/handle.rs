use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use http_body::Body as _;
use rolecall::guard::guard_future;

use crate::api::{Access, PathRequest, Route, Work, find, interactive, render, responses};
use crate::containers::{self, Containers};
use crate::fault::{FaultShape, answer, of_openai};
use crate::gateway::Permit;
use crate::http::sites::Reach;
use crate::observe::{MEDIA_TYPE, RequestLog, Watch};
use crate::store::Owner;
use crate::turn::exchange::{complete, exchange};
use crate::work::places::OWNER;
use crate::work::sized;
use crate::{Fault, FaultCode, Gateway};

/// Answers a request.
pub async fn handle(State((gateway, reach)): State<(Arc<Gateway>, Reach)>, request: Request) -> Response {
    let headers = request.headers().clone();
    let mut response = observed(&gateway, reach, request).await;
    gateway.sites.share(&headers, &mut response);
    response
}

/// Answers a request, and tells what is seen of it.
async fn observed(gateway: &Arc<Gateway>, reach: Reach, request: Request) -> Response {
    let seen = RequestLog::begin(&gateway.observer, request.uri().path(), request.headers());
    let watch = Watch::new(seen.clone());
    let route = find(request.method(), request.uri().path());
    let shape = route.as_ref().map_or(of_openai as FaultShape, |route| route.fault);
    let found = match route {
        // A panic in one request is its error, and its connection goes on.
        Some(route) => {
            let answered = guard_future(respond(Arc::clone(gateway), reach, route, request, seen.clone())).await;
            answered.map_err(Fault::from).and_then(|answered| answered)
        }
        None => Err(Fault::new(FaultCode::NotFound, format!("there is no {}", request.uri().path()))),
    };
    watch.answer(found.unwrap_or_else(|fault| fault.into_response_as(shape, Some(seen.id()))))
}

/// What clients of Anthropic and of Azure write after a path. It changes nothing.
const LABELS: [&str; 2] = ["beta", "api-version"];

/// Returns the names and values after a path.
fn query(uri: &Uri) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned()
}

/// Checks the key and the method of a request, reads its body, and does its work.
async fn respond(
    gateway: Arc<Gateway>,
    reach: Reach,
    route: Route,
    request: Request,
    seen: RequestLog,
) -> Result<Response, Fault> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if let Some(response) = gateway.sites.preflight(&head) {
        return Ok(response);
    }
    // A page of another site has no key.
    if route.access != Access::Everybody && gateway.keys.count().is_none() {
        gateway.sites.check(&head, reach)?;
    }
    if route.access == Access::Key {
        check(&gateway, &head.headers)?;
    }
    let owner = Owner::of_key(key(&head.headers).unwrap_or_default());
    // Hyper leaves the body of the answer out.
    let is_head = head.method == Method::HEAD && route.method == Method::GET;
    if head.method != route.method && !is_head {
        let fault = Fault::new(FaultCode::MethodNotAllowed, format!("{path} takes {}", route.method));
        let mut response = fault.into_response_as(route.fault, Some(seen.id()));
        if let Ok(allowed) = HeaderValue::from_str(route.method.as_str()) {
            response.headers_mut().insert(header::ALLOW, allowed);
        }
        return Ok(response);
    }
    if head.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let help = Some("send the body as it is, without `Content-Encoding`".into());
        let fault = Fault::new(FaultCode::UnsupportedEncoding, "the body of the request is encoded");
        return Err(Fault { help, ..fault });
    }
    let takes_forms = matches!(route.work, Work::Upload(_));
    if head.method == Method::POST && !takes_forms && !has_json(&head.headers) {
        let help = Some("send the header `Content-Type: application/json`, as `curl --json` does".into());
        let fault = Fault::new(FaultCode::UnsupportedContentType, "the request does not say that its body is JSON");
        return Err(Fault { help, ..fault });
    }
    if head.method == Method::POST
        && let Some((name, _)) = query(&head.uri).find(|(name, _)| !LABELS.contains(&&**name))
    {
        return Err(Fault::unsupported(&name));
    }
    OWNER.scope(owner, work(gateway, owner, route.work, head, body, seen)).await
}

/// Does the work of a request.
async fn work(
    gateway: Arc<Gateway>,
    owner: Owner,
    work: Work,
    head: Parts,
    body: Body,
    seen: RequestLog,
) -> Result<Response, Fault> {
    match work {
        Work::File(file) => Ok(file.answer()),
        Work::Now(work) => Ok(answer(&work(&gateway)?)),
        Work::Of(work, name) => Ok(answer(&work(&gateway, &name)?)),
        Work::Ready => {
            let ready = gateway.ready.ask(gateway.models()).await;
            let mut response = answer(&ready.body);
            if !ready.is_good {
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            }
            Ok(response)
        }
        Work::Metrics => {
            let mut response = Response::new(Body::from(gateway.observer.metrics.text()));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
            Ok(response)
        }
        Work::Long(work) => {
            let (permit, body) = admit(&gateway, &seen, body).await?;
            let made = sized(gateway.size_of_work(body.len()), move || {
                let made = work(&gateway, &body);
                drop(permit);
                made
            });
            Ok(answer(&made.await?))
        }
        Work::Upload(asked) => {
            let _permit = gateway.enter(&seen)?;
            let containers = containers_of(&gateway)?;
            let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let bytes = bytes_of(&gateway, body).await?;
            containers::take(&containers, owner, asked, kind.to_owned(), bytes).await
        }
        Work::Container(asked) => {
            let _permit = gateway.enter(&seen)?;
            let containers = containers_of(&gateway)?;
            let query: Vec<(String, String)> =
                query(&head.uri).filter(|(name, _)| !LABELS.contains(&&**name)).collect();
            // Files are read from a disk.
            let done =
                tokio::task::spawn_blocking(move || containers::answer(&containers, owner, &asked, &query)).await;
            done.unwrap_or_else(|error| Err(Fault::new(FaultCode::InterpreterFailed, error.to_string())))
        }
        Work::Stored(look_up, name) => {
            let _permit = gateway.enter(&seen)?;
            let asked = PathRequest { owner, name, query: query(&head.uri).collect() };
            Ok(answer(&look_up(&gateway, &asked).await?))
        }
        Work::Render => {
            let (permit, body) = admit(&gateway, &seen, body).await?;
            Ok(answer(&render::render(gateway, owner, body, permit).await?))
        }
        Work::Exchange(read) => {
            let (permit, body) = admit(&gateway, &seen, body).await?;
            exchange(gateway, owner, read, body, permit).await
        }
        Work::Complete(read) => {
            let (permit, body) = admit(&gateway, &seen, body).await?;
            complete(gateway, owner, read, body, permit).await
        }
        Work::Respond => {
            let (permit, body) = admit(&gateway, &seen, body).await?;
            responses::respond(gateway, owner, body, permit).await
        }
        Work::Interact => {
            let (permit, body) = admit(&gateway, &seen, body).await?;
            interactive::respond(gateway, owner, body, permit).await
        }
    }
}

/// Returns the containers, if there may be any.
fn containers_of(gateway: &Gateway) -> Result<Arc<Containers>, Fault> {
    gateway.containers.clone().ok_or_else(|| {
        let help = Some("set `interpreter.enabled`".into());
        let message = "this gateway does not run code, so it has no containers and no files";
        Fault { help, ..Fault::new(FaultCode::NotFound, message) }
    })
}

fn check(gateway: &Gateway, headers: &HeaderMap) -> Result<(), Fault> {
    if gateway.keys.allow(key(headers)) {
        return Ok(());
    }
    let help = Some("send the header `Authorization: Bearer KEY`".into());
    Err(Fault { help, ..Fault::new(FaultCode::InvalidApiKey, "the API key is missing or wrong") })
}

/// Reports whether a request says that its body is JSON. Without asking, browsers send only other types, or none, for
/// a page of another site.
fn has_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(Ok(only)), None) = (types.next().map(HeaderValue::to_str), types.next()) else { return false };
    let name = only.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    name.split_once('/').is_some_and(|(kind, own)| {
        is_token(kind) && is_token(own) && ((kind, own) == ("application", "json") || own.ends_with("+json"))
    })
}

/// Takes a request's place among those at the same time, and reads its body.
async fn admit(gateway: &Gateway, seen: &RequestLog, body: Body) -> Result<(Permit, String), Fault> {
    let permit = gateway.enter(seen)?;
    let body = body_of(gateway, body).await?;
    seen.request(&body);
    Ok((permit, body))
}

async fn body_of(gateway: &Gateway, body: Body) -> Result<String, Fault> {
    let body = bytes_of(gateway, body).await?;
    String::from_utf8(body.into()).map_err(|_| Fault::new(FaultCode::NotUtf8, "the request is not UTF-8"))
}

async fn bytes_of(gateway: &Gateway, body: Body) -> Result<Bytes, Fault> {
    let most = gateway.limits.body_bytes;
    let too_large = || Fault::new(FaultCode::TooLarge, format!("the request has more than {most} bytes"));
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let body = tokio::time::timeout(gateway.limits.body, to_bytes(body, most)).await;
    let body = body.map_err(|_| Fault::new(FaultCode::SlowRequest, "the request took too long to arrive"))?;
    body.map_err(|error| match has_limit(&error) {
        true => too_large(),
        false => Fault::new(FaultCode::BrokenRequest, "the request did not arrive whole"),
    })
}

/// Reports whether a body is too large.
fn has_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

/// Returns the key of a request.
fn key(headers: &HeaderMap) -> Option<&str> {
    // Anthropic's clients send it in a header of its own.
    let own = headers.get("x-api-key").and_then(|key| key.to_str().ok()).map(str::trim);
    if let Some(key) = own.filter(|key| !key.is_empty()) {
        return Some(key);
    }
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}
