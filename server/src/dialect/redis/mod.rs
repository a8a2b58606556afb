//! What lock clients of Redis send, on a listener of its own: `SET key value NX PX`, the scripts that extend and
//! delete what has the client's value, and what they say of themselves before that.
//!
//! The value is the owner of the lease; a database is a namespace. What arrives together goes to the engine together.

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
use crate::app::App;
use crate::auth::Denied;
use crate::http::Listen;

/// It has no paths.
pub(super) const WORDS: &[&str] = &[];
pub(super) const LISTENER: Option<Listener> = Some(Listener {
    dialect: Dialect::Redis,
    address: |options| options.redis.address(),
    idle_timeout: |options| options.redis.idle_timeout,
    serve: |app, conversation| Box::pin(connection::converse(app, conversation)),
});

/// What it can be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// It is encrypted.
    pub tls: bool,
    /// The namespace of database 0. That of database 3 is this, `-` and 3.
    pub namespace: Arc<str>,
    /// How many databases there are.
    pub databases: u32,
    /// Largest command.
    pub command_bytes_max: usize,
    /// Most commands of one connection that are answered together; more wait until these are answered.
    pub pipeline_max: usize,
    /// Time limit for a client to authenticate.
    pub auth_timeout: Duration,
    /// How long a client may be silent; `None`: as long as it is there.
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

    /// The namespace of a database.
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

/// Nobody asks it anything by HTTP.
pub(super) fn refuse(_: &App, denied: Denied) -> Response {
    (StatusCode::NOT_FOUND, denied.to_string()).into_response()
}
