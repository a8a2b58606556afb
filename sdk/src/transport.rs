//! HTTP: one request, one answer, and what it means that there was none.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use leasehold_api::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::address::{Addresses, Turn, unix_path};
use crate::socket::{Connector, KEEPALIVE, KEEPALIVE_INTERVAL};
use crate::tls::{self, Trust};

/// A page of 1000 locks, each with everything it can show, is far smaller.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How much of an answer that is none of ours is shown.
const FOREIGN_BYTES_SHOWN: usize = 200;

/// Where the server is and how to talk to it.
#[derive(Debug)]
pub(crate) struct Transport {
    http: HyperClient<Connector, Full<Bytes>>,
    addresses: Addresses,
    authorization: Option<HeaderValue>,
    links: Links,
}

/// How connections are made, and how long things may take.
#[derive(Clone, Debug)]
struct Links {
    timeout: Duration,
    connect_timeout: Duration,
    http2: bool,
    tls: Arc<rustls::ClientConfig>,
}

impl Links {
    /// No connection yet: they are made as they are needed.
    fn connect(&self, addresses: &Addresses) -> HyperClient<Connector, Full<Bytes>> {
        let connector = Connector::new(self.connect_timeout, addresses.unix_paths(), &self.tls);
        let mut builder = HyperClient::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).timer(TokioTimer::new()).http2_only(self.http2);
        // HTTP/2 has one connection for all: if its peer is gone without a word, everybody has to hear of it.
        builder.http2_keep_alive_interval(KEEPALIVE).http2_keep_alive_timeout(KEEPALIVE_INTERVAL);
        builder.build(connector)
    }
}

impl Transport {
    pub(crate) fn new(
        urls: &[String],
        api_key: Option<&str>,
        timeout: Duration,
        connect_timeout: Duration,
        http2: bool,
        trust: &Trust,
    ) -> Result<Self, Error> {
        let addresses = Addresses::new(urls)?;
        let authorization = api_key.map(bearer).transpose()?;
        let tls = Arc::new(tls::config(trust, http2, addresses.has_tls())?);
        let links = Links { timeout, connect_timeout, http2, tls };
        Ok(Self { http: links.connect(&addresses), addresses, authorization, links })
    }

    /// The same with connections of its own.
    pub(crate) fn reconnected(&self) -> Self {
        let Self { addresses, authorization, links, .. } = self;
        Self {
            http: links.connect(addresses),
            addresses: addresses.clone(),
            authorization: authorization.clone(),
            links: links.clone(),
        }
    }

    /// Sends `body` and waits for the whole answer, `longer` than usual.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        longer: Duration,
    ) -> Result<(StatusCode, Bytes), Error> {
        let turn = self.addresses.turn();
        let request = self.request(turn.url(), method, path, body)?;
        let answer = async {
            let sent = self.http.request(request).await;
            let response = sent.map_err(|error| of_hyper(turn.given(), &error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| Error::Broken(error.to_string()))?;
            Ok((status, body.to_bytes()))
        };
        let answer = self.in_time(longer, answer).await;
        if answer.as_ref().is_ok_and(|(status, _)| !is_of_a_gateway(*status)) {
            turn.was_answered();
        }
        answer
    }

    /// Asks for events, beginning after the one with this id.
    pub(crate) async fn events(
        &self,
        path: &str,
        last_event_id: Option<&str>,
    ) -> Result<Incoming, Error> {
        let turn = self.addresses.turn();
        let mut request = self.request(turn.url(), Method::GET, path, None::<&()>)?;
        if let Some(id) = last_event_id {
            let invalid = |_| Error::Invalid("the id of the last event is no header".into());
            let id = HeaderValue::from_str(id).map_err(invalid)?;
            request.headers_mut().insert("last-event-id", id);
        }
        self.stream(&turn, request).await
    }

    /// Sends `body` and asks for what happens from then on.
    pub(crate) async fn watch(&self, path: &str, body: &impl Serialize) -> Result<Incoming, Error> {
        let turn = self.addresses.turn();
        let request = self.request(turn.url(), Method::POST, path, Some(body))?;
        self.stream(&turn, request).await
    }

    async fn stream(
        &self,
        turn: &Turn<'_>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Incoming, Error> {
        let events = HeaderValue::from_static("text/event-stream");
        request.headers_mut().insert(ACCEPT, events);
        let answer = async {
            self.http.request(request).await.map_err(|error| of_hyper(turn.given(), &error))
        };
        let response: Response<Incoming> = self.in_time(Duration::ZERO, answer).await?;
        if !is_of_a_gateway(response.status()) {
            turn.was_answered();
        }
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
        let read = async { body.await.map_err(|error| Error::Broken(error.to_string())) };
        let body = self.in_time(Duration::ZERO, read).await?.to_bytes();
        Err(failure(status, &body))
    }

    fn request(
        &self,
        base: &str,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder().method(method).uri(format!("{base}{path}"));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut bytes = Vec::new();
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json");
            bytes = serde_json::to_vec(body).map_err(|error| Error::Invalid(error.to_string()))?;
        }
        request.body(Full::new(bytes.into())).map_err(|error| Error::Invalid(error.to_string()))
    }

    async fn in_time<T>(
        &self,
        longer: Duration,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let patience = self.links.timeout.saturating_add(longer);
        let late = |_| Error::Broken(format!("nothing came within {patience:?}"));
        tokio::time::timeout(patience, answer).await.map_err(late)?
    }
}

/// What a gateway says whose server is not there. Another address may be that of one whose server is.
fn is_of_a_gateway(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

fn of_hyper(base: &str, error: &hyper_util::client::legacy::Error) -> Error {
    let said = || tls::refusal_in(&chain(error));
    let cause = tls::cause(error).cloned().or_else(said);
    if let Some(cause) = cause
        && (error.is_connect() || tls::is_refused(&cause))
    {
        Error::Unreachable(format!("{base}: {}", tls::explain(&cause)))
    } else if is_unsent(error) && base.starts_with("https:") {
        Error::Unreachable(format!("{base}: {}", tls::CLOSED_AT_ONCE))
    } else if error.is_connect() {
        Error::Unreachable(format!("{base}: {}", unconnected(base, error)))
    } else {
        Error::Broken(chain(error))
    }
}

/// Was the connection gone before anything of the request was sent? The library has no other way to say so.
fn is_unsent(error: &hyper_util::client::legacy::Error) -> bool {
    error.to_string().contains("(Canceled)")
}

/// What a 2xx says; anything else is an error.
pub(crate) fn read<T: DeserializeOwned>((status, body): (StatusCode, Bytes)) -> Result<T, Error> {
    if !status.is_success() {
        return Err(failure(status, &body));
    }
    serde_json::from_slice(&body).map_err(|_| foreign(status, &body))
}

/// The same; a 409 may also say `No`.
pub(crate) fn read_or<T: DeserializeOwned, No: DeserializeOwned>(
    answer: (StatusCode, Bytes),
    no: impl FnOnce(No) -> Error,
) -> Result<T, Error> {
    if answer.0 == StatusCode::CONFLICT
        && let Ok(said) = serde_json::from_slice(&answer.1)
    {
        return Err(no(said));
    }
    read(answer)
}

/// What an answer says that is no 2xx.
pub(crate) fn failure(status: StatusCode, body: &[u8]) -> Error {
    match serde_json::from_slice::<Failure>(body) {
        Ok(failure) => Error::Failed { status: status.as_u16(), failure },
        Err(_) => foreign(status, body),
    }
}

fn foreign(status: StatusCode, body: &[u8]) -> Error {
    let shown = &body[..body.len().min(FOREIGN_BYTES_SHOWN)];
    // In one line: pages have many.
    let words: Vec<_> =
        String::from_utf8_lossy(shown).split_whitespace().map(str::to_owned).collect();
    Error::Foreign { status: status.as_u16(), body: words.join(" ") }
}

/// The reason and the reasons behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        said = format!("{said}: {error}");
        source = error.source();
    }
    said
}

/// Why there is no connection, and what to look at. The reason behind all others names no addresses or system calls.
fn unconnected(base: &str, error: &(dyn std::error::Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let system = root.downcast_ref::<std::io::Error>();
    match (system.map(std::io::Error::kind), unix_path(base).is_some()) {
        (Some(ErrorKind::NotFound), true) => {
            "there is no such socket file. Is the server running?".into()
        }
        (Some(ErrorKind::PermissionDenied), true) => {
            "no permission to use this socket file (its server sets that by --unix-socket-mode)"
                .into()
        }
        (Some(ErrorKind::ConnectionRefused), _) => {
            "connection refused. Is the server running?".into()
        }
        (Some(ErrorKind::TimedOut), _) => "no answer in time. Is this the right address?".into(),
        (Some(kind), _) if system.is_some_and(|error| error.raw_os_error().is_some()) => {
            kind.to_string()
        }
        _ => root.to_string(),
    }
}

/// That an API key is not sent in the clear to another machine.
pub(crate) fn check_private(url: &str) -> Result<(), Error> {
    if unix_path(url).is_some() {
        return Ok(());
    }
    let uri: hyper::Uri = url.parse().map_err(|_| Error::Invalid(format!("{url:?} is no URL")))?;
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_near = host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_near || uri.scheme_str() != Some("http") {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{url}: the API key would be sent unencrypted to another machine; use https://, or say that this is \
         meant (--insecure)"
    )))
}

fn bearer(api_key: &str) -> Result<HeaderValue, Error> {
    let invalid = |_| Error::Invalid("the API key cannot be sent in a header".into());
    let mut value = HeaderValue::from_str(&format!("Bearer {api_key}")).map_err(invalid)?;
    value.set_sensitive(true);
    Ok(value)
}
