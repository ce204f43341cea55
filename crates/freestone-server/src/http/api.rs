//! The addresses of the console and what each answers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::guard::guard;
use super::login::{Credentials, Login, Needed, full};
use super::query::{self, Query};
use super::refusal::{Refusal, json_response};
use super::{Console, Peer, page};

/// The maximum bytes of a body: of statements, and of everything else.
const QUERY_BYTES_MAX: usize = 8 << 20;
const BODY_BYTES_MAX: usize = 16 << 10;
/// The time in which a body must be there.
const BODY_TIME: Duration = Duration::from_secs(60);

type Answer = Result<Response, Refusal>;

/// All addresses of the console.
pub(crate) fn router(console: Arc<Console>) -> Router {
    Router::new()
        .route("/api/session", get(session))
        .route("/api/login", post(log_in))
        .route("/api/logout", post(log_out))
        .route("/api/query", post(run_query))
        .route("/api/cancel", post(cancel))
        .route("/api/close", post(close))
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .fallback(file)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(console.clone(), guard))
        .with_state(console)
}

/// The metrics, on an address of their own.
pub(crate) fn metrics_router(text: impl Fn() -> String + Send + Sync + 'static) -> Router {
    let source = Arc::new(text);
    let text = move || {
        let text = metrics_text(source());
        async move { text }
    };
    let missing =
        || async { Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this address").with_hint("see /metrics") };
    Router::new().route("/metrics", get(text.clone())).route("/", get(text)).fallback(missing)
}

async fn file(request: Request) -> Answer {
    page::answer(request.method(), request.uri().path(), request.headers())
}

async fn other_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this address takes another method")
}

async fn session(State(console): State<Arc<Console>>, login: Result<LoggedIn, Refusal>) -> Answer {
    let version = env!("CARGO_PKG_VERSION");
    let needed = console.logins.needed();
    let login = match login {
        Ok(LoggedIn(login)) => login,
        Err(refusal) if needed == Needed::Nothing => return Err(refusal),
        Err(_) => return Ok(json_response(&json!({ "login": needed.name(), "version": version }))),
    };
    let options = console.shared.database.options();
    let folder = console.shared.database.folder();
    let digest = Sha256::digest(folder.map(|folder| folder.as_os_str().as_encoded_bytes()).unwrap_or_default());
    let id: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let database = folder.and_then(|folder| folder.file_name()).map(|name| name.to_string_lossy().into_owned());
    Ok(json_response(&json!({
        "login": Needed::Nothing.name(),
        "user": login.user,
        "role": login.role.name(),
        "database": database.unwrap_or_else(|| ":memory:".to_owned()),
        // Tells databases of one name apart, without their paths: browsers keep scripts by it.
        "id": id,
        "version": version,
        "write": login.role.access(None).write && !options.read_only,
        "threads": options.threads,
    })))
}

async fn log_in(State(console): State<Arc<Console>>, headers: HeaderMap, request: Request) -> Answer {
    let credentials: Credentials = body(request, BODY_BYTES_MAX).await?;
    Ok(no_content(console.logins.log_in(&headers, credentials).await?))
}

/// A body without contents.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn log_out(State(console): State<Arc<Console>>, headers: HeaderMap, request: Request) -> Answer {
    let Nothing {} = body(request, BODY_BYTES_MAX).await?;
    console.logins.log_out(&headers);
    Ok(no_content(Some(console.logins.no_cookie())))
}

async fn run_query(State(console): State<Arc<Console>>, LoggedIn(login): LoggedIn, request: Request) -> Answer {
    let query: Query = body(request, QUERY_BYTES_MAX).await?;
    query::answer(&console.shared, &login, query).await
}

/// The tab that a request names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TabName {
    tab: String,
}

async fn cancel(LoggedIn(login): LoggedIn, request: Request) -> Answer {
    let TabName { tab } = body(request, BODY_BYTES_MAX).await?;
    if let Some(tab) = login.tabs.existing(&tab) {
        tab.cancel();
    }
    Ok(no_content(None))
}

async fn close(LoggedIn(login): LoggedIn, request: Request) -> Answer {
    let TabName { tab } = body(request, BODY_BYTES_MAX).await?;
    login.tabs.close(&tab);
    Ok(no_content(None))
}

async fn metrics(State(console): State<Arc<Console>>, Extension(peer): Extension<Peer>, headers: HeaderMap) -> Answer {
    if !peer.is_local && logged_in(&console, &peer, &headers).is_err() {
        let refused =
            Refusal::new(StatusCode::FORBIDDEN, "metrics are for this machine, and for users who have logged in");
        return Err(refused);
    }
    Ok(metrics_text(console.shared.metrics.text()))
}

fn metrics_text(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"));
    response
}

async fn health(State(console): State<Arc<Console>>) -> Answer {
    match console.shared.is_stopping() {
        false => Ok("ready\n".into_response()),
        true => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping")),
    }
}

/// The login of a request; without one it is refused.
struct LoggedIn(Arc<Login>);

impl FromRequestParts<Arc<Console>> for LoggedIn {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, console: &Arc<Console>) -> Result<Self, Refusal> {
        let peer =
            parts.extensions.get::<Peer>().ok_or_else(|| Refusal::bad_request("the request has no connection"))?;
        logged_in(console, peer, &parts.headers).map(LoggedIn)
    }
}

/// The login of a request, whose connection counts as one of a user from now on.
fn logged_in(console: &Console, peer: &Peer, headers: &HeaderMap) -> Result<Arc<Login>, Refusal> {
    let login = console.logins.of(headers)?;
    if peer.place.as_ref().is_some_and(|place| !place.admit(login.role)) {
        return Err(full());
    }
    Ok(login)
}

/// The JSON of a request.
async fn body<T: DeserializeOwned>(request: Request, bytes_max: usize) -> Result<T, Refusal> {
    let too_large = || {
        let message = format!("the body has more than {bytes_max} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message).with_hint("send less at once, or load a file with COPY")
    };
    let length =
        request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > bytes_max as u64) {
        return Err(too_large());
    }
    let mut parts = request.into_body().into_data_stream();
    let reading = async {
        let mut bytes = Vec::new();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|_| Refusal::bad_request("the body ends early"))?;
            if bytes.len() + part.len() > bytes_max {
                return Err(too_large());
            }
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    };
    let late = |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time");
    let bytes = tokio::time::timeout(BODY_TIME, reading).await.map_err(late)??;
    serde_json::from_slice(&bytes)
        .map_err(|error| Refusal::bad_request(format!("the body is not what this address takes: {error}")))
}

fn no_content(cookie: Option<String>) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
        headers.insert(header::SET_COOKIE, cookie);
    }
    response
}
