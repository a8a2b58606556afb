//! One etcd member, and single attempts at calls.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio_stream::Stream;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::credentials::{Credentials, Tls};
use crate::error::{Error, Kind, words};
use crate::link::Link;
use crate::message::{AuthenticateRequest, AuthenticateResponse};

/// The maximum size of a response. One response can contain many journal records.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The interval of pings on a connection with pending requests, and the time limit for the response.
const PING_EVERY: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// A member of the etcd cluster.
pub(crate) struct Member {
    /// Host and port of the member.
    pub(crate) name: Box<str>,
    /// The connection for streams; with TLS, also for unary calls.
    channel: Channel,
    /// The connection for unary calls. `None` with TLS.
    link: Option<Link>,
    /// A hint at the probable cause, for errors before the first response over TLS.
    doubt: &'static str,
    /// Whether the member has responded over TLS.
    is_known: AtomicBool,
    /// The authentication token, after a successful authentication.
    token: Mutex<Option<MetadataValue<Ascii>>>,
}

impl Member {
    /// Creates a member. It connects at the first call.
    pub(crate) fn new(name: &str, tls: Option<&Tls>, try_max: Duration) -> Result<Self, Error> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let wrong = |error: tonic::transport::Error| {
            Error::new(Kind::Settings, name, format!("cannot use etcd at {name}: {error:?}"))
        };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{name}"))
            .map_err(wrong)?
            .connect_timeout(try_max)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(false);
        let link = match tls {
            Some(tls) => {
                endpoint = endpoint.tls_config(tls.config()).map_err(wrong)?;
                None
            }
            None => Some(Link::new(name, try_max, endpoint.uri().clone())),
        };
        let doubt = match tls {
            Some(Tls { identity: None, .. }) => {
                "does it use TLS, and does it require a client certificate?"
            }
            _ => "does it use TLS?",
        };
        let (channel, name) = (endpoint.connect_lazy(), name.into());
        let (is_known, token) = Default::default();
        Ok(Self { name, channel, link, doubt, is_known, token })
    }

    /// Makes one attempt at a unary call.
    pub(crate) async fn unary<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        credentials: Option<&Credentials>,
        try_max: Duration,
    ) -> Result<A, Error>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let asked = async { self.ask(path, self.proven(message, credentials).await?).await };
        let answer = self.in_time(try_max, asked).await;
        if let (Err(Error { kind: Kind::Unknown, .. }), Some(link)) = (&answer, &self.link) {
            link.forget();
        }
        answer
    }

    async fn ask<Q, A>(&self, path: &'static str, request: Request<Q>) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<Q, A>::default());
        let answer = match &self.link {
            Some(link) => {
                let grpc = Grpc::with_origin(link.ready().await?, link.origin.clone());
                let mut grpc = grpc.max_decoding_message_size(ANSWER_BYTES_MAX);
                grpc.unary(request, path, codec).await?
            }
            None => {
                let asked = async { self.grpc().await?.unary(request, path, codec).await };
                let answer = asked.await.map_err(|status| self.doubted(status))?;
                self.is_known.store(true, Relaxed);
                answer
            }
        };
        Ok(answer.into_inner())
    }

    /// Appends the hint at the probable cause, unless the member has responded before or the error already names the
    /// cause.
    fn doubted(&self, status: Status) -> Status {
        let why = words(&status);
        let is_said = status.source().is_none() || why.contains("certificate");
        if is_said || self.is_known.load(Relaxed) {
            return status;
        }
        Status::new(status.code(), format!("{why} ({})", self.doubt))
    }

    /// Starts a stream. The time limit applies until the first response.
    pub(crate) async fn streaming<Q, A>(
        &self,
        path: &'static str,
        messages: impl Stream<Item = Q> + Send + 'static,
        credentials: Option<&Credentials>,
        try_max: Duration,
    ) -> Result<Streaming<A>, Error>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.in_time(try_max, async {
            let mut request = self.proven(messages, credentials).await?;
            // With this header, a member that has lost its leader ends the stream instead of staying silent.
            request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
            let mut grpc = self.grpc().await?;
            let codec = ProstCodec::<Q, A>::default();
            Ok(grpc.streaming(request, PathAndQuery::from_static(path), codec).await?.into_inner())
        })
        .await
    }

    async fn grpc(&self) -> Result<Grpc<Channel>, Status> {
        let grpc = Grpc::new(self.channel.clone());
        let mut grpc = grpc.max_decoding_message_size(ANSWER_BYTES_MAX);
        let unreachable = |error: tonic::transport::Error| Status::from_error(error.into());
        grpc.ready().await.map_err(unreachable)?;
        Ok(grpc)
    }

    pub(crate) async fn in_time<T>(
        &self,
        try_max: Duration,
        attempt: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Error> {
        let late = |_| {
            let why = format!("no response within {} ms", try_max.as_millis());
            Error::new(Kind::Unknown, &self.name, why)
        };
        let answer = tokio::time::timeout(try_max, attempt).await.map_err(late)?;
        answer.map_err(|status| {
            let error = Error::of(&self.name, &status);
            if error.kind == Kind::Denied {
                // The token might only have expired: the next call authenticates again.
                *self.token() = None;
            }
            error
        })
    }

    /// Returns the request with the authentication token, if authentication is configured.
    async fn proven<M>(
        &self,
        message: M,
        credentials: Option<&Credentials>,
    ) -> Result<Request<M>, Status> {
        let mut request = Request::new(message);
        let Some(credentials) = credentials else { return Ok(request) };
        let known = self.token().clone();
        let token = match known {
            Some(token) => token,
            None => self.authenticate(credentials).await?,
        };
        request.metadata_mut().insert("token", token);
        Ok(request)
    }

    async fn authenticate(
        &self,
        Credentials { user, password }: &Credentials,
    ) -> Result<MetadataValue<Ascii>, Status> {
        let unread = |error: std::io::Error| Status::unauthenticated(error.to_string());
        let (name, password) = (user.clone(), password.read().map_err(unread)?);
        let message = AuthenticateRequest { name, password };
        let path = "/etcdserverpb.Auth/Authenticate";
        let answer: AuthenticateResponse = self.ask(path, Request::new(message)).await?;
        let unusable = |_| Status::internal("the token cannot be sent");
        let token = MetadataValue::try_from(answer.token).map_err(unusable)?;
        *self.token() = Some(token.clone());
        Ok(token)
    }

    fn token(&self) -> std::sync::MutexGuard<'_, Option<MetadataValue<Ascii>>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
