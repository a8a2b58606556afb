//! A link between a driver and a server: an HTTP proxy that causes the faults that a script requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::seen::{Log, Seen};

/// A fault of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The request is not forwarded, and there is never a response.
    Swallowed,
    /// The request is not forwarded, and the connection is closed.
    CutBefore,
    /// The server handles the request, and then the connection is closed without a response.
    CutAfter,
    /// The response is delayed by this time.
    Late(Duration),
    /// The response is held back until the script calls [`Link::let_go`].
    Held,
    /// The request is not forwarded. The response is 503, as if the cluster had no leader, so nothing was done.
    Busy,
    /// The request is not forwarded. The response is 200 with this body, which does not come from a server.
    Foreign(&'static str),
}

/// A fault, and the requests that it affects.
#[derive(Clone, Debug)]
pub struct Rule {
    part: String,
    fate: Fate,
    n_left: u32,
}

impl Rule {
    /// Applies to every request whose path contains `part`.
    pub fn always(part: &str, fate: Fate) -> Self {
        Self { part: part.into(), fate, n_left: u32::MAX }
    }

    /// Applies to the next `n` of these requests.
    pub fn times(n: u32, part: &str, fate: Fate) -> Self {
        Self { part: part.into(), fate, n_left: n }
    }
}

/// The current address of the server, which changes with each restart.
pub type Upstream = watch::Receiver<Option<SocketAddr>>;

/// An address at which a driver can reach the server. Dropping this value closes it.
pub struct Link {
    /// The address on which it listens.
    pub address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

struct State {
    number: usize,
    upstream: Upstream,
    log: Log,
    rules: Mutex<Vec<Rule>>,
    /// The number of cuts. Each cut closes all connections that were made before.
    n_cuts: watch::Sender<u64>,
    is_open: watch::Sender<bool>,
    /// The number of calls of [`Link::let_go`].
    n_let_go: watch::Sender<u64>,
    /// The URL of the leader that clients are referred to, if this link belongs to a follower.
    leader: Mutex<Option<String>>,
}

impl Link {
    /// Opens a link on a free port.
    pub async fn open(number: usize, upstream: Upstream, log: Log) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            number,
            upstream,
            log,
            rules: Mutex::default(),
            n_cuts: watch::Sender::new(0),
            is_open: watch::Sender::new(true),
            n_let_go: watch::Sender::new(0),
            leader: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(state.clone(), listener, address));
        Ok(Self { address, state, accepting })
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces all rules. The first rule that matches a request applies.
    pub fn obey(&self, rules: impl Into<Vec<Rule>>) {
        *self.state.rules() = rules.into();
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.state.n_cuts.send_modify(|n| *n += 1);
    }

    /// Closes all connections and refuses new ones.
    pub fn refuse(&self) {
        self.state.is_open.send_replace(false);
        self.cut();
    }

    /// Makes this the link of a follower: it forwards requests, but refers clients to the leader if they ask for that.
    /// `None` makes it the link of the leader.
    pub fn follow(&self, leader: Option<&str>) {
        *self.state.leader() = leader.map(Into::into);
    }

    /// Releases all held responses.
    pub fn let_go(&self) {
        self.state.n_let_go.send_modify(|n| *n += 1);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl State {
    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leader(&self) -> MutexGuard<'_, Option<String>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self, path: &str) -> Option<Fate> {
        let mut rules = self.rules();
        let rule = rules.iter_mut().find(|rule| rule.n_left > 0 && path.contains(&rule.part))?;
        rule.n_left = rule.n_left.saturating_sub(1);
        Some(rule.fate)
    }
}

impl State {
    /// Returns the response of a server that did nothing.
    fn refuse(
        &self,
        n: usize,
        status: StatusCode,
        code: &str,
        leader: Option<&str>,
    ) -> Response<Body> {
        self.log.change(n, |seen| {
            (seen.status, seen.answered_at) = (Some(status.as_u16()), Some(Instant::now()));
        });
        let said = json!({
            "error": "this server is not the leader", "code": code, "retryable": true,
            "may_have_taken_effect": false,
        });
        let mut response = Response::new(full(said.to_string().into()));
        *response.status_mut() = status;
        if let Some(leader) = leader.and_then(|url| url.parse().ok()) {
            response.headers_mut().insert("leasehold-leader", leader);
        }
        response
    }
}

async fn accept(state: Arc<State>, listener: TcpListener, address: SocketAddr) {
    let mut is_open = state.is_open.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    tokio::spawn(serve(state.clone(), stream));
                }
            }
            _ = is_open.wait_for(|is_open| !is_open) => break,
        }
    }
    drop(listener);
    // Connections to a port that is bound without listening are refused, and no other process can take the port.
    let _placeholder = TcpSocket::new_v4().and_then(|socket| {
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    });
    std::future::pending().await
}

async fn serve(state: Arc<State>, stream: TcpStream) {
    let mut n_cuts = state.n_cuts.subscribe();
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| pass(state.clone(), request));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        _ = n_cuts.changed() => {}
    }
}

/// The connection is closed instead of a response.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut")
    }
}

impl std::error::Error for Cut {}

type Body = BoxBody<Bytes, hyper::Error>;

fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed()
}

async fn pass(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    let path = head.uri.to_string();
    let bearer = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let is_direct = head.headers.get("leasehold-direct").is_some_and(|value| value == "1");
    let n = state.log.note(Seen {
        at: Instant::now(),
        link: state.number,
        method: head.method.to_string(),
        path: path.clone(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        is_direct,
        bearer: bearer.and_then(|value| value.strip_prefix("Bearer ")).map(Into::into),
        forwarded_at: None,
        status: None,
        answered_at: None,
    });
    // Subscribes before the request is forwarded, so that a later call of `let_go` releases its response.
    let mut n_let_go = state.n_let_go.subscribe();
    n_let_go.mark_unchanged();
    let fate = state.fate(&path);
    match fate {
        Some(Fate::Swallowed) => std::future::pending().await,
        Some(Fate::CutBefore) => return Err(Cut),
        Some(Fate::Busy) => {
            return Ok(state.refuse(n, StatusCode::SERVICE_UNAVAILABLE, "BUSY", None));
        }
        // The log contains no status, because no server responded.
        Some(Fate::Foreign(said)) => return Ok(Response::new(full(said.into()))),
        _ => {}
    }
    if let Some(leader) = state.leader().clone().filter(|_| is_direct) {
        return Ok(state.refuse(n, StatusCode::MISDIRECTED_REQUEST, "NOT_LEADER", Some(&leader)));
    }
    state.log.change(n, |seen| seen.forwarded_at = Some(Instant::now()));
    let mut request = Request::from_parts(head, Full::new(body));
    request.headers_mut().remove(CONNECTION);
    request.headers_mut().remove(TRANSFER_ENCODING);
    let response = forward(&state, request).await.ok_or(Cut)?;
    state.log.change(n, |seen| seen.status = Some(response.status().as_u16()));
    match fate {
        Some(Fate::CutAfter) => return Err(Cut),
        Some(Fate::Late(by)) => tokio::time::sleep(by).await,
        Some(Fate::Held) => drop(n_let_go.changed().await),
        _ => {}
    }
    state.log.change(n, |seen| seen.answered_at = Some(Instant::now()));
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONNECTION);
    head.headers.remove(TRANSFER_ENCODING);
    Ok(Response::from_parts(head, body.boxed()))
}

/// Forwards a request over a new connection. When the client disconnects, that connection closes too, and the server
/// notices it.
async fn forward(state: &State, request: Request<Full<Bytes>>) -> Option<Response<Incoming>> {
    let address = (*state.upstream.borrow())?;
    let stream = TcpStream::connect(address).await.ok()?;
    let _ = stream.set_nodelay(true);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    sender.send_request(request).await.ok()
}
