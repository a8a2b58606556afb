//! What only the server itself needs, beside the state that all handlers share ([`App`]).

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use leasehold_auth::Caller;
use leasehold_engine::Mailbox;

use crate::app::{App, Following};
use crate::cluster::roster::Roster;
use crate::console::{self, Notices, Samples};
use crate::http::request::Arrival;
use crate::peer::{Peers, Relay};
use crate::trace::Tracer;

/// One server, as the request pipeline and the console see it. Cheap to clone.
#[derive(Clone)]
pub struct Host(Arc<Shared>);

/// What the clones of a host share.
#[derive(Clone)]
pub struct Shared {
    app: App,
    /// Creates trace spans; `None` if tracing is off.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// Forwards requests to the leader; `None` without a cluster.
    pub(crate) relay: Option<Arc<Relay>>,
    /// The servers of the cluster; `None` without a cluster.
    pub(crate) roster: Option<Arc<Roster>>,
    /// Samples of recent activity, for charts.
    pub(crate) samples: Arc<Samples>,
    /// Notices that the next page of a user shows once.
    pub(crate) notices: Arc<Notices>,
}

impl From<App> for Host {
    fn from(app: App) -> Self {
        let app = app.with_pages(console::shown);
        Self(Arc::new(Shared {
            app,
            tracer: None,
            relay: None,
            roster: None,
            samples: Arc::default(),
            notices: Arc::default(),
        }))
    }
}

impl Host {
    /// Sets the other servers of the cluster; `None` without a cluster.
    pub(crate) fn with_peers(self, peers: Option<Arc<Peers>>, roster: Option<Arc<Roster>>) -> Self {
        let relay = peers.map(|peers| Arc::new(Relay::new(peers)));
        let shared = Shared::clone(&self.0);
        Self(Arc::new(Shared { roster, ..shared.with_relay(relay) }))
    }

    /// Sets the tracer; `None` turns tracing off.
    pub(crate) fn with_tracer(self, tracer: Option<Arc<Tracer>>) -> Self {
        Self(Arc::new(Shared { tracer, ..Shared::clone(&self.0) }))
    }

    /// Clones the state for a worker thread, without reference counts shared between threads. The thread must run the
    /// mailbox.
    pub(crate) fn for_thread(&self) -> (Self, Mailbox) {
        let (app, mailbox) = self.app.for_thread();
        let relay = self.relay.as_ref().map(|relay| Arc::new(relay.another()));
        let shared = Shared { app, ..Shared::clone(&self.0) };
        (Self(Arc::new(shared.with_relay(relay))), mailbox)
    }
}

impl Shared {
    fn with_relay(self, relay: Option<Arc<Relay>>) -> Self {
        let following = relay.clone().map(|relay| relay as Arc<dyn Following>);
        Self { app: self.app.with_following(following), relay, ..self }
    }
}

impl Deref for Host {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Deref for Shared {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl FromRef<Host> for App {
    fn from_ref(host: &Host) -> Self {
        host.app.clone()
    }
}

impl FromRequestParts<Host> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Host) -> Result<Self, Infallible> {
        Ok(Arrival::of(parts).caller.clone())
    }
}
