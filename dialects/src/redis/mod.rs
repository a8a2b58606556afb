//! The commands that Redis lock clients send, on a dedicated listener: `SET key value NX PX`, the scripts that extend
//! and delete a key with the client's value, and the setup commands before them.
//!
//! The value is the owner of the lease; a database is a namespace. Commands that arrive together are sent to the
//! engine together.

mod command;
mod connection;
pub(super) mod contract;
pub mod frame;
mod lock;
mod party;
mod refusal;
mod reply;
mod revoke;
mod script;
mod semaphore;
mod transaction;
mod turn;
mod urgency;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::{Dialect, Listener};
use crate::RequestFailure;
use crate::app::App;
use crate::http::Listen;
use crate::route::Route;

/// There are no HTTP paths.
pub(super) const WORDS: &[&str] = &[];
pub(super) const LISTENER: Option<Listener> = Some(Listener {
    dialect: Dialect::Redis,
    address: |options| options.redis.address(),
    idle_timeout: |options| options.redis.idle_timeout,
    serve: |app, conversation| Box::pin(connection::converse(app, conversation)),
});
/// No operation of this dialect differs from others.
pub(super) const ROUTES: &[Route] = &[];

/// The settings of the Redis dialect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The listen address; `None` turns the listener off.
    pub listen: Option<SocketAddr>,
    /// Whether the listener uses TLS.
    pub tls: bool,
    /// The namespace of database 0. For database 3 it is this name, `-` and 3.
    pub namespace: Arc<str>,
    /// The number of databases.
    pub databases: u32,
    /// Maximum size of a command, in bytes.
    pub command_bytes_max: usize,
    /// Maximum commands of one connection that are answered together; further commands wait until these are answered.
    pub pipeline_max: usize,
    /// Time limit for a client to authenticate.
    pub auth_timeout: Duration,
    /// How long a client can be silent before its connection is closed; `None` for no limit.
    pub idle_timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: None,
            tls: false,
            namespace: "redis".into(),
            databases: 16,
            command_bytes_max: 64 * 1024,
            pipeline_max: 1024,
            auth_timeout: Duration::from_secs(10),
            idle_timeout: None,
        }
    }
}

impl Options {
    fn address(&self) -> Option<Listen> {
        let listen = if self.tls { Listen::Https } else { Listen::Http };
        self.listen.map(listen)
    }

    fn namespace_of(&self, database: u32) -> Arc<str> {
        match database {
            0 => self.namespace.clone(),
            n => format!("{}-{n}", self.namespace).into(),
        }
    }
}

pub(super) fn routes(_: &App) -> Router<App> {
    Router::new()
}

/// Answers HTTP requests. There are none for this dialect, because it has no HTTP paths.
pub(super) fn render(_: &App, failure: RequestFailure) -> Response {
    (StatusCode::NOT_FOUND, failure.text).into_response()
}
