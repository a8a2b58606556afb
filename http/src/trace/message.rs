//! The part of OTLP that a span needs, as protobuf. Numbers and names are those of opentelemetry-proto 1.

use std::time::Duration;

use prost::{Message, Oneof};

use super::Done;

/// The kind of a span for a request whose client waits for the response.
const KIND_SERVER: i32 = 2;
/// The status of a request that failed through an error of the server.
const STATUS_ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Export {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct InstrumentationScope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<Attribute>,
    #[prost(message, optional, tag = "15")]
    status: Option<SpanStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct SpanStatus {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

impl Span {
    /// Returns the span of one request, named by the OpenTelemetry conventions for HTTP servers.
    pub(super) fn server(
        (trace_id, span_id, parent_id): (u128, u64, Option<u64>),
        began: Duration,
        done: &Done<'_>,
    ) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let is_error = done.status >= 500;
        Self {
            trace_id: trace_id.to_be_bytes().into(),
            span_id: span_id.to_be_bytes().into(),
            parent_span_id: parent_id.map(|id| id.to_be_bytes().into()).unwrap_or_default(),
            name: format!("{} {}", done.method, done.route).trim_end().into(),
            kind: KIND_SERVER,
            start_time_unix_nano: nanos(began),
            end_time_unix_nano: nanos(began + done.took),
            attributes: vec![
                text("http.request.method", done.method),
                text("http.route", done.route),
                number("http.response.status_code", done.status.into()),
                text("client.address", &done.peer),
                text("enduser.id", done.principal),
                text("leasehold.request_id", &done.request_id),
            ],
            status: is_error.then_some(SpanStatus { code: STATUS_ERROR }),
        }
    }
}

impl Export {
    /// Returns the export request with these spans and the attributes of this server.
    pub(super) fn of(spans: Vec<Span>) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let attributes = vec![
            text("service.name", "leasehold"),
            text("service.version", version),
            text("host.name", &host),
        ];
        let scope =
            Some(InstrumentationScope { name: "leasehold".into(), version: version.into() });
        let scope_spans = vec![ScopeSpans { scope, spans }];
        let resource = Some(Resource { attributes });
        Self { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
    }
}

fn text(key: &str, value: &str) -> Attribute {
    let value = Some(AnyValue { value: Some(Value::Text(value.into())) });
    Attribute { key: key.into(), value }
}

fn number(key: &str, value: i64) -> Attribute {
    let value = Some(AnyValue { value: Some(Value::Number(value)) });
    Attribute { key: key.into(), value }
}
