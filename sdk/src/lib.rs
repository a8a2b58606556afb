//! A client of the lock server Leasehold: locks that renew themselves, and say when they are lost.
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
//! - [`Client`] has every call of the native dialect, with the types of [`api`]. Each [`Error`] says whether to
//!   try again and whether it may have taken effect.
//! - [`Client::lock`] asks for a lock and gives a [`LockGuard`]: it waits in the queue over broken connections,
//!   renews in the background at a third of the ttl, and completes [`lost`](LockGuard::lost) in time.
//! - [`LockRequest::run`] does a piece of work under a lock and gives it back in every way out.
//! - [`Client::locks`] asks for several locks or none and gives a [`MultiGuard`], and has a
//!   [`run`](LocksRequest::run) too.
//! - [`Client::session`] is the same for many locks with one keep-alive.
//! - [`Client::watch`] tells what happens to locks, and when it cannot be sure to have told all.
//! - [`Client::election`] has one leader at a time, and tells who it is.
//! - [`blocking`] is all of that for programs without async.
//! - [`FencingGate`] is for the other side: what is protected refuses what comes too late.
//!
//! # Time
//!
//! A deadline is the time at which a request was *sent*, plus what the server gave for it, less 1 % because clocks
//! drift, less a margin to act in. So it comes before the end of the lease at the server, however long the answer
//! took. The [clock] goes on while the machine is suspended. The wall clock decides nothing.
//!
//! # What is not promised
//!
//! That you stop in time. A process can be paused anywhere, also between finding its lock held and writing. The
//! lock tells everybody else; only a fencing token, checked by what is written to, tells the late writer. See
//! [`LockGuard`] for the promises and [`FencingGate`] for the rest.
//!
//! Everything runs on tokio; renewals are a task of the runtime in which the lock was acquired. A URL is
//! `https://`, `http://` or `unix:/path`. An API key is not sent over plain HTTP to another machine unless
//! [`ClientBuilder::insecure`] says so, and redirects are never followed. What happens is told to `tracing`: a span for
//! each acquire, an event for a renewal that failed, a lock that was lost and one that was not given back.

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

/// The example of the README is tried with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
