//! The messages of OTLP 1, as far as they are sent: `opentelemetry/proto/collector/trace/v1/trace_service.proto` and what it uses.

use std::time::Duration;

use prost::Message;

use super::Statement;

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Request {
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// Empty for the first span of a trace.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "3")]
    pub code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Int(i64),
}

/// `SPAN_KIND_INTERNAL` and `SPAN_KIND_SERVER`.
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
/// `STATUS_CODE_ERROR`.
const ERROR: i32 = 2;

impl KeyValue {
    fn text(key: &str, value: impl Into<String>) -> KeyValue {
        KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(Value::Text(value.into())) }) }
    }
}

impl Request {
    /// The spans of statements.
    pub fn of(resource: &[(String, String)], statements: &[Statement]) -> Request {
        let attributes = resource.iter().map(|(key, value)| KeyValue::text(key, value)).collect();
        let scope = Scope { name: "freestone".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let spans = statements.iter().flat_map(spans_of).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        Request { resource_spans: vec![ResourceSpans { resource: Some(Resource { attributes }), scope_spans }] }
    }
}

/// The spans of a statement: the statement itself, that of its planning if it returned rows, and that of its execution.
fn spans_of(statement: &Statement) -> Vec<Span> {
    let trace_id = freestone_wire::auth::random::<16>().to_vec();
    let span_id = freestone_wire::auth::random::<8>().to_vec();
    let span = |name: &str, kind: i32, from: Duration, to: Duration| Span {
        trace_id: trace_id.clone(),
        span_id: freestone_wire::auth::random::<8>().to_vec(),
        parent_span_id: span_id.clone(),
        name: name.to_owned(),
        kind,
        start_time_unix_nano: (statement.began + from).as_nanos() as u64,
        end_time_unix_nano: (statement.began + to).as_nanos() as u64,
        attributes: vec![],
        status: statement.failure.map(|_| Status { code: ERROR }),
    };
    let whole = Span {
        span_id: span_id.clone(),
        parent_span_id: vec![],
        attributes: attributes_of(statement),
        ..span(&statement.operation, SERVER, Duration::ZERO, statement.took)
    };
    let planned = statement.planned.unwrap_or_default().min(statement.took);
    // What has failed after it was planned was planned well.
    let planning =
        (!planned.is_zero()).then(|| Span { status: None, ..span("plan", INTERNAL, Duration::ZERO, planned) });
    let running = span("run", INTERNAL, planned, statement.took);
    [Some(whole), planning, Some(running)].into_iter().flatten().collect()
}

/// Attributes by OpenTelemetry's names for databases.
fn attributes_of(statement: &Statement) -> Vec<KeyValue> {
    let rows = AnyValue { value: Some(Value::Int(statement.rows as i64)) };
    let mut attributes = vec![
        KeyValue::text("db.system.name", "freestone"),
        KeyValue::text("db.operation.name", &statement.operation),
        KeyValue { key: "db.response.returned_rows".to_owned(), value: Some(rows) },
    ];
    if let Some(sqlstate) = statement.failure {
        attributes.push(KeyValue::text("db.response.status_code", sqlstate));
        attributes.push(KeyValue::text("error.type", sqlstate));
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_a_trace_of_its_spans() {
        let (began, took) = (Duration::from_secs(1_700_000_000), Duration::from_millis(5));
        let planned = Some(Duration::from_millis(2));
        let query = Statement { operation: "SELECT".into(), began, planned, took, rows: 7, failure: None };
        let write = Statement { operation: "INSERT".into(), planned: None, failure: Some("23505"), ..query.clone() };
        let request = Request::of(&[("service.name".into(), "test".into())], &[query, write]);
        let request = Request::decode(request.encode_to_vec().as_slice()).expect("a message");
        let spans = &request.resource_spans[0].scope_spans[0].spans;
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["SELECT", "plan", "run", "INSERT", "run"]);
        assert_eq!(spans[0].end_time_unix_nano - spans[0].start_time_unix_nano, 5_000_000);
        assert_eq!(
            (spans[1].start_time_unix_nano, spans[2].end_time_unix_nano),
            (spans[0].start_time_unix_nano, spans[0].end_time_unix_nano)
        );
        assert_eq!(spans[1].end_time_unix_nano, spans[2].start_time_unix_nano);
        for child in &spans[1..3] {
            assert_eq!((&child.trace_id, &child.parent_span_id), (&spans[0].trace_id, &spans[0].span_id));
        }
        assert_ne!(spans[3].trace_id, spans[0].trace_id);
        assert_eq!((spans[0].kind, spans[0].trace_id.len(), spans[0].span_id.len()), (SERVER, 16, 8));
        assert!(spans[0].parent_span_id.is_empty() && spans[0].status.is_none());
        assert_eq!(spans[3].status, Some(Status { code: ERROR }));
        assert_eq!(spans[3].attributes.last(), Some(&KeyValue::text("error.type", "23505")));
    }

    /// A span with a name and a start, as the specification of OTLP writes it.
    #[test]
    fn the_bytes_are_those_of_otlp() {
        let span = Span { name: "run".into(), kind: SERVER, start_time_unix_nano: 1, ..Span::default() };
        assert_eq!(span.encode_to_vec(), [0x2a, 3, b'r', b'u', b'n', 0x30, 2, 0x39, 1, 0, 0, 0, 0, 0, 0, 0]);
        let failed = Span { status: Some(Status { code: ERROR }), ..Span::default() };
        assert_eq!(failed.encode_to_vec(), [0x7a, 2, 0x18, 2]);
        let number = KeyValue { key: "k".into(), value: Some(AnyValue { value: Some(Value::Int(5)) }) };
        assert_eq!(number.encode_to_vec(), [0x0a, 1, b'k', 0x12, 2, 0x18, 5]);
    }
}
