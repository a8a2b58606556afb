//! Leasehold with its default settings: all protocols, metrics, and all data on disk.

use std::borrow::Cow;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use tokio::io::{AsyncRead, AsyncWrite};

use super::http::{Connection, cut};
use super::http2::Stream;
use super::process::{self, Process};
use super::{Client, Peer};

const WAIT_MS: u64 = 60_000;

pub(crate) struct Leasehold {
    pub(crate) process: Process,
}

impl Leasehold {
    pub(crate) fn start(data: &Path, binary: &str) -> Self {
        Self::start_in(&process::empty(data, "leasehold"), binary)
    }

    /// Starts a server on the existing data in `folder`.
    pub(crate) fn start_in(folder: &Path, binary: &str) -> Self {
        let address = process::free_address();
        let mut command = Command::new(binary);
        command.arg("serve").arg(format!("--listen={address}"));
        command.arg("--data").arg(folder.join("data"));
        Self { process: Process::start(command, address, folder) }
    }
}

impl Peer for Leasehold {
    type Client = LeaseholdClient;

    fn name(&self) -> &'static str {
        "leasehold"
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    async fn connect(&self, n: usize) -> LeaseholdClient {
        let connection = Connection::open(self.process.address).await;
        LeaseholdClient { connection, n, proof: String::new() }
    }
}

/// The same server over HTTP/2: as many requests at a time, up to [`STREAMS`] of them on one connection.
pub(crate) struct LeaseholdHttp2 {
    pub(crate) server: Leasehold,
    latest: Mutex<Option<Stream>>,
}

/// Number of streams that share a connection.
const STREAMS: usize = 64;

impl LeaseholdHttp2 {
    pub(crate) fn start(data: &Path, binary: &str) -> Self {
        Self { server: Leasehold::start(&data.join("http2"), binary), latest: Mutex::new(None) }
    }
}

impl Peer for LeaseholdHttp2 {
    type Client = LeaseholdClient<Stream>;

    fn name(&self) -> &'static str {
        "leasehold, HTTP/2"
    }

    fn pid(&self) -> u32 {
        self.server.pid()
    }

    async fn connect(&self, n: usize) -> LeaseholdClient<Stream> {
        let shared = self.latest.lock().expect("not poisoned").clone();
        let connection = match shared {
            Some(stream) if !n.is_multiple_of(STREAMS) && stream.is_open() => stream,
            _ => Stream::open(self.server.process.address).await,
        };
        *self.latest.lock().expect("not poisoned") = Some(connection.clone());
        LeaseholdClient { connection, n, proof: String::new() }
    }
}

/// A connection that sends a request to the server and returns the response.
pub(crate) trait Carrier {
    /// Returns the status and body of the response.
    async fn post<'a>(&'a mut self, path: &str, body: &str) -> (u16, Cow<'a, str>);
}

impl<S: AsyncRead + AsyncWrite + Unpin> Carrier for Connection<S> {
    async fn post<'a>(&'a mut self, path: &str, body: &str) -> (u16, Cow<'a, str>) {
        let (status, answer) = Connection::post(self, path, body).await;
        (status, answer.into())
    }
}

impl Carrier for Stream {
    async fn post<'a>(&'a mut self, path: &str, body: &str) -> (u16, Cow<'a, str>) {
        let (status, answer) = Stream::post(self, path, body).await;
        (status, answer.into())
    }
}

pub(crate) struct LeaseholdClient<C = Connection> {
    pub(crate) connection: C,
    pub(crate) n: usize,
    /// Owner, lease id and token of the last acquired lock, as JSON members.
    pub(crate) proof: String,
}

impl<C: Carrier> LeaseholdClient<C> {
    async fn take(&mut self, key: &str, more: &str) {
        let body = format!("{{\"owner_id\":\"c{}\",\"ttl_ms\":60000{more}}}", self.n);
        let (status, answer) =
            self.connection.post(&format!("/v1/locks/{key}/acquire"), &body).await;
        assert_eq!(status, 200, "{answer}");
        let id = cut(&answer, "\"lease_id\":\"", '"');
        let token = cut(&answer, "\"fencing_token\":", ',');
        self.proof =
            format!("\"owner_id\":\"c{}\",\"lease_id\":\"{id}\",\"fencing_token\":{token}", self.n);
    }

    /// Renews a lease, which `proof` identifies.
    pub(crate) async fn renew(&mut self, key: &str, proof: &str) {
        let body = format!("{{{proof},\"extend_by_ms\":60000}}");
        let (status, answer) = self.connection.post(&format!("/v1/locks/{key}/renew"), &body).await;
        assert_eq!(status, 200, "{answer}");
    }
}

impl<C: Carrier> Client for LeaseholdClient<C> {
    async fn acquire(&mut self, key: &str) {
        self.take(key, "").await;
    }

    async fn release(&mut self, key: &str) {
        let body = format!("{{{}}}", self.proof);
        let (status, answer) =
            self.connection.post(&format!("/v1/locks/{key}/release"), &body).await;
        assert_eq!(status, 200, "{answer}");
    }

    async fn wait_for(&mut self, key: &str) {
        self.take(key, &format!(",\"wait_ms\":{WAIT_MS}")).await;
    }
}
