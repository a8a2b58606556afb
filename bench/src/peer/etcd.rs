//! etcd: a lock is a key that one transaction creates, with a lease; its revision is the token.

use std::path::Path;
use std::process::Command;

use etcd_client::{
    Client as EtcdConnection, Compare, CompareOp, LockOptions, PutOptions, Txn, TxnOp,
};

use super::process::{self, Process};
use super::{Client, Peer};

pub(crate) struct Etcd {
    process: Process,
}

impl Etcd {
    pub(crate) fn start(data: &Path) -> Self {
        let folder = process::empty(data, "etcd");
        let (address, peers) = (process::free_address(), process::free_address());
        let (clients, peers) = (format!("http://{address}"), format!("http://{peers}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(folder.join("data"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("default={peers}")]);
        command.args(["--log-level", "error", "--quota-backend-bytes", "8589934592"]);
        Self { process: Process::start(command, address, &folder) }
    }
}

impl Peer for Etcd {
    type Client = EtcdClient;

    fn name(&self) -> &'static str {
        "etcd"
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    async fn connect(&self, _: usize) -> EtcdClient {
        let address = self.process.address.to_string();
        let mut connection = EtcdConnection::connect([address], None).await.expect("a connection");
        let lease = connection.lease_grant(600, None).await.expect("a lease").id();
        EtcdClient { connection, lease, held: Vec::new() }
    }
}

pub(crate) struct EtcdClient {
    connection: EtcdConnection,
    lease: i64,
    /// The key of the lock that `wait_for` acquired.
    held: Vec<u8>,
}

impl Client for EtcdClient {
    async fn acquire(&mut self, key: &str) {
        let put = PutOptions::new().with_lease(self.lease);
        let transaction = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key, "held", Some(put))]);
        let answer = self.connection.txn(transaction).await.expect("an answer");
        assert!(answer.succeeded());
    }

    async fn release(&mut self, key: &str) {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.connection.unlock(held).await.expect("an answer");
            return;
        }
        let transaction = Txn::new()
            .when([Compare::lease(key, CompareOp::Equal, self.lease)])
            .and_then([TxnOp::delete(key, None)]);
        let answer = self.connection.txn(transaction).await.expect("an answer");
        assert!(answer.succeeded());
    }

    /// Uses the lock service of etcd, which has a queue.
    async fn wait_for(&mut self, key: &str) {
        let options = LockOptions::new().with_lease(self.lease);
        let answer = self.connection.lock(key, Some(options)).await.expect("an answer");
        self.held = answer.key().to_vec();
    }
}
