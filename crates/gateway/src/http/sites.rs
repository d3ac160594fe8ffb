use std::net::{IpAddr, SocketAddr};

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

use crate::{Fault, FaultCode};

/// Which pages in browsers may use a gateway, beside its own page.
///
/// Every page of every site can make a browser send requests to the user's own machine and network. With keys, it
/// would need one. Without keys, the gateway answers only its own page, the origins that are allowed, and clients
/// that are no browsers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// The origins whose pages may use the gateway: `https://chat.example.com`, or `*` for all.
    pub origins: Vec<String>,
    /// The names of the gateway, without ports: `chat.example.com`, or `*` for all.
    pub hosts: Vec<String>,
}

/// Who can reach a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Programs on the same machine.
    Machine,
    /// Other machines, too.
    Network,
}

/// What allows everything of its kind.
const ALL: &str = "*";

/// The most characters of a header that an error repeats.
const LONGEST: usize = 200;

/// Source: W3C, Fetch Metadata Request Headers.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Source: WICG, Private Network Access.
const WANTS_PRIVATE_NETWORK: &str = "access-control-request-private-network";
const ALLOWS_PRIVATE_NETWORK: &str = "access-control-allow-private-network";

impl Reach {
    /// Returns who can reach a listener at an address.
    pub(crate) fn of(address: SocketAddr) -> Reach {
        if address.ip().to_canonical().is_loopback() { Reach::Machine } else { Reach::Network }
    }
}

impl Sites {
    /// Refuses what a browser sends for a page of another origin, or by a name that is not the gateway's.
    pub(crate) fn check(&self, head: &Parts, reach: Reach) -> Result<(), Fault> {
        let own = hosts(head)?;
        if let Some(host) = own.iter().find(|host| !self.has_host(host.host(), reach)) {
            let host = shortened(host.host());
            let help = format!("allow the name with `--allowed-hosts {host}`, or use API keys (`--keys`)");
            let fault = Fault::new(FaultCode::ForeignHost, format!("`{host}` is no name of this gateway"));
            return Err(Fault { help: Some(help.into()), ..fault });
        }
        if self.origin(&head.headers).is_some() {
            return Ok(());
        }
        let is_own = |origin: &HeaderValue| {
            let parts = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            // A proxy may speak TLS for the gateway.
            let authority = parts.filter(|(scheme, _)| ["http", "https"].contains(scheme)).map(|(_, rest)| rest);
            authority.is_some_and(|authority| own.iter().any(|own| own.as_str().eq_ignore_ascii_case(authority)))
        };
        if let Some(origin) = head.headers.get_all(ORIGIN).iter().find(|origin| !is_own(origin)) {
            return Err(foreign(Some(&String::from_utf8_lossy(origin.as_bytes()))));
        }
        // A request that does not change anything may have no origin.
        let is_foreign = |site: &HeaderValue| !matches!(site.as_bytes(), b"same-origin" | b"none");
        match head.headers.get_all(SEC_FETCH_SITE).iter().any(is_foreign) {
            true => Err(foreign(None)),
            false => Ok(()),
        }
    }

    /// Returns the origin of a request if it is one of those that are allowed.
    fn origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        let is_allowed =
            |allowed: &String| allowed == ALL || origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes());
        self.origins.iter().any(is_allowed).then_some(origin)
    }

    fn has_host(&self, host: &str, reach: Reach) -> bool {
        let host = host.trim_end_matches('.');
        if self.hosts.iter().any(|allowed| allowed == ALL || allowed.eq_ignore_ascii_case(host)) {
            return true;
        }
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        // A site can point its own name to any address, but it has no name without a dot, and no address is a name.
        match (reach, address) {
            (Reach::Machine, Ok(address)) => address.to_canonical().is_loopback(),
            (Reach::Network, Ok(_)) => true,
            (Reach::Machine, Err(_)) => is_localhost(host),
            (Reach::Network, Err(_)) => !host.contains('.') || is_localhost(host),
        }
    }

    /// Answers the question of a browser whether a page of an origin that is allowed may send a request.
    pub(crate) fn preflight(&self, head: &Parts) -> Option<Response> {
        let is_asked = head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        self.origin(&head.headers).filter(|_| is_asked)?;
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        if let Some(names) = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        if head.headers.contains_key(WANTS_PRIVATE_NETWORK) {
            headers.insert(ALLOWS_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
        Some(response)
    }

    /// Lets the page of an origin that is allowed read an answer.
    pub(crate) fn share(&self, request: &HeaderMap, response: &mut Response) {
        if self.origins.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = self.origin(request) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        }
    }
}

/// Reports whether a text is an origin, as browsers write it.
pub fn is_origin(text: &str) -> bool {
    let is_whole = |(scheme, rest): (&str, &str)| {
        let is_named =
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        is_named && rest.parse::<Authority>().is_ok_and(|authority| authority.as_str() == rest && !rest.contains('@'))
    };
    text == ALL || text == "null" || text.split_once("://").is_some_and(is_whole)
}

/// Reports whether a text is the name or address of a host, without a port.
pub fn is_host(text: &str) -> bool {
    text == ALL || text.parse::<Authority>().is_ok_and(|authority| authority.host() == text)
}

/// Returns the names by which a request calls the gateway. One that is no browser's may have none.
fn hosts(head: &Parts) -> Result<Vec<Authority>, Fault> {
    let given = head.headers.get_all(HOST).iter().filter(|host| !host.is_empty());
    let given = given.map(|host| {
        let wrong = || Fault::new(FaultCode::WrongHost, "the header `Host` is no name of a host");
        let host = Authority::try_from(host.as_bytes()).map_err(|_| wrong())?;
        if host.as_str().contains('@') { Err(wrong()) } else { Ok(host) }
    });
    head.uri.authority().cloned().map(Ok).into_iter().chain(given).collect()
}

/// Reports whether a name is that of the machine itself. Source: RFC 6761, 6.3.
fn is_localhost(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case("localhost")
}

fn foreign(origin: Option<&str>) -> Fault {
    let (of, help) = match origin.map(shortened) {
        Some(origin) => {
            let help = format!("allow the origin with `--allowed-origins {origin}`, or use API keys (`--keys`)");
            (format!("the origin `{origin}`"), help)
        }
        None => ("another origin".to_owned(), "open the gateway's own page".to_owned()),
    };
    let fault = Fault::new(FaultCode::ForeignOrigin, format!("a page of {of} may not use this gateway"));
    Fault { help: Some(help.into()), ..fault }
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::{Reach, Sites, is_host, is_origin};

    fn code(sites: &Sites, reach: Reach, headers: &[(&str, &str)]) -> Option<String> {
        let request = headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
        let (head, ()) = request.body(()).expect("it is a request").into_parts();
        sites.check(&head, reach).err().map(|fault| fault.code.name().into())
    }

    #[test]
    fn a_host_is_a_name_that_no_site_can_take() {
        let sites = Sites { hosts: vec!["chat.example.com".to_owned()], ..Sites::default() };
        for (host, here, anywhere) in [
            ("localhost:8000", true, true),
            ("LOCALHOST", true, true),
            ("localhost.", true, true),
            ("a.localhost:1", true, true),
            ("127.0.0.1:8000", true, true),
            ("127.9.9.9", true, true),
            ("[::1]:8000", true, true),
            ("[::ffff:127.0.0.1]", true, true),
            ("chat.example.com:443", true, true),
            ("", true, true),
            ("10.0.0.5:8000", false, true),
            ("0.0.0.0:8000", false, true),
            ("[fe80::1]", false, true),
            ("gateway:8000", false, true),
            ("evil.example:8000", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("other.chat.example.com", false, false),
            ("me@localhost", false, false),
        ] {
            for (reach, is_good) in [(Reach::Machine, here), (Reach::Network, anywhere)] {
                assert_eq!(code(&sites, reach, &[("host", host)]).is_none(), is_good, "{host} {reach:?}");
            }
        }
        // The second name counts as well.
        assert!(code(&sites, Reach::Machine, &[("host", "localhost"), ("host", "evil.example")]).is_some());
        let all = Sites { hosts: vec!["*".to_owned()], ..Sites::default() };
        assert_eq!(code(&all, Reach::Machine, &[("host", "any.example")]), None);
    }

    #[test]
    fn a_page_of_another_origin_is_refused_unless_it_is_allowed() {
        let sites = Sites { origins: vec!["https://chat.example.com".to_owned()], ..Sites::default() };
        let host = ("host", "127.0.0.1:8000");
        for (headers, is_good) in [
            (&[] as &[_], true),
            (&[("origin", "http://127.0.0.1:8000")], true),
            (&[("origin", "https://127.0.0.1:8000"), ("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("origin", "https://chat.example.com"), ("sec-fetch-site", "cross-site")], true),
            (&[("origin", "http://chat.example.com")], false),
            (&[("origin", "https://chat.example.com.evil.example")], false),
            (&[("origin", "http://127.0.0.1:8001"), ("sec-fetch-site", "same-site")], false),
            (&[("origin", "http://localhost:8000")], false),
            (&[("origin", "null")], false),
            (&[("origin", "")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "something new")], false),
        ] {
            let headers: Vec<_> = headers.iter().copied().chain([host]).collect();
            let found = code(&sites, Reach::Machine, &headers);
            assert_eq!(found, (!is_good).then(|| "foreign_origin".to_owned()), "{headers:?}");
        }
    }

    #[test]
    fn only_whole_origins_and_hosts_can_be_allowed() {
        for good in
            ["*", "null", "https://a.example", "http://localhost:3000", "chrome-extension://abc", "http://[::1]:80"]
        {
            assert!(is_origin(good), "{good}");
        }
        for wrong in ["", "a.example", "https://a.example/", "https://a.example/b", "https://me@a.example", "://a"] {
            assert!(!is_origin(wrong), "{wrong}");
        }
        for good in ["*", "a.example", "localhost", "10.0.0.1", "[::1]"] {
            assert!(is_host(good), "{good}");
        }
        for wrong in ["", "a.example:80", "https://a.example", "me@a", "a/b"] {
            assert!(!is_host(wrong), "{wrong}");
        }
    }
}
