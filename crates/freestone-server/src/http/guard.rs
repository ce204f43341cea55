//! What every request must fulfil before it is looked at, and the headers of every answer: a page of another site must neither
//! reach this server under a name of its own, nor send what changes anything, nor frame the console.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

use super::Console;
use super::refusal::Refusal;
use crate::options::is_loopback;

/// The header that only the console's own page sends: other sites would have to ask for it first, and are never answered.
const OWN_HEADER: &str = "x-freestone";

/// The headers of every answer. Nothing is loaded from elsewhere, nothing inline runs, and no other page frames the console.
/// Pictures in `data:` addresses are those of the editor's marks.
const HEADERS: [(HeaderName, &str); 8] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    (HeaderName::from_static("x-dns-prefetch-control"), "off"),
];

/// The hosts by which the server is known.
pub(crate) struct Hosts {
    address: SocketAddr,
    name: Option<String>,
    certificate: Option<CertificateDer<'static>>,
}

impl Hosts {
    /// For a server at an address, which its user has written with this name.
    pub fn new(address: SocketAddr, name: Option<String>, certificate: Option<CertificateDer<'static>>) -> Hosts {
        Hosts { address, name, certificate }
    }

    pub fn is_secure(&self) -> bool {
        self.certificate.is_some()
    }

    /// Whether the server is known as this host: by an address of its machine, as `localhost`, by the name in its configuration,
    /// or by a name in its certificate. A site of another owner has a name of its own, also where it leads to this address.
    fn admits(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        if host.contains('@') {
            return false;
        }
        let name = authority.host().to_ascii_lowercase();
        let usual = if self.is_secure() { 443 } else { 80 };
        let has_port = authority.port_u16().unwrap_or(usual) == self.address.port();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            // Public addresses are reached by any address of the machine, which only its network knows.
            return has_port && (is_loopback(ip) || !is_loopback(self.address.ip()));
        }
        let is_known = name == "localhost" || self.name.as_ref() == Some(&name);
        is_known && has_port || self.is_certified(&name)
    }

    fn is_certified(&self, name: &str) -> bool {
        let Some(certificate) = &self.certificate else { return false };
        let parsed = ParsedCertificate::try_from(certificate);
        match (parsed, ServerName::try_from(name)) {
            (Ok(parsed), Ok(name)) => rustls::client::verify_server_name(&parsed, &name).is_ok(),
            _ => false,
        }
    }

    fn origin(&self, host: &str) -> String {
        format!("{}://{}", if self.is_secure() { "https" } else { "http" }, host.to_ascii_lowercase())
    }
}

/// Lets a request through that fulfils the rules.
pub(crate) async fn guard(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let mut response = match check(&console.hosts, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in &HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn check(hosts: &Hosts, request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let host = host(request)?;
    if !hosts.admits(host) {
        let message = format!("this server is not known as {host:?}");
        return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, message)
            .with_hint("open it at the address that it printed, or give its name in --http NAME:PORT"));
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) && !request.uri().path().starts_with("/api/") {
        return Ok(());
    }
    let foreign = || Refusal::new(StatusCode::FORBIDDEN, "a page of another site has sent this request");
    let is_post = *request.method() == Method::POST;
    let own = hosts.origin(host);
    match headers.get(header::ORIGIN) {
        Some(origin) if origin.to_str().is_ok_and(|origin| origin.eq_ignore_ascii_case(&own)) => {}
        None if !is_post => {}
        Some(_) => return Err(foreign()),
        None => {
            let missing = Refusal::new(StatusCode::FORBIDDEN, "the header Origin is missing");
            return Err(missing.with_hint(format!("send Origin: {own} with every POST, as browsers do")));
        }
    }
    if headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
        return Err(foreign());
    }
    if is_post { check_own(headers) } else { Ok(()) }
}

/// The host that a request names: exactly one, and none in its address that differs.
fn host(request: &Request) -> Result<&str, Refusal> {
    let wrong = |what: &str| Refusal::bad_request(format!("the request has {what}"));
    let mut named = request.headers().get_all(header::HOST).iter();
    let written = named.next().map(|host| host.to_str().map_err(|_| wrong("a host that is no text"))).transpose()?;
    if named.next().is_some() {
        return Err(wrong("several hosts"));
    }
    let in_address = request.uri().authority().map(Authority::as_str);
    match (written, in_address) {
        (Some(a), Some(b)) if !a.eq_ignore_ascii_case(b) => Err(wrong("two different hosts")),
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => Err(wrong("no host").with_hint("send the header Host")),
    }
}

/// What a page of another site cannot send without asking first.
fn check_own(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.get(OWN_HEADER).is_none_or(|value| value != "1") {
        let missing = Refusal::new(StatusCode::FORBIDDEN, "the header X-Freestone is missing");
        return Err(missing.with_hint("send X-Freestone: 1 with every POST"));
    }
    let content = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content = content.split(';').next().unwrap_or_default().trim();
    if !content.eq_ignore_ascii_case("application/json") {
        let other = Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body of a POST is JSON");
        return Err(other.with_hint("send Content-Type: application/json"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn hosts(address: &str, name: Option<&str>) -> Hosts {
        Hosts::new(address.parse().expect("an address"), name.map(str::to_owned), None)
    }

    #[test]
    fn only_own_hosts_are_known() {
        let local = hosts("127.0.0.1:8080", None);
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080", "127.0.0.2:8080"] {
            assert!(local.admits(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost",
            "localhost:80",
            "127.0.0.1",
            "127.0.0.1:8081",
            "192.0.2.1:8080",
            "localhost.evil.example:8080",
            "127.0.0.1:8080@evil.example:8080",
            "evil@127.0.0.1:8080",
            "localhost:8080/x",
            "127.0.0.1.nip.example:8080",
            "[::1",
        ] {
            assert!(!local.admits(host), "{host}");
        }
        let named = hosts("127.0.0.1:80", Some("data.example"));
        assert!(named.admits("data.example") && named.admits("Data.Example:80") && named.admits("localhost"));
        assert!(!named.admits("other.example") && !named.admits("data.example:81"));
        assert!(hosts("0.0.0.0:81", None).admits("192.0.2.1:81"));
    }

    #[test]
    fn certificates_have_the_names_of_their_server() {
        let key = rcgen::generate_simple_self_signed(vec!["data.example".to_owned()]).expect("a certificate");
        let secure = Hosts::new("0.0.0.0:8443".parse().expect("an address"), None, Some(key.cert.der().clone()));
        assert!(secure.admits("data.example:8443") && secure.admits("data.example"));
        assert!(!secure.admits("evil.example:8443") && !secure.admits("sub.data.example:8443"));
        assert_eq!(secure.origin("Data.Example"), "https://data.example");
    }

    fn status(method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        check(&hosts("127.0.0.1:8080", None), &request).map_or_else(|refusal| refusal.status().as_u16(), |()| 200)
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let host = ("host", "127.0.0.1:8080");
        let (own, json) = (("x-freestone", "1"), ("content-type", "application/json; charset=utf-8"));
        let origin = |origin| ("origin", origin);
        let same = origin("http://127.0.0.1:8080");
        for (method, path, headers, expected) in [
            ("GET", "/", vec![host], 200),
            ("GET", "/", vec![host, origin("https://evil.example")], 200),
            ("GET", "/", vec![], 400),
            ("GET", "/", vec![host, host], 400),
            ("GET", "/", vec![("host", "evil.example")], 421),
            ("GET", "http://evil.example/", vec![host], 400),
            ("GET", "http://127.0.0.1:8080/", vec![host], 200),
            ("GET", "/api/session", vec![host], 200),
            ("GET", "/api/session", vec![host, ("sec-fetch-site", "cross-site")], 403),
            ("GET", "/api/session", vec![host, ("sec-fetch-site", "same-origin")], 200),
            ("POST", "/api/query", vec![host, own, json], 403),
            ("POST", "/api/query", vec![host, own, json, same], 200),
            ("POST", "/api/query", vec![host, own, json, origin("HTTP://127.0.0.1:8080")], 200),
            ("POST", "/api/query", vec![host, own, json, origin("http://localhost:8080")], 403),
            ("POST", "/api/query", vec![host, own, json, origin("https://127.0.0.1:8080")], 403),
            ("POST", "/api/query", vec![host, own, json, origin("http://127.0.0.1:8081")], 403),
            ("POST", "/api/query", vec![host, own, json, origin("null")], 403),
            ("POST", "/api/query", vec![host, own, json, same, ("sec-fetch-site", "same-site")], 403),
            ("POST", "/api/query", vec![host, json, same], 403),
            ("POST", "/api/query", vec![host, ("x-freestone", "yes"), json, same], 403),
            ("POST", "/api/query", vec![host, own, same], 415),
            ("POST", "/api/query", vec![host, own, ("content-type", "text/plain"), same], 415),
            ("POST", "/", vec![host], 403),
        ] {
            assert_eq!(status(method, path, &headers), expected, "{method} {path} {headers:?}");
        }
    }
}
