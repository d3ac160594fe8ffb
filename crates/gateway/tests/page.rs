//! The page at `/` as it is served. `tests/page` tests it in a browser.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use crate::common::{Server, StandIn};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Keys, Limits};

#[tokio::test]
async fn the_page_needs_no_key_and_runs_its_own_scripts_alone() {
    let engine = StandIn::new(EngineKind::LlamaCpp, Vec::new());
    let server = Server::with("chatml", engine, Limits::default(), Keys::read("secret").unwrap()).await;
    let get = async |path: &str| reqwest::get(format!("{}{path}", server.address)).await.unwrap();
    for (path, media_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/page/turn.js", "text/javascript; charset=utf-8"),
    ] {
        let answer = get(path).await;
        assert_eq!(answer.status(), 200, "{path}");
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), media_type);
        assert_eq!(header("x-content-type-options"), "nosniff");
        let policy = header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    // Everything that the page names is there.
    let html = get("/").await.text().await.unwrap();
    let named = html.split('"').filter(|text| text.ends_with(".js") || text.ends_with(".css"));
    let named: Vec<&str> = named.collect();
    assert!(named.len() > 2, "{named:?}");
    for name in named {
        assert_eq!(get(&format!("/{name}")).await.status(), 200, "{name}");
    }
    // The API needs the key.
    let refused = get("/v1/models").await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()["www-authenticate"], "Bearer");
}
