//! Who is measured: each a real server of its own process, asked through its own protocol.

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

/// Roles this very program plays when it is started as a peer.
pub(crate) fn play(role: &str, data: &Path) {
    match role {
        "hello" => hello::serve(),
        "naive" => naive::serve(data),
        _ => panic!("no peer is called {role}"),
    }
}

/// A server that is running. Dropped, it is stopped.
pub(crate) trait Peer {
    /// One connection to it.
    type Client: Client;

    /// What tables call it.
    fn name(&self) -> &'static str;

    /// Its process, for its memory.
    fn pid(&self) -> u32;

    /// All processes that answer, for their processor time.
    fn pids(&self) -> Vec<u32> {
        vec![self.pid()]
    }

    /// A new connection, of its own.
    async fn connect(&self, n: usize) -> Self::Client;
}

/// One connection. One request at a time, no pipelining.
pub(crate) trait Client {
    /// Takes a lock nobody else wants. Panics if it is refused: then the measurement means nothing.
    async fn acquire(&mut self, key: &str);

    /// Gives back what was taken last.
    async fn release(&mut self, key: &str);

    /// Takes a lock everybody wants, however the server has one wait for it.
    async fn wait_for(&mut self, key: &str) {
        self.acquire(key).await;
    }
}
