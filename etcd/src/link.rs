//! A connection for unary calls, which sends each request in one packet.
//!
//! Through `tonic`'s channel, a request passes from task to task and is written in three parts, and etcd wakes up for
//! each of them. Here, the calling task writes the whole request to the connection.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, SendRequest};
use http::Uri;
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::net::{TcpStream, lookup_host};
use tonic::Status;
use tower_service::Service;

use crate::unhurried::Unhurried;

/// Flow-control windows: how many bytes of one response, and of all responses together, etcd can send before they are
/// read.
const ANSWER_WINDOW_BYTES: u32 = 2 << 20;
const WINDOW_BYTES: u32 = 8 << 20;

/// The connection to a member. It is opened at the first request.
pub(crate) struct Link {
    /// Host and port of the member.
    name: Box<str>,
    /// The scheme and authority for each request.
    pub(crate) origin: Uri,
    connect_max: Duration,
    open: Mutex<Option<SendRequest<Bytes>>>,
    /// Whether the remote end has responded as an etcd member does.
    is_known: Arc<AtomicBool>,
}

impl Link {
    /// Creates a link. It connects at the first request.
    pub(crate) fn new(name: &str, connect_max: Duration, origin: Uri) -> Self {
        let (name, open, is_known) = (name.into(), Mutex::default(), Arc::default());
        Self { name, origin, connect_max, open, is_known }
    }

    /// Returns a connection that is ready for a request; opens a new one if necessary.
    pub(crate) async fn ready(&self) -> Result<Asking, Status> {
        let open = self.open().clone();
        if let Some(open) = open
            && let Ok(open) = open.ready().await
        {
            return Ok(self.asking(open));
        }
        let unreachable = |why: Box<dyn std::error::Error + Send + Sync>| {
            Status::unavailable(format!("cannot be reached: {why}"))
        };
        let socket = self.connect().await.map_err(|error| unreachable(error.into()))?;
        let begun = Builder::new()
            .enable_push(false)
            .initial_window_size(ANSWER_WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(Unhurried::new(socket))
            .await;
        let (open, connection) = begun.map_err(|error| unreachable(error.into()))?;
        // Errors of the connection are returned by the pending requests.
        tokio::spawn(async { drop(connection.await) });
        *self.open() = Some(open.clone());
        Ok(self.asking(open))
    }

    fn asking(&self, open: SendRequest<Bytes>) -> Asking {
        Asking { open, is_known: self.is_known.clone() }
    }

    /// Makes the next request open a new connection, because this one is or might be broken. Pending requests on the
    /// old connection can still get a response.
    pub(crate) fn forget(&self) {
        *self.open() = None;
    }

    /// Connects to the first address of the member that accepts a connection.
    async fn connect(&self) -> io::Result<TcpStream> {
        let addresses: Vec<_> = lookup_host(&*self.name).await?.collect();
        let mut trouble = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        for address in &addresses {
            let patience = self.connect_max / addresses.len() as u32;
            let tried = tokio::time::timeout(patience, TcpStream::connect(address)).await;
            match tried.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(socket) => return socket.set_nodelay(true).map(|()| socket),
                Err(error) => trouble = error,
            }
        }
        Err(trouble)
    }

    fn open(&self) -> MutexGuard<'_, Option<SendRequest<Bytes>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is ready for a request.
pub(crate) struct Asking {
    open: SendRequest<Bytes>,
    is_known: Arc<AtomicBool>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<http::Request<tonic::body::Body>> for Asking {
    type Response = http::Response<Answer>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.open.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let (open, is_known) = (self.open.clone(), self.is_known.clone());
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            match ask(open, http::Request::from_parts(head, ()), body).await {
                Ok(answer) => {
                    is_known.store(true, Relaxed);
                    Ok(answer.map(Answer))
                }
                Err(error) if is_known.load(Relaxed) => Err(error.into()),
                Err(error) => Err(format!("{error} (is this etcd, and without TLS?)").into()),
            }
        })
    }
}

async fn ask(
    mut open: SendRequest<Bytes>,
    head: http::Request<()>,
    body: Bytes,
) -> Result<http::Response<RecvStream>, h2::Error> {
    // The calling task buffers both parts before the connection is next served, so they are sent together.
    let (answer, mut rest) = open.send_request(head, false)?;
    // If sending fails, the response is the error.
    let _ = rest.send_data(body, true);
    answer.await
}

/// The body of a response.
pub(crate) struct Answer(RecvStream);

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Self(stream) = &mut *self;
        Poll::Ready(match ready!(stream.poll_data(context)) {
            Some(data) => Some(data.and_then(|data| {
                stream.flow_control().release_capacity(data.len())?;
                Ok(Frame::data(data))
            })),
            None => ready!(stream.poll_trailers(context))
                .transpose()
                .map(|rest| rest.map(Frame::trailers)),
        })
    }
}
