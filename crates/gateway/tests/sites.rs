//! Requests that a browser sends for a page of another site.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Keys, Sites};

use crate::common::{Server, StandIn, Step, config, sampled};

const CHAT: &str = r#"{"session_id": "mine", "messages": [{"role": "user", "content": "Hi"}]}"#;

async fn server(sites: Sites, keys: Keys) -> Server {
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled("chatml", "Hi")), Step::End("eos")]);
    let config = config("chatml", &engine).await;
    Server::open(rolecall_gateway::Config { sites, keys, ..config }, engine).await
}

fn sites(origins: &[&str], hosts: &[&str]) -> Sites {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Sites { origins: owned(origins), hosts: owned(hosts) }
}

/// Sends a request with headers, and returns the status and the answer.
async fn send(server: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let client = reqwest::Client::new();
    let request = client.request(method.parse().unwrap(), format!("{}{path}", server.address)).body(body.to_owned());
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn a_page_of_another_site_neither_writes_nor_reads() {
    let server = server(Sites::default(), Keys::default()).await;
    let (evil, site) = (("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"));
    for (method, path, body) in [
        ("POST", "/v1/chat/completions", CHAT),
        ("POST", "/v1/completions", r#"{"prompt": "a"}"#),
        ("POST", "/v1/messages", CHAT),
        ("POST", "/v1/chat/interactive", r#"{"session_id": 1, "cancel": true}"#),
        ("POST", "/v1/responses", r#"{"input": "Hi"}"#),
        ("POST", "/v1/render", CHAT),
        ("POST", "/tokenize", r#"{"text": "Hi"}"#),
        ("DELETE", "/v1/responses/resp_1", ""),
        ("GET", "/v1/responses/resp_1", ""),
        ("GET", "/v1/models", ""),
        ("GET", "/metrics", ""),
        ("OPTIONS", "/v1/chat/completions", ""),
    ] {
        for headers in
            [&[evil, JSON][..], &[site, JSON], &[("sec-fetch-site", "same-site"), JSON], &[("origin", "null"), JSON]]
        {
            let (status, answer) = send(&server, method, path, headers, body).await;
            assert!(
                status == 403 && answer.contains("foreign_origin"),
                "{method} {path} {headers:?}: {status} {answer}"
            );
        }
        let rebound = [("host", "evil.example:8000"), ("origin", "http://evil.example:8000"), JSON];
        let (status, answer) = send(&server, method, path, &rebound, body).await;
        assert!(status == 403 && answer.contains("foreign_host"), "{method} {path}: {status} {answer}");
    }
    assert!(server.engine.bodies.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_body_without_the_type_of_json_is_refused() {
    let server = server(Sites::default(), Keys::default()).await;
    let post = async |headers: &[(&str, &str)]| send(&server, "POST", "/v1/chat/completions", headers, CHAT).await;
    for wrong in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "text/plain;application/json",
        "text/plain,a/b+json",
        "json",
    ] {
        let (status, answer) = post(&[("content-type", wrong)]).await;
        assert!(status == 415 && answer.contains("unsupported_content_type"), "{wrong}: {status} {answer}");
    }
    assert_eq!(post(&[]).await.0, 415);
    assert!(server.engine.bodies.lock().unwrap().is_empty());
    for good in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"] {
        assert_eq!(post(&[("content-type", good)]).await.0, 200, "{good}");
    }
}

#[tokio::test]
async fn the_own_page_and_other_programs_go_on() {
    let server = server(Sites::default(), Keys::default()).await;
    let own = server.address.clone();
    for headers in [&[JSON][..], &[("origin", own.as_str()), ("sec-fetch-site", "same-origin"), JSON]] {
        assert_eq!(send(&server, "POST", "/v1/chat/completions", headers, CHAT).await.0, 200, "{headers:?}");
    }
    // A link on another page leads to the page, and a probe of the process has any name.
    for path in ["/", "/page.js", "/health"] {
        let headers = [("sec-fetch-site", "cross-site"), ("host", "gateway.example")];
        assert_eq!(send(&server, "GET", path, &headers, "").await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn an_origin_that_is_allowed_may_ask_and_read() {
    let server = server(sites(&["https://chat.example"], &[]), Keys::default()).await;
    let client = reqwest::Client::new();
    let url = format!("{}/v1/chat/completions", server.address);
    let asked = client.request(reqwest::Method::OPTIONS, &url).header("origin", "https://chat.example");
    let asked = asked.header("access-control-request-method", "POST");
    let asked = asked.header("access-control-request-headers", "authorization,content-type").send().await.unwrap();
    let header = |name: &str| asked.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(asked.status().as_u16(), 204);
    assert_eq!(header("access-control-allow-origin"), Some("https://chat.example"));
    assert_eq!(header("access-control-allow-headers"), Some("authorization,content-type"));
    assert!(header("access-control-allow-methods").unwrap().contains("POST"));
    for (body, status) in [(CHAT, 200), ("{", 400)] {
        let posted = client.post(&url).header("origin", "https://chat.example").header(JSON.0, JSON.1);
        let posted = posted.header("sec-fetch-site", "cross-site").body(body).send().await.unwrap();
        assert_eq!(posted.status().as_u16(), status);
        assert_eq!(posted.headers()["access-control-allow-origin"], "https://chat.example");
        assert_eq!(posted.headers()["vary"], "origin");
    }
    let other = client.post(&url).header("origin", "https://other.example").header(JSON.0, JSON.1);
    let other = other.body(CHAT).send().await.unwrap();
    assert_eq!((other.status().as_u16(), other.headers().get("access-control-allow-origin")), (403, None));
}

#[tokio::test]
async fn a_name_that_is_allowed_is_the_gateways() {
    let server = server(sites(&[], &["chat.example"]), Keys::default()).await;
    let headers = [("host", "chat.example"), ("origin", "https://chat.example"), JSON];
    assert_eq!(send(&server, "POST", "/v1/chat/completions", &headers, CHAT).await.0, 200);
    assert_eq!(send(&server, "GET", "/v1/models", &[("host", "other.example")], "").await.0, 403);
}

#[tokio::test]
async fn with_keys_the_key_decides() {
    let server = server(Sites::default(), Keys::read("secret").unwrap()).await;
    let page = [("origin", "https://chat.example"), ("host", "chat.example"), JSON];
    assert_eq!(send(&server, "POST", "/v1/chat/completions", &page, CHAT).await.0, 401);
    let keyed: Vec<_> = page.into_iter().chain([("authorization", "Bearer secret")]).collect();
    assert_eq!(send(&server, "POST", "/v1/chat/completions", &keyed, CHAT).await.0, 200);
}
