//! The peers that are measured: each is a real server in a separate process, with its own protocol.

mod cluster;
mod etcd;
mod hello;
mod http;
mod http2;
mod leasehold;
mod naive;
mod postgres;
mod process;
mod redis;
mod resp;
mod secured;

use std::path::Path;

pub(crate) use cluster::{EtcdLock, LeaseholdOnEtcd, Members};
pub(crate) use etcd::Etcd;
pub(crate) use hello::Hello;
pub(crate) use http::Connection;
pub(crate) use leasehold::{Leasehold, LeaseholdHttp2};
pub(crate) use naive::Naive;
pub(crate) use postgres::Rows;
pub(crate) use redis::{Redis, Sync};
pub(crate) use resp::Resp;
pub(crate) use secured::{LeaseholdAudit, LeaseholdCredential, LeaseholdTls};

/// Runs this program as one of the peers.
pub(crate) fn play(role: &str, data: &Path) {
    match role {
        "hello" => hello::serve(),
        "naive" => naive::serve(data),
        _ => panic!("no peer is called {role}"),
    }
}

/// A running server, which is stopped when dropped.
pub(crate) trait Peer {
    /// A connection to the server.
    type Client: Client;

    /// Returns the name of the peer in tables.
    fn name(&self) -> &'static str;

    /// Returns the id of the process whose memory is measured.
    fn pid(&self) -> u32;

    /// Returns the ids of all processes whose processor time is measured.
    fn pids(&self) -> Vec<u32> {
        vec![self.pid()]
    }

    /// Returns a new client with the number `n`.
    async fn connect(&self, n: usize) -> Self::Client;
}

/// A connection with one request at a time, without pipelining.
pub(crate) trait Client {
    /// Acquires a lock that no other client wants. Panics if it is refused, because the measurement would mean nothing.
    async fn acquire(&mut self, key: &str);

    /// Releases the lock that was acquired last.
    async fn release(&mut self, key: &str);

    /// Acquires a lock that all clients want, with the kind of waiting that the server offers.
    async fn wait_for(&mut self, key: &str) {
        self.acquire(key).await;
    }
}
