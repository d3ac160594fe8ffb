/// The paths of the API. Others are counted together, so that clients cannot add metrics.
const ROUTES: [&str; 13] = [
    "/",
    "/v1/chat/completions",
    "/v1/chat/interactive",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/models",
    "/v1/render",
    "/tokenize",
    "/detokenize",
    "/health",
    "/ready",
    "/metrics",
];

/// Returns the name of a path for metrics and logs, without names and ids in it.
pub fn route(path: &str) -> &'static str {
    if let Some(route) = ROUTES.iter().find(|route| **route == path) {
        return route;
    }
    match path {
        path if path.starts_with("/v1/models/") => "/v1/models/NAME",
        path if path.starts_with("/v1/responses/") => "/v1/responses/ID",
        path if path.starts_with("/v1/messages/") => "/v1/messages/..",
        _ => "other",
    }
}
