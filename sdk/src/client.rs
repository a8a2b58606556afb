//! A server, as its clients see it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::address::Ways;
use crate::clock::{BootClock, Clock};
use crate::secret::Secret;
use crate::tls::Trust;
use crate::transport::Transport;
use crate::{Election, Error, Events, LockRequest, LocksRequest, SessionRequest, random};

/// How long an answer may take unless said: longer than the 5 s for which a server that follows may hold a request, and
/// much less than [`Retry`](crate::Retry) goes on, so that a server that says nothing is not the last one asked.
const TIMEOUT: Duration = Duration::from_secs(6);

/// A connection to a server, or as many as are needed. Clones share them.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) transport: Transport,
    /// `None` is whatever the server calls its default.
    pub(crate) namespace: Option<String>,
    pub(crate) owner: String,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Client {
    /// A client of the server at `url`, and defaults for the rest: `http://host:port` or `https://host:port`, with or
    /// without a path, or `unix:/path/of/a/socket`. Several with commas in between are several servers that stand in
    /// for each other: `http://n1:8080,http://n2:8080`.
    pub fn new(url: &str) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// The same, with settings.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder {
            urls: vec![url.into()],
            ways: Ways::default(),
            namespace: None,
            api_key: None,
            owner: None,
            timeout: TIMEOUT,
            connect_timeout: Duration::from_secs(3),
            http2: false,
            insecure: false,
            trust: Trust::default(),
            clock: Arc::new(BootClock),
        }
    }

    /// Asks for a lock: see [`LockRequest`].
    pub fn lock(&self, name: impl Into<String>) -> LockRequest {
        LockRequest::new(self.clone(), name.into())
    }

    /// Asks for several locks or none: see [`LocksRequest`].
    pub fn locks(&self) -> LocksRequest {
        LocksRequest::new(self.clone())
    }

    /// Opens a session: one keep-alive for any number of locks. See [`SessionRequest`].
    pub fn session(&self) -> SessionRequest {
        SessionRequest::new(self.clone())
    }

    /// What happens to locks whose name begins with `prefix`, from now on.
    pub fn watch(&self, prefix: impl Into<String>) -> Events {
        Events::new(self.clone(), prefix.into())
    }

    /// One leader at a time: see [`Election`].
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election::new(self.clone(), name.into())
    }

    /// The same client with connections of its own: those it has belong to the runtime they were made in.
    pub(crate) fn reconnected(&self) -> Self {
        let Inner { transport, namespace, owner, clock } = &*self.inner;
        let (namespace, owner, clock) = (namespace.clone(), owner.clone(), clock.clone());
        Self {
            inner: Arc::new(Inner { transport: transport.reconnected(), namespace, owner, clock }),
        }
    }

    /// The owner that asks unless another is named: different for each client that was built.
    pub fn owner(&self) -> &str {
        &self.inner.owner
    }

    /// The shortest TTL that outlasts a leader change of the cluster, as its servers last reported it; `None` for a
    /// single server, or before the first response. When the client gets a lock or a session with a shorter TTL, it
    /// warns once, by `tracing`.
    pub fn failover_time(&self) -> Option<Duration> {
        self.inner.transport.failover().time()
    }

    /// The clock deadlines are on.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { transport, namespace, owner, .. } = &*self.inner;
        let mut shown = f.debug_struct("Client");
        shown.field("transport", transport).field("namespace", namespace).field("owner", owner);
        shown.finish_non_exhaustive()
    }
}

/// The settings of a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    urls: Vec<String>,
    ways: Ways,
    namespace: Option<String>,
    api_key: Option<Secret>,
    owner: Option<String>,
    timeout: Duration,
    connect_timeout: Duration,
    http2: bool,
    insecure: bool,
    trust: Trust,
    clock: Arc<dyn Clock>,
}

impl ClientBuilder {
    /// Another URL of the same server, or of one that stands in for it. One is used until a request over it gets no
    /// answer, or 503, or it says that another one leads; then the next one is, or the one that leads.
    pub fn also(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Ask a server that does not lead to say who does, and go there, instead of letting it pass requests on. Left out:
    /// yes if several URLs are given, no otherwise. Where the leader is at none of our URLs, it is asked to pass them
    /// on all the same.
    pub fn direct(mut self, direct: bool) -> Self {
        self.ways.direct = Some(direct);
        self
    }

    /// Go to a leader whose URL was not given, too. Then whoever answers at one of the URLs decides where requests go,
    /// with the ids of leases in them; so it is refused for a client that has an API key or a certificate. From TLS it
    /// does not lead to plain HTTP.
    pub fn follow_any_leader(mut self, follow: bool) -> Self {
        self.ways.follows_any = follow;
        self
    }

    /// The namespace of every lock. Left out: the server's default.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sent as `Authorization: Bearer …` with every request.
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.api_key = Some(Secret(api_key.into()));
        self
    }

    /// Send the API key over plain HTTP to another machine. Whoever is on the way can read it and use it: without
    /// this, such a client is not built.
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// A file with the certificates, in PEM, of the CAs that may sign the server's certificate. Left out: those the
    /// system trusts. With it, only these are trusted.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.trust.ca_file = Some(file.into());
        self
    }

    /// Files with the certificate to show to the server, followed by those between it and its CA, and with its
    /// private key, in PEM. They are read when the client is built.
    pub fn client_certificate(
        mut self,
        certificate_file: impl Into<PathBuf>,
        key_file: impl Into<PathBuf>,
    ) -> Self {
        self.trust.client = Some((certificate_file.into(), key_file.into()));
        self
    }

    /// Who asks, unless a request says otherwise. Left out: host, process and chance, so that no two are one.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// How long an answer may take, beyond what was asked to be waited: 6 s unless given. After that the
    /// next URL is asked, or the same again.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a connection may take: 3 s unless given.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Speak HTTP/2 from the first byte, all requests over one connection: less work for both sides where many are
    /// asked at once, and fewer connections where many wait. Over `https://` it is spoken anyway if the server can.
    /// Over `http://` nobody asks: our server understands it on every port, a proxy in between may not, so it is off
    /// unless given.
    pub fn http2(mut self, http2: bool) -> Self {
        self.http2 = http2;
        self
    }

    /// Another clock, in tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The client, if the settings make sense. Nothing is sent yet.
    pub fn build(self) -> Result<Client, Error> {
        let api_key = self.api_key.as_ref().map(|key| key.0.as_str());
        if self.ways.follows_any && (api_key.is_some() || self.trust.client.is_some()) {
            return Err(Error::Invalid(
                "an API key and a client certificate are sent only to servers whose URLs are given; give all of them \
                 instead of following any leader"
                    .into(),
            ));
        }
        let transport = Transport::new(
            &self.urls,
            self.ways,
            api_key,
            self.timeout,
            self.connect_timeout,
            self.http2,
            &self.trust,
        )?;
        if api_key.is_some() && !self.insecure {
            transport.check_private()?;
        }
        let owner = self.owner.unwrap_or_else(random::owner);
        let Self { namespace, clock, .. } = self;
        Ok(Client { inner: Arc::new(Inner { transport, namespace, owner, clock }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Retry;

    #[test]
    fn a_server_that_says_nothing_leaves_time_to_ask_the_next_ones() {
        const HELD_BY_A_FOLLOWER: Duration = Duration::from_secs(5);
        let total = Retry::default().total_max;
        assert!(HELD_BY_A_FOLLOWER < TIMEOUT && TIMEOUT * 3 < total, "{TIMEOUT:?} of {total:?}");
    }
}
