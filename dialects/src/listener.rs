//! Dedicated listeners, for dialects that are not HTTP.

use std::pin::Pin;
use std::time::Duration;

use super::{Dialect, Options};
use crate::app::App;
use crate::http::{Conversation, Listen};

/// The listener of a dialect that does not use HTTP.
#[derive(Clone, Copy)]
pub struct Listener {
    /// The dialect.
    pub dialect: Dialect,
    /// Returns the configured listen address, if there is one, and whether it uses TLS (with `https`).
    pub address: fn(&Options) -> Option<Listen>,
    /// Returns how long a client can be silent before its connection is closed; `None` for no limit.
    pub idle_timeout: fn(&Options) -> Option<Duration>,
    /// Serves one connection until it ends.
    pub serve: fn(App, Conversation) -> Serving,
}

/// The future that serves a connection.
pub(super) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;
