//! A server in this process, with a clock that the test controls.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::clock::FakeClock;
use leasehold_core::{RetryHint, Span};
use leasehold_server::dialect::files;
use leasehold_server::serve::{Server, Settings};
use leasehold_server::{auth, dialect, engine, http};
use leasehold_store::sqlite::Space;

use crate::client::Client;

/// A server whose clock advances only when the test does that.
pub struct Local {
    /// The clock of the server.
    pub clock: Arc<FakeClock>,
    /// A client of the server.
    pub client: Client,
    /// The address on which it listens.
    pub address: SocketAddr,
    /// The server itself.
    pub server: Server,
}

/// Returns the settings of `leasehold serve` on a free port, with its data in `data` or in memory.
pub fn settings(data: Option<&Path>) -> Settings {
    // Makes the tests independent of the free space on this machine's disk.
    let files = files::Options { free_space_min: Some(0), ..files::Options::default() };
    Settings {
        listen: vec![http::Listen::Http(SocketAddr::from(([127, 0, 0, 1], 0)))],
        metrics_listen: None,
        tls: None,
        data: data.map(Into::into),
        files: None,
        cluster: None,
        backup: None,
        fold_interval: Duration::from_millis(50),
        history: Default::default(),
        space: Space::unwatched(),
        dialects: dialect::ALL.to_vec(),
        engine: engine::Options::default(),
        // The host names that tests with hand-written requests use.
        http: http::Options {
            hosts: ["a", "b", "x"].map(String::from).into(),
            ..http::Options::default()
        },
        retry: RetryHint::default(),
        dialect: dialect::Options { files, ..dialect::Options::default() },
        webhook: None,
        auth_file: None,
        auth: auth::Bounds::default(),
        audit: None,
        traces: None,
        shutdown_timeout: Duration::from_secs(10),
    }
}

impl Local {
    /// Starts a server with these settings.
    pub async fn start(settings: Settings) -> Self {
        Self::start_at(settings, Arc::default()).await
    }

    /// Starts a server with an existing clock.
    pub async fn start_at(settings: Settings, clock: Arc<FakeClock>) -> Self {
        let server = Server::start_with(settings, clock.clone()).await.expect("a server");
        let address = server.address().expect("it listens on TCP");
        Self { clock, client: Client::new(address), address, server }
    }

    /// Starts a server that stores its data in `data`.
    pub async fn in_folder(data: &Path) -> Self {
        Self::start(settings(Some(data))).await
    }

    /// Starts a server that stores nothing.
    pub async fn ephemeral() -> Self {
        Self::start(settings(None)).await
    }

    /// Advances the clock. The next request processes everything that has become due.
    pub fn advance_ms(&self, ms: u64) {
        self.clock.advance(Span::from_millis(ms));
    }

    /// Stops the server in good order.
    pub async fn stop(self) {
        self.server.stop().await.expect("a good end");
    }

    /// Waits until `condition` holds, for effects that the server completes in the background.
    pub async fn until(&self, what: &str, mut condition: impl AsyncFnMut(&Client) -> bool) {
        // Two minutes: only a hang takes that long, however busy the machine is.
        for _ in 0..24_000 {
            if condition(&self.client).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never happened: {what}");
    }
}
