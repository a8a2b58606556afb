//! The connection to the one that leads, one for each thread that serves clients.

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
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::{GRANT, ID, KEY, Peers, SEQ};
use crate::store::{Obstacle, Peering};
use crate::sync::lock;

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Where nobody answered is not tried again before this.
const FAILED_PAUSE: Duration = Duration::from_millis(50);
/// The other end is asked so often whether it is still there, and has as long to say so.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(5);
/// Bytes of one answer that are on their way at once: whoever reads slowly holds up nobody else.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Of all of them: as many as HTTP/2 allows.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// What is wrong all the time is said so often.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// How long telling something may take.
const TELL_MAX: Duration = Duration::from_secs(5);
/// For so long it is tried again, with connections that may be new: the link may have to come back first.
const TELL_AGAIN_MAX: Duration = Duration::from_secs(60);
/// What is between two tries.
const TELL_PAUSE: Duration = Duration::from_secs(1);

/// The connection, or none yet. Cheap to clone.
#[derive(Clone)]
pub(super) struct Uplink(Arc<Inner>);

struct Inner {
    peers: Arc<Peers>,
    state: Mutex<State>,
    next_id: AtomicU64,
    said_stranger: std::sync::Mutex<Option<std::time::Instant>>,
    /// Of those who try again to tell something, by where.
    turns: std::sync::Mutex<HashMap<Box<str>, Arc<Mutex<()>>>>,
}

#[derive(Default)]
struct State {
    connected: Option<(Peering, SendRequest<Body>)>,
    /// Where nobody answered, when, and how that was noticed.
    failed: Option<(Peering, Instant, io::ErrorKind)>,
}

type Sending =
    Pin<Box<dyn Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>> + Send>>;

/// What became of a request.
pub(super) enum Sent {
    /// It was answered. What the request is called there.
    Answered(Response<Incoming>, u64),
    /// Not a byte of it was sent.
    Unsent,
    /// It was sent, and nobody knows whether it was looked at.
    Lost(Loss),
    /// Another server leads now, and the request was not answered before.
    Overtaken,
}

/// A request whose answer was lost. When this is dropped, the server that was asked gives the request up, because it
/// might have granted something.
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
        let next_id = AtomicU64::new(u64::from_le_bytes(crate::random::bytes()));
        Self(Arc::new(Inner {
            peers,
            state: Mutex::default(),
            next_id,
            said_stranger: Default::default(),
            turns: Default::default(),
        }))
    }

    /// Sends a request there. Dropping the answer to come has it given up there at once.
    pub(super) async fn send(&self, there: &Peering, mut request: Request<Body>) -> Sent {
        let Ok(mut sender) = self.connect(there).await else { return Sent::Unsent };
        let id = self.0.next_id.fetch_add(1, Relaxed);
        request.headers_mut().insert(ID, id.into());
        self.show_key(there, &mut request);
        let sending: Sending = Box::pin(sender.try_send_request(request));
        let mut asked =
            Asked { sending: Some(sending), uplink: self.clone(), there: there.clone(), id };
        let Some(sending) = &mut asked.sending else { return Sent::Unsent };
        let answer = sending.await;
        asked.sending = None;
        match answer {
            Ok(response) => Sent::Answered(response, id),
            Err(mut error) => {
                if error.take_message().is_some() {
                    return Sent::Unsent;
                }
                tracing::debug!(error = %error.into_error(), "an answer of the leader was lost");
                Sent::Lost(Loss { uplink: self.clone(), there: there.clone(), id })
            }
        }
    }

    /// Can a connection be had there? If not: why.
    pub(super) async fn reach(&self, there: &Peering) -> io::Result<()> {
        self.connect(there).await.map(drop)
    }

    /// Does the server there lead, and accept this one as a peer?
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

    /// The last record of the one there, if it leads.
    pub(super) async fn last_of(&self, there: &Peering) -> Option<u64> {
        let asked = timeout(CONNECT_MAX, self.ask(there, Method::GET, "/leads")).await.ok()??;
        if asked.status() == StatusCode::FORBIDDEN {
            self.is_stranger(there);
        }
        let seq = asked.headers().get(SEQ).filter(|_| asked.status() == StatusCode::NO_CONTENT);
        seq?.to_str().ok()?.parse().ok()
    }

    /// The one there does not take us for a server. Every request finds that out again, and says so only now and then.
    pub(super) fn is_stranger(&self, there: &Peering) {
        let now = std::time::Instant::now();
        let mut said = lock(&self.0.said_stranger);
        if said.is_none_or(|at| now.duration_since(at) >= SAID_EVERY) {
            *said = Some(now);
            tracing::warn!(
                there = %there.address,
                "the leader has another peer secret (peer-secret-file): nothing can be passed on to it"
            );
        }
    }

    /// Gives up a request, and with it what it was granted there.
    pub(super) fn give_up(&self, there: Peering, id: u64) {
        let uplink = self.clone();
        spawn(async move { uplink.tell(&there, &gone(id)).await });
    }

    /// Tells it until it is heard. Only one at a time tries again: when a leader is gone, thousands have to.
    async fn tell(&self, there: &Peering, path: &str) {
        if self.is_told(there, path).await {
            return;
        }
        let until = Instant::now() + TELL_AGAIN_MAX;
        let turns = lock(&self.0.turns).entry(there.address.clone()).or_default().clone();
        loop {
            let _turn = turns.lock().await;
            if Instant::now() >= until {
                tracing::debug!("the leader could not be told that a client is gone");
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
        // Everybody who waits here would try it in turn.
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

/// Nobody waits for the answer of this request any more.
fn gone(id: u64) -> String {
    format!("/gone/{id}")
}

/// Does an answer grant something, as it says to the server it goes through?
pub(super) fn grants<B>(response: &Response<B>) -> bool {
    response.headers().contains_key(GRANT)
}

/// A request that was sent. Dropped before it is answered, its client is gone: the leader is told so, which gives it up
/// there; and if it was granted something meanwhile, that is given back. Resetting the stream alone would not do: the
/// answer may be on its way.
struct Asked {
    sending: Option<Sending>,
    uplink: Uplink,
    there: Peering,
    id: u64,
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some(sending) = self.sending.take() else { return };
        let (uplink, there, id) = (self.uplink.clone(), self.there.clone(), self.id);
        spawn(async move {
            let gone = gone(id);
            let telling = uplink.tell(&there, &gone);
            let (answer, ()) = tokio::join!(sending, telling);
            if answer.is_ok_and(|answer| grants(&answer)) {
                // It may not have been granted yet when the leader was told.
                uplink.give_up(there, id);
            }
        });
    }
}

/// On the thread's runtime, unless that is ending: then its connections are, too.
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(task);
    }
}
