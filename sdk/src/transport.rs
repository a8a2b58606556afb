//! HTTP: sends one request, receives one response, and classifies failures.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use leasehold_api::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;
use crate::address::{Addresses, Trip, Ways, unix_path};
use crate::failover::Failover;
use crate::socket::{Connector, KEEPALIVE, KEEPALIVE_INTERVAL};
use crate::tls::{self, Trust};

/// Maximum size of a response. A page of 1000 locks with all their fields is far smaller.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How much of a response from another kind of server is shown.
const FOREIGN_BYTES_SHOWN: usize = 200;
/// Request header: a follower rejects the request, instead of forwarding it.
const DIRECT: &str = "leasehold-direct";
/// Response header in which such a follower names the leader.
const LEADER: &str = "leasehold-leader";
/// The error code of such a response.
const NOT_LEADER: &str = "NOT_LEADER";

/// The addresses of the servers, and the connections to them.
#[derive(Debug)]
pub(crate) struct Transport {
    http: HyperClient<Connector, Full<Bytes>>,
    addresses: Addresses,
    authorization: Option<HeaderValue>,
    links: Links,
    failover: Arc<Failover>,
}

/// How connections are made, and their time limits.
#[derive(Clone, Debug)]
struct Links {
    timeout: Duration,
    connect_timeout: Duration,
    http2: bool,
    tls: Arc<rustls::ClientConfig>,
}

impl Links {
    /// Creates a pool without connections. They are made as needed.
    fn connect(&self, addresses: &Addresses) -> HyperClient<Connector, Full<Bytes>> {
        let connector = Connector::new(self.connect_timeout, addresses.unix_paths(), &self.tls);
        let mut builder = HyperClient::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).timer(TokioTimer::new()).http2_only(self.http2);
        // With HTTP/2, all requests share one connection. If its peer silently vanishes, all of them must fail.
        builder.http2_keep_alive_interval(KEEPALIVE).http2_keep_alive_timeout(KEEPALIVE_INTERVAL);
        builder.build(connector)
    }
}

impl Transport {
    pub(crate) fn new(
        urls: &[String],
        ways: Ways,
        api_key: Option<&str>,
        timeout: Duration,
        connect_timeout: Duration,
        http2: bool,
        trust: &Trust,
    ) -> Result<Self, Error> {
        let addresses = Addresses::new(urls, ways)?;
        let authorization = api_key.map(bearer).transpose()?;
        let tls = Arc::new(tls::config(trust, http2, addresses.has_tls())?);
        let links = Links { timeout, connect_timeout, http2, tls };
        let failover = Arc::default();
        Ok(Self { http: links.connect(&addresses), addresses, authorization, links, failover })
    }

    /// Returns the duration of a leader change that the servers reported.
    pub(crate) fn failover(&self) -> &Failover {
        &self.failover
    }

    /// Checks that no API key is sent unencrypted to another machine.
    pub(crate) fn check_private(&self) -> Result<(), Error> {
        self.addresses.given().try_for_each(check_private)
    }

    /// Returns the number of configured URLs.
    pub(crate) fn n_urls(&self) -> usize {
        self.addresses.given().count()
    }

    /// Returns the response timeout.
    pub(crate) fn timeout(&self) -> Duration {
        self.links.timeout
    }

    /// Returns the same transport with new connections.
    pub(crate) fn reconnected(&self) -> Self {
        let Self { addresses, authorization, links, failover, .. } = self;
        Self {
            http: links.connect(addresses),
            addresses: addresses.clone(),
            authorization: authorization.clone(),
            links: links.clone(),
            failover: failover.clone(),
        }
    }

    /// Sends `body` and waits for the complete response, for the usual timeout plus `longer`.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        longer: Duration,
    ) -> Result<(StatusCode, Bytes), Error> {
        let question = Question::new(method, path, body)?;
        let mut trip = self.addresses.trip();
        trip.is_wait = !longer.is_zero();
        let (answer, _) = self
            .somewhere(&mut trip, &question, longer, async |response| {
                let (head, body) = response.into_parts();
                Ok((head.status, leader_of(&head.headers), whole(body).await?, None::<()>))
            })
            .await?;
        Ok(answer)
    }

    /// Checks whether the current server responds at all. If it does not, later requests go to the next one.
    pub(crate) async fn sound(&self) {
        if self.n_urls() > 1 {
            // Any response will do.
            let _ = self.call(Method::GET, "/livez", None::<&()>, Duration::ZERO).await;
        }
    }

    /// Opens a stream of events, starting after the event with this id.
    pub(crate) async fn events(
        &self,
        path: &str,
        last_event_id: Option<&str>,
    ) -> Result<Incoming, Error> {
        let mut question = Question::new(Method::GET, path, None::<&()>)?;
        if let Some(id) = last_event_id {
            let invalid =
                |_| Error::Invalid("the id of the last event is not a valid header value".into());
            question.last_event_id = Some(HeaderValue::from_str(id).map_err(invalid)?);
        }
        self.stream(question).await
    }

    /// Sends `body` and opens a stream of later events.
    pub(crate) async fn watch(&self, path: &str, body: &impl Serialize) -> Result<Incoming, Error> {
        self.stream(Question::new(Method::POST, path, Some(body))?).await
    }

    async fn stream(&self, mut question: Question<'_>) -> Result<Incoming, Error> {
        question.is_stream = true;
        let mut trip = self.addresses.trip();
        let asked = self.somewhere(&mut trip, &question, Duration::ZERO, async |response| {
            let (head, body) = response.into_parts();
            if head.status.is_success() {
                return Ok((head.status, None, Bytes::new(), Some(body)));
            }
            Ok((head.status, leader_of(&head.headers), whole(body).await?, None))
        });
        match asked.await? {
            (_, Some(stream)) => Ok(stream),
            ((status, body), None) => Err(failure(status, &body)),
        }
    }

    /// Tries one address after the other, as long as it is certain that no server processed the request: the
    /// connection failed, or the server reported that it is not the leader. Any other result is final, but the next
    /// request might then start at another address.
    async fn somewhere<T>(
        &self,
        trip: &mut Trip<'_>,
        question: &Question<'_>,
        longer: Duration,
        read: impl AsyncFn(
            Response<Incoming>,
        ) -> Result<(StatusCode, Option<String>, Bytes, Option<T>), Error>,
    ) -> Result<((StatusCode, Bytes), Option<T>), Error> {
        let mut unreachable = Vec::new();
        // If one of the servers might become reachable, a retry makes sense, whatever the others are.
        let mut is_hopeless = true;
        loop {
            let request = self.request(trip, question)?;
            let answer = async {
                let sent = self.http.request(request).await;
                let response = sent.map_err(|error| of_hyper(trip.given(), &error))?;
                self.failover.learn(response.headers());
                read(response).await
            };
            let (status, leader, body, stream) = match self.in_time(longer, answer).await {
                Err(error @ (Error::Unreachable(_) | Error::Untrusted(_))) => {
                    is_hopeless &= matches!(error, Error::Untrusted(_));
                    if let Error::Unreachable(why) | Error::Untrusted(why) = error {
                        unreachable.push(why);
                    }
                    if trip.was_unreachable() {
                        continue;
                    }
                    let all = unreachable.join("; ");
                    let why = if is_hopeless { Error::Untrusted } else { Error::Unreachable };
                    return Err(why(all));
                }
                Err(error) => {
                    trip.was_silent();
                    return Err(error);
                }
                Ok(answer) => answer,
            };
            if is_not_leader(status, &body) && trip.does_not_lead(leader.as_deref()) {
                continue;
            }
            if is_of_a_gateway(status) {
                // A gateway's response is not the server's, so a retry goes to another address, even for a wait.
                trip.was_silent();
            } else if !is_not_leader(status, &body) {
                trip.was_answered();
            }
            return Ok(((status, body), stream));
        }
    }

    fn request(
        &self,
        trip: &Trip<'_>,
        question: &Question<'_>,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let Question { method, path, body, is_stream, last_event_id } = question;
        let uri = format!("{}{path}", trip.url());
        let mut request = Request::builder().method(method.clone()).uri(uri);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if *is_stream {
            request = request.header(ACCEPT, "text/event-stream");
        } else if trip.is_direct() {
            // Every server streams events, so this needs no leader.
            request = request.header(DIRECT, "1");
        }
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let body = Full::new(body.clone().unwrap_or_default());
        request.body(body).map_err(|error| Error::Invalid(error.to_string()))
    }

    async fn in_time<T>(
        &self,
        longer: Duration,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let patience = self.links.timeout.saturating_add(longer);
        let late = |_| Error::Broken(format!("no response within {patience:?}"));
        tokio::time::timeout(patience, answer).await.map_err(late)?
    }
}

/// A request, independent of the address it is sent to.
struct Question<'a> {
    method: Method,
    path: &'a str,
    body: Option<Bytes>,
    is_stream: bool,
    last_event_id: Option<HeaderValue>,
}

impl<'a> Question<'a> {
    fn new(method: Method, path: &'a str, body: Option<&impl Serialize>) -> Result<Self, Error> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| Error::Invalid(error.to_string()))?.map(Bytes::from);
        Ok(Self { method, path, body, is_stream: false, last_event_id: None })
    }
}

async fn whole(body: Incoming) -> Result<Bytes, Error> {
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    Ok(body.map_err(|error| Error::Broken(error.to_string()))?.to_bytes())
}

fn leader_of(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(LEADER)?.to_str().ok()?.into())
}

/// Returns whether the server is not the leader, so that it did nothing. A rejected `Host` header has the status 421
/// too, but not this code.
fn is_not_leader(status: StatusCode, body: &[u8]) -> bool {
    status == StatusCode::MISDIRECTED_REQUEST
        && serde_json::from_slice::<Value>(body).is_ok_and(|said| said["code"] == NOT_LEADER)
}

/// Returns whether a gateway sends this status if its server is down. Another address might lead to a live server.
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
        let is_untrusted = matches!(cause, rustls::Error::InvalidCertificate(_));
        let why = if is_untrusted { Error::Untrusted } else { Error::Unreachable };
        why(format!("{base}: {}", tls::explain(&cause)))
    } else if is_unsent(error) && base.starts_with("https:") {
        Error::Unreachable(format!("{base}: {}", tls::CLOSED_AT_ONCE))
    } else if error.is_connect() {
        Error::Unreachable(format!("{base}: {}", unconnected(base, error)))
    } else if is_no_http(error) && base.starts_with("http:") {
        Error::Broken(format!(
            "{base}: the response is not HTTP; if the server uses TLS on this port, use https:// in the URL"
        ))
    } else {
        Error::Broken(chain(error))
    }
}

/// Returns whether the response was not HTTP.
fn is_no_http(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_so = error.downcast_ref().is_some_and(hyper::Error::is_parse);
    is_so || error.source().is_some_and(is_no_http)
}

/// Returns whether the connection closed before any of the request was sent. The HTTP library reports this only in
/// the text of its error.
fn is_unsent(error: &hyper_util::client::legacy::Error) -> bool {
    error.to_string().contains("(Canceled)")
}

/// Parses the body of a 2xx response. Any other status is an error.
pub(crate) fn read<T: DeserializeOwned>((status, body): (StatusCode, Bytes)) -> Result<T, Error> {
    if !status.is_success() {
        return Err(failure(status, &body));
    }
    serde_json::from_slice(&body).map_err(|_| foreign(status, &body))
}

/// Like [`read`], but a 409 can also carry a `No`.
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

/// Returns the error in a response without a 2xx status.
pub(crate) fn failure(status: StatusCode, body: &[u8]) -> Error {
    match serde_json::from_slice::<Failure>(body) {
        Ok(mut failure) => {
            // The leader is another server, or the next one.
            failure.retryable |= is_not_leader(status, body);
            Error::Failed { status: status.as_u16(), failure }
        }
        Err(_) => foreign(status, body),
    }
}

fn foreign(status: StatusCode, body: &[u8]) -> Error {
    let shown = &body[..body.len().min(FOREIGN_BYTES_SHOWN)];
    // On one line, because pages of other servers have many.
    let words: Vec<_> =
        String::from_utf8_lossy(shown).split_whitespace().map(str::to_owned).collect();
    Error::Foreign { status: status.as_u16(), body: words.join(" ") }
}

/// Returns the text of an error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        said = format!("{said}: {error}");
        source = error.source();
    }
    said
}

/// Explains why a connection failed and what to check. Uses the innermost cause, which contains no addresses or
/// system calls.
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
            "no permission to use this socket file (--unix-socket-mode of its server)".into()
        }
        (Some(ErrorKind::ConnectionRefused), _) => {
            "connection refused. Is the server running?".into()
        }
        (Some(ErrorKind::TimedOut), _) => "no response in time. Is this the right address?".into(),
        (Some(kind), _) if system.is_some_and(|error| error.raw_os_error().is_some()) => {
            kind.to_string()
        }
        _ => root.to_string(),
    }
}

/// Checks that no API key is sent unencrypted to another machine.
fn check_private(url: &str) -> Result<(), Error> {
    let Ok(uri) = url.parse::<hyper::Uri>() else { return Ok(()) };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_near = host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_near || uri.scheme_str() != Some("http") {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{url}: the API key would be sent unencrypted to another machine; use https://, or allow it (--insecure)"
    )))
}

fn bearer(api_key: &str) -> Result<HeaderValue, Error> {
    let invalid = |_| Error::Invalid("the API key cannot be sent in a header".into());
    let mut value = HeaderValue::from_str(&format!("Bearer {api_key}")).map_err(invalid)?;
    value.set_sensitive(true);
    Ok(value)
}
