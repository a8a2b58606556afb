//! Leasehold as it is shipped: all dialects, metrics, everything on disk.

use std::path::Path;
use std::process::Command;

use super::http::{Connection, cut};
use super::process::{self, Process};
use super::{Client, Peer};

const WAIT_MS: u64 = 60_000;

pub(crate) struct Leasehold {
    pub(crate) process: Process,
}

impl Leasehold {
    pub(crate) fn start(data: &Path, binary: &str) -> Self {
        Self::start_in(&process::empty(data, "leasehold"), binary)
    }

    /// On what is in `folder` already.
    pub(crate) fn start_in(folder: &Path, binary: &str) -> Self {
        let address = process::free_address();
        let mut command = Command::new(binary);
        command.arg("serve").arg(format!("--listen={address}"));
        command.arg("--data").arg(folder.join("data"));
        Self { process: Process::start(command, address, folder) }
    }
}

impl Peer for Leasehold {
    type Client = LeaseholdClient;

    fn name(&self) -> &'static str {
        "leasehold"
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    async fn connect(&self, n: usize) -> LeaseholdClient {
        let connection = Connection::open(self.process.address).await;
        LeaseholdClient { connection, n, proof: String::new() }
    }
}

pub(crate) struct LeaseholdClient {
    pub(crate) connection: Connection,
    pub(crate) n: usize,
    /// Owner, lease and token of what was taken last, as JSON members.
    pub(crate) proof: String,
}

impl LeaseholdClient {
    async fn take(&mut self, key: &str, more: &str) {
        let body = format!("{{\"owner_id\":\"c{}\",\"ttl_ms\":60000{more}}}", self.n);
        let (status, answer) =
            self.connection.post(&format!("/v1/locks/{key}/acquire"), &body).await;
        assert_eq!(status, 200, "{answer}");
        let id = cut(answer, "\"lease_id\":\"", '"');
        let token = cut(answer, "\"fencing_token\":", ',');
        self.proof =
            format!("\"owner_id\":\"c{}\",\"lease_id\":\"{id}\",\"fencing_token\":{token}", self.n);
    }

    /// Renews what was taken, by its proof.
    pub(crate) async fn renew(&mut self, key: &str, proof: &str) {
        let body = format!("{{{proof},\"extend_by_ms\":60000}}");
        let (status, answer) = self.connection.post(&format!("/v1/locks/{key}/renew"), &body).await;
        assert_eq!(status, 200, "{answer}");
    }
}

impl Client for LeaseholdClient {
    async fn acquire(&mut self, key: &str) {
        self.take(key, "").await;
    }

    async fn release(&mut self, key: &str) {
        let body = format!("{{{}}}", self.proof);
        let (status, answer) =
            self.connection.post(&format!("/v1/locks/{key}/release"), &body).await;
        assert_eq!(status, 200, "{answer}");
    }

    async fn wait_for(&mut self, key: &str) {
        self.take(key, &format!(",\"wait_ms\":{WAIT_MS}")).await;
    }
}
