//! Requests that are refused, as JSON: what was wrong, and what to do next.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An answer of 4xx or 5xx.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
    hint: Option<String>,
    sqlstate: Option<&'static str>,
}

impl Refusal {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal { status, message: message.into(), hint: None, sqlstate: None }
    }

    pub fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn with_hint(self, hint: impl Into<String>) -> Refusal {
        Refusal { hint: Some(hint.into()), ..self }
    }

    pub fn with_sqlstate(self, sqlstate: &'static str) -> Refusal {
        Refusal { sqlstate: Some(sqlstate), ..self }
    }

    #[cfg(test)]
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal { status, message, hint, sqlstate } = self;
        let mut error = json!({ "message": message });
        if let Some(hint) = hint {
            error["hint"] = hint.into();
        }
        if let Some(sqlstate) = sqlstate {
            error["sqlstate"] = sqlstate.into();
        }
        let mut response = json_response(&json!({ "error": error }));
        *response.status_mut() = status;
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// An answer of JSON, which no cache keeps.
pub(crate) fn json_response(value: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
