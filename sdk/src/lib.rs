//! A client for the Leasehold lock server. Its locks are renewed automatically, and it reports when one is lost.
//!
//! ```no_run
//! # async fn work() {}
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! let client = leasehold::Client::new("http://127.0.0.1:8080")?;
//! let guard = client.lock("orders").wait(Duration::from_secs(60)).acquire().await?;
//! tokio::select! {
//!     biased;
//!     lost = guard.lost() => return Err(lost.into()),
//!     () = work() => {}
//! }
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Client`] has every call of the native API, with the types in [`api`]. Each [`Error`] reports whether to retry
//!   and whether the request might have taken effect.
//! - [`Client::lock`] acquires a lock and returns a [`LockGuard`]. It waits in the queue across broken connections,
//!   renews in the background after a third of the TTL, and completes [`lost`](LockGuard::lost) in time.
//! - [`LockRequest::run`] runs a closure while it holds a lock, and releases the lock however the closure ends.
//! - [`Client::locks`] acquires several locks together and returns a [`MultiGuard`]. It also has a
//!   [`run`](LocksRequest::run).
//! - [`Client::session`] acquires many locks with one keep-alive.
//! - [`Client::watch`] streams lock events, and reports when events might be missing.
//! - [`Client::election`] elects one leader at a time, and returns who it is.
//! - [`blocking`] has all of this for programs without async.
//! - [`FencingGate`] is for the resource that a lock protects: it rejects writes that come too late.
//!
//! # Time
//!
//! A deadline is the time at which a request was *sent*, plus the lease duration in the response, less 1 % for clock
//! drift, less a margin to act in. So it comes before the lease ends at the server, however long the response took.
//! The [clock] keeps counting while the machine is suspended. The wall clock is not used.
//!
//! # What is not guaranteed
//!
//! That your code stops in time. A process can be paused anywhere, even between checking its lock and writing. The
//! lock keeps other clients out until the lease ends; after that, only a fencing token that the resource checks stops
//! the late writer. See [`LockGuard`] for the guarantees and [`FencingGate`] for the rest.
//!
//! Everything runs on tokio. Renewals are a task of the runtime in which the lock was acquired. A URL is `https://`,
//! `http://` or `unix:/path`. An API key is not sent over plain HTTP to another machine unless
//! [`ClientBuilder::insecure`] allows it, and redirects are never followed. The client logs to `tracing`: a span for
//! each acquire, and an event for each failed renewal, each lost lock and each lock that could not be released.

mod address;
pub mod blocking;
mod call;
mod client;
pub mod clock;
mod election;
mod error;
mod event;
mod failover;
mod farewell;
mod gate;
mod group;
mod guard;
mod heartbeat;
mod place;
mod random;
mod request;
mod retry;
mod secret;
mod sentinel;
mod session;
mod socket;
mod sse;
mod stream;
mod tenure;
mod terms;
mod tls;
mod transport;

pub use call::{HistoryQuery, ListQuery, Standing};
pub use client::{Client, ClientBuilder};
pub use clock::Moment;
pub use election::{Election, Leader, Leadership, Observer};
pub use error::Error;
pub use event::{Events, Watched};
pub use gate::{FencingGate, Stale};
pub use group::{LocksRequest, MultiGuard};
pub use guard::LockGuard;
pub use leasehold_api as api;
pub use request::LockRequest;
pub use retry::Retry;
pub use session::{Session, SessionRequest};
pub use stream::EventStream;
pub use tenure::Lost;

/// Compiles the examples in the README with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
