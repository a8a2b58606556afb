//! A minimal client for the part of etcd's version 3 API that the store needs.
//!
//! The messages are handwritten structs with etcd's field numbers and only the fields in use; no code is generated. One
//! call is one attempt at one member, with a deadline. The client never retries, because only the caller knows whether
//! a request can safely be repeated. After an error, the next call uses the next member.

mod client;
mod credentials;
mod error;
mod link;
mod member;
mod message;
mod txn;
mod unhurried;
mod watch;

pub use client::{Client, Options, TRY_MAX};
pub use credentials::{Credentials, Password, Tls};
pub use error::{Error, Kind};
pub use message::*;
pub use txn::{Op, Txn, When};
pub use watch::Watch;
