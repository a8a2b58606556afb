//! The connection to the leader, one for each serving thread.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use leasehold_base::sync::lock;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::{GRANT, ID, KEY, Peers, SEQ};
use crate::http::PING_EVERY;
use leasehold_store::{Obstacle, Peering};

const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Pause after a failed connection attempt to the same server.
const FAILED_PAUSE: Duration = Duration::from_millis(50);
/// Flow control window of one response: a client that reads slowly does not hold up others.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Flow control window of the connection: the maximum of HTTP/2.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// Interval for logging a persistent problem.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// Timeout for sending a message to the leader.
const TELL_MAX: Duration = Duration::from_secs(5);
/// How long a message is retried, on new connections if necessary: the network might have to recover first.
const TELL_AGAIN_MAX: Duration = Duration::from_secs(60);
/// Pause between two tries.
const TELL_PAUSE: Duration = Duration::from_secs(1);

/// The connection to the leader, opened when needed. Cheap to clone.
#[derive(Clone)]
pub(super) struct Uplink(Arc<UplinkParts>);

struct UplinkParts {
    peers: Arc<Peers>,
    state: Mutex<LinkState>,
    next_id: AtomicU64,
    said_stranger: std::sync::Mutex<Option<std::time::Instant>>,
    /// Serializes retries of messages, by server address.
    turns: std::sync::Mutex<HashMap<Box<str>, Arc<Mutex<()>>>>,
}

#[derive(Default)]
struct LinkState {
    connected: Option<(Peering, SendRequest<Body>)>,
    /// The server of the last failed connection attempt, its time, and the error.
    failed: Option<(Peering, Instant, io::ErrorKind)>,
}

type Sending =
    Pin<Box<dyn Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>> + Send>>;

/// The outcome of sending a request.
pub(super) enum Sent {
    /// The response, and the id of the request at the leader.
    Answered(Response<Incoming>, u64),
    /// No part of the request was sent.
    Unsent,
    /// The request was sent; it is not known whether the leader processed it.
    Lost(Loss),
    /// Another server became the leader before the response arrived.
    Overtaken,
}

/// A request whose response was lost. When dropped, makes the leader abandon the request, because it might have granted
/// a lease.
pub(super) struct Loss {
    uplink: Uplink,
    there: Peering,
    id: u64,
}

impl Drop for Loss {
    fn drop(&mut self) {
        self.uplink.give_up(self.there.clone(), self.id);
    }
}

impl Uplink {
    pub(super) fn new(peers: Arc<Peers>) -> Self {
        let next_id = AtomicU64::new(u64::from_le_bytes(leasehold_base::random::bytes()));
        Self(Arc::new(UplinkParts {
            peers,
            state: Mutex::default(),
            next_id,
            said_stranger: Default::default(),
            turns: Default::default(),
        }))
    }

    /// Sends a request to that server. Dropping the returned future makes the server abandon the request immediately.
    pub(super) async fn send(&self, there: &Peering, mut request: Request<Body>) -> Sent {
        let Ok(mut sender) = self.connect(there).await else { return Sent::Unsent };
        let id = self.0.next_id.fetch_add(1, Relaxed);
        request.headers_mut().insert(ID, id.into());
        self.show_key(there, &mut request);
        let sending: Sending = Box::pin(sender.try_send_request(request));
        let mut asked =
            SentRequest { sending: Some(sending), uplink: self.clone(), there: there.clone(), id };
        let Some(sending) = &mut asked.sending else { return Sent::Unsent };
        let answer = sending.await;
        asked.sending = None;
        match answer {
            Ok(response) => Sent::Answered(response, id),
            Err(mut error) => {
                if error.take_message().is_some() {
                    return Sent::Unsent;
                }
                tracing::debug!(error = %error.into_error(), "a response of the leader was lost");
                Sent::Lost(Loss { uplink: self.clone(), there: there.clone(), id })
            }
        }
    }

    /// Opens a connection to that server unless there is one already, and returns the error if that fails.
    pub(super) async fn reach(&self, there: &Peering) -> io::Result<()> {
        self.connect(there).await.map(drop)
    }

    /// Checks that the server leads and accepts this one as a peer.
    pub(super) async fn sound(&self, there: &Peering) -> Result<(), Obstacle> {
        let asked = timeout(CONNECT_MAX, self.ask(there, Method::GET, "/leads")).await;
        match asked.ok().flatten() {
            Some(answer) if answer.status() == StatusCode::FORBIDDEN => {
                self.is_stranger(there);
                Err(Obstacle::WrongSecret)
            }
            Some(answer) if answer.status() == StatusCode::NO_CONTENT => Ok(()),
            Some(_) => Err(Obstacle::AnotherServer),
            None => {
                // The next try must not wait for responses lost on this connection.
                self.0.state.lock().await.connected = None;
                Err(Obstacle::Unreachable)
            }
        }
    }

    /// Returns the sequence number of that server's last record, if it leads.
    pub(super) async fn last_of(&self, there: &Peering) -> Option<u64> {
        let asked = timeout(CONNECT_MAX, self.ask(there, Method::GET, "/leads")).await.ok()??;
        if asked.status() == StatusCode::FORBIDDEN {
            self.is_stranger(there);
        }
        let seq = asked.headers().get(SEQ).filter(|_| asked.status() == StatusCode::NO_CONTENT);
        seq?.to_str().ok()?.parse().ok()
    }

    /// Logs that the leader rejects this server's key. Every request would log it again, so this is limited to one line
    /// per minute.
    pub(super) fn is_stranger(&self, there: &Peering) {
        let now = std::time::Instant::now();
        let mut said = lock(&self.0.said_stranger);
        if said.is_none_or(|at| now.duration_since(at) >= SAID_EVERY) {
            *said = Some(now);
            tracing::warn!(
                there = %there.address,
                "the leader has another peer secret (peer-secret-file); cannot forward requests"
            );
        }
    }

    /// Makes that server abandon a request and release its grant.
    pub(super) fn give_up(&self, there: Peering, id: u64) {
        let uplink = self.clone();
        spawn(async move { uplink.tell(&there, &gone(id)).await });
    }

    /// Sends a message until it arrives. Only one task at a time retries: when a leader fails, there are thousands.
    async fn tell(&self, there: &Peering, path: &str) {
        if self.is_told(there, path).await {
            return;
        }
        let until = Instant::now() + TELL_AGAIN_MAX;
        let turns = lock(&self.0.turns).entry(there.address.clone()).or_default().clone();
        loop {
            let _turn = turns.lock().await;
            if Instant::now() >= until {
                tracing::debug!("cannot report to the leader that a client disconnected");
                return;
            }
            if self.is_told(there, path).await {
                return;
            }
            sleep(TELL_PAUSE).await;
        }
    }

    async fn is_told(&self, there: &Peering, path: &str) -> bool {
        let told = timeout(TELL_MAX, self.ask(there, Method::POST, path)).await;
        matches!(told, Ok(Some(_)))
    }

    async fn ask(&self, there: &Peering, method: Method, path: &str) -> Option<Response<Incoming>> {
        let mut sender = self.connect(there).await.ok()?;
        let uri = format!("http://{}{path}", there.address);
        let mut request = Request::builder().method(method).uri(uri).body(Body::empty()).ok()?;
        self.show_key(there, &mut request);
        sender.send_request(request).await.ok()
    }

    fn show_key(&self, there: &Peering, request: &mut Request<Body>) {
        if let Ok(mut key) = HeaderValue::from_str(self.0.peers.key_of(there)) {
            key.set_sensitive(true);
            request.headers_mut().insert(KEY, key);
        }
    }

    async fn connect(&self, there: &Peering) -> io::Result<SendRequest<Body>> {
        let mut state = self.0.state.lock().await;
        if let Some((to, sender)) = &state.connected
            && to == there
            && !sender.is_closed()
        {
            return Ok(sender.clone());
        }
        // Otherwise every task that waits for the mutex would try in turn.
        if let Some((to, at, how)) = &state.failed
            && to == there
            && at.elapsed() < FAILED_PAUSE
        {
            return Err((*how).into());
        }
        let begun = timeout(CONNECT_MAX, begin(&there.address)).await;
        let begun = begun.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match &begun {
            Ok(sender) => state.connected = Some((there.clone(), sender.clone())),
            Err(error) => state.failed = Some((there.clone(), Instant::now(), error.kind())),
        }
        begun
    }
}

async fn begin(address: &str) -> io::Result<SendRequest<Body>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let (sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the leader ended");
        }
    });
    Ok(sender)
}

/// Returns the path of the message that a request is abandoned.
fn gone(id: u64) -> String {
    format!("/gone/{id}")
}

/// Returns whether the response grants a lease, by its header for the forwarding server.
pub(super) fn grants<B>(response: &Response<B>) -> bool {
    response.headers().contains_key(GRANT)
}

/// A request that was sent. If it is dropped before the response, its client is gone: the leader is told to abandon it,
/// and a grant that arrives anyway is released. Resetting the stream is not enough, because the response might already
/// be on its way.
struct SentRequest {
    sending: Option<Sending>,
    uplink: Uplink,
    there: Peering,
    id: u64,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        let Some(sending) = self.sending.take() else { return };
        let (uplink, there, id) = (self.uplink.clone(), self.there.clone(), self.id);
        spawn(async move {
            let gone = gone(id);
            let telling = uplink.tell(&there, &gone);
            let (answer, ()) = tokio::join!(sending, telling);
            if answer.is_ok_and(|answer| grants(&answer)) {
                // The grant might have happened after the leader received the message.
                uplink.give_up(there, id);
            }
        });
    }
}

/// Spawns a task on the thread's runtime, unless that is shutting down and closing its connections.
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(task);
    }
}
