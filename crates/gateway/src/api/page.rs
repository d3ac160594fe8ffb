//! The page at `/`: a chat that shows what each turn sent to the engine.
//!
//! Its files are part of the program, and it loads nothing from elsewhere. It contains nothing of clients,
//! so it needs no key. It asks its user for the key of the API.

use axum::body::Body;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::response::Response;

/// A file of the page.
pub struct PageFile {
    media_type: &'static str,
    text: &'static str,
}

const HTML: PageFile = PageFile { media_type: "text/html; charset=utf-8", text: include_str!("../page/index.html") };
const CSS: PageFile = PageFile { media_type: "text/css; charset=utf-8", text: include_str!("../page/page.css") };

/// The scripts. The page loads `page.js`, which imports the others.
const SCRIPTS: [(&str, &str); 6] = [
    ("/page.js", include_str!("../page/page.js")),
    ("/page/api.js", include_str!("../page/api.js")),
    ("/page/conversation.js", include_str!("../page/conversation.js")),
    ("/page/dom.js", include_str!("../page/dom.js")),
    ("/page/prompt.js", include_str!("../page/prompt.js")),
    ("/page/turn.js", include_str!("../page/turn.js")),
];

/// What the page may do: run its own scripts, and talk to this gateway. Text cannot become markup, as no
/// script may make any. Sources: W3C, Content Security Policy Level 3 and Trusted Types.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types 'none'";

/// Returns the file of a path.
pub fn file(path: &str) -> Option<PageFile> {
    match path {
        "/" => Some(HTML),
        "/page.css" => Some(CSS),
        _ => {
            let (_, text) = SCRIPTS.iter().find(|(known, _)| *known == path)?;
            Some(PageFile { media_type: "text/javascript; charset=utf-8", text })
        }
    }
}

impl PageFile {
    /// Returns the answer with the file.
    pub fn answer(&self) -> Response {
        let mut response = Response::new(Body::from(self.text));
        let own: [(HeaderName, &'static str); 6] = [
            (header::CONTENT_TYPE, self.media_type),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            // Another release of the gateway has another page.
            (header::CACHE_CONTROL, "no-cache"),
        ];
        for (name, value) in own {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
