//! The client of a server or a cluster, and its settings.

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

/// The default response timeout. It is longer than the 5 s for which a follower can hold a request. It is much
/// shorter than [`Retry`](crate::Retry) keeps trying, so that an unresponsive server is not the last one tried.
const TIMEOUT: Duration = Duration::from_secs(6);

/// A client of a server or a cluster. It opens connections as needed; clones share them.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) transport: Transport,
    /// `None` means the server's default namespace.
    pub(crate) namespace: Option<String>,
    pub(crate) owner: String,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Client {
    /// Creates a client for the server at `url`, with default settings. A URL is `http://host:port` or
    /// `https://host:port`, with or without a path, or `unix:/path/of/a/socket`. List the servers of a cluster with
    /// commas in between: `http://n1:8080,http://n2:8080`.
    pub fn new(url: &str) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// Returns a builder for a client of the server at `url`, to change settings.
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

    /// Starts a request for a lock: see [`LockRequest`].
    pub fn lock(&self, name: impl Into<String>) -> LockRequest {
        LockRequest::new(self.clone(), name.into())
    }

    /// Starts a request for several locks that are granted all together: see [`LocksRequest`].
    pub fn locks(&self) -> LocksRequest {
        LocksRequest::new(self.clone())
    }

    /// Starts a request for a session: one keep-alive for any number of locks. See [`SessionRequest`].
    pub fn session(&self) -> SessionRequest {
        SessionRequest::new(self.clone())
    }

    /// Watches the locks whose names begin with `prefix`, from now on.
    pub fn watch(&self, prefix: impl Into<String>) -> Events {
        Events::new(self.clone(), prefix.into())
    }

    /// Returns a leader election, with one leader at a time: see [`Election`].
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election::new(self.clone(), name.into())
    }

    /// Returns the same client with new connections. The existing connections belong to the runtime they were made
    /// in.
    pub(crate) fn reconnected(&self) -> Self {
        let Inner { transport, namespace, owner, clock } = &*self.inner;
        let (namespace, owner, clock) = (namespace.clone(), owner.clone(), clock.clone());
        Self {
            inner: Arc::new(Inner { transport: transport.reconnected(), namespace, owner, clock }),
        }
    }

    /// Returns the default owner of requests. It is different for every client that was built, unless it was set.
    pub fn owner(&self) -> &str {
        &self.inner.owner
    }

    /// The shortest TTL that outlasts a leader change of the cluster, as its servers last reported it; `None` for a
    /// single server, or before the first response. When the client gets a lock or a session with a shorter TTL, it
    /// warns once, by `tracing`.
    pub fn failover_time(&self) -> Option<Duration> {
        self.inner.transport.failover().time()
    }

    /// Returns the clock that deadlines are measured with.
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
    /// Adds another URL of the same server or cluster. The client uses one URL until a request to it gets no response
    /// or 503, or until the server reports that it is not the leader. Then the client goes to the next URL, or to the
    /// leader.
    pub fn also(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Whether to have followers reject requests and name the leader, so that the client goes there, instead of
    /// having them forward requests. Default: yes if several URLs are given, otherwise no. If the leader is at none
    /// of the given URLs, followers forward requests even so.
    pub fn direct(mut self, direct: bool) -> Self {
        self.ways.direct = Some(direct);
        self
    }

    /// Whether to go to a leader even if its URL was not given. Then any server at one of the URLs decides where
    /// requests go, and requests contain lease ids. That is why this is an error for a client with an API key or a
    /// certificate. It never leads from TLS to plain HTTP.
    pub fn follow_any_leader(mut self, follow: bool) -> Self {
        self.ways.follows_any = follow;
        self
    }

    /// The namespace of all locks. Default: the server's default namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The API key. The client sends it as `Authorization: Bearer …` with every request.
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.api_key = Some(Secret(api_key.into()));
        self
    }

    /// Whether to allow sending the API key over plain HTTP to another machine, where anyone on the network path can
    /// read it and use it. Without this, building such a client fails.
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// A PEM file with the certificates of the CAs that can sign the server's certificate. Only these are trusted
    /// then. Default: the CAs that the system trusts.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.trust.ca_file = Some(file.into());
        self
    }

    /// PEM files with the client certificate, followed by its intermediate certificates, and with its private key.
    /// They are read when the client is built.
    pub fn client_certificate(
        mut self,
        certificate_file: impl Into<PathBuf>,
        key_file: impl Into<PathBuf>,
    ) -> Self {
        self.trust.client = Some((certificate_file.into(), key_file.into()));
        self
    }

    /// The default owner of requests. Default: made of host name, process id and random characters, so that no two
    /// clients share it.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// The response timeout, in addition to any requested wait. After that, the client tries the next URL, or the
    /// same one again. Default: 6 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The time limit for establishing a connection. Default: 3 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Whether to use HTTP/2 from the first byte, with all requests over one connection. This is less work for both
    /// sides with many concurrent requests, and takes fewer connections with many waiters. Over `https://`, HTTP/2 is
    /// used anyway if the server supports it. Over `http://` it cannot be negotiated: Leasehold supports it on every
    /// port, but a proxy in between might not. Default: off.
    pub fn http2(mut self, http2: bool) -> Self {
        self.http2 = http2;
        self
    }

    /// Replaces the clock, in tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Builds the client, or returns an error if the settings are invalid. No request is sent yet.
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
