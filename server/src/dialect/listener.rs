//! A listener of a dialect's own, for protocols that are not HTTP.

use std::pin::Pin;
use std::time::Duration;

use super::{Dialect, Options};
use crate::app::App;
use crate::http::{Conversation, Listen};

/// What a dialect that listens on its own is made of.
#[derive(Clone, Copy)]
pub struct Listener {
    /// Which dialect it is.
    pub dialect: Dialect,
    /// Where it listens, if it was told to; encrypted, if that is like `https`.
    pub address: fn(&Options) -> Option<Listen>,
    /// How long a client may be silent; `None`: as long as it is there.
    pub idle_timeout: fn(&Options) -> Option<Duration>,
    /// Serves one connection to its end.
    pub serve: fn(App, Conversation) -> Serving,
}

/// A connection being served.
pub(super) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;
