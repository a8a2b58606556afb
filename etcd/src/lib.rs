//! The part of etcd's version 3 protocol that a store needs, and no more.
//!
//! The messages are our own structs with etcd's field numbers, and only with the fields we use: nothing is generated.
//! One call is one try at one member with a deadline. Nothing in here repeats anything, because only whoever asked
//! knows whether asking twice is safe. After any error the next call goes to the next member.

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
