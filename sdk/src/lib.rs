//! A client of the lock server Leasehold.
mod call;
mod client;
pub mod clock;
mod error;
mod event;
mod gate;
mod guard;
mod heartbeat;
mod random;
mod request;
mod retry;
mod session;
mod tenure;
mod transport;

pub use call::{ListQuery, Standing};
pub use client::{Client, ClientBuilder};
pub use clock::Moment;
pub use error::Error;
pub use event::{Events, Watched};
pub use gate::{FencingGate, Stale};
pub use guard::LockGuard;
pub use leasehold_api as api;
pub use request::LockRequest;
pub use retry::Retry;
pub use session::{Session, SessionRequest};
pub use tenure::Lost;
