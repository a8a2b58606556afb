//! Nodes on a real etcd.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use leasehold_etcd::Options as EtcdOptions;
use leasehold_store::etcd::{self, EtcdBackend, Remote};
use leasehold_store::shared::Backend;
use leasehold_testkit::Etcd;
pub(crate) use leasehold_testkit::cluster::{Node, wait_until};
use leasehold_testkit::cluster::{StoreUnderTest, World as Shared};

pub(crate) const PREFIX: &str = "test";

/// An etcd cluster with a store in it.
pub(crate) struct World {
    pub(crate) etcd: Arc<Etcd>,
    shared: Shared,
}

impl Deref for World {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Shared {
        &mut self.shared
    }
}

/// A store in this etcd.
struct InEtcd(Arc<Etcd>);

impl StoreUnderTest for InEtcd {
    fn connect(&self) -> Arc<dyn Backend> {
        Arc::new(EtcdBackend::new(Arc::new(remote(&self.0)), PREFIX))
    }

    /// Simulates an etcd restore: the old head, and no later record.
    fn copy(&self) -> Box<dyn FnOnce() + '_> {
        let head = self.0.ctl(&["get", "--print-value-only", "/test/head"]);
        let seq: u64 =
            head.split([':', ',']).nth(1).and_then(|seq| seq.parse().ok()).expect("a head");
        Box::new(move || {
            self.0.ctl(&["put", "/test/head", head.trim()]);
            self.0.ctl(&["del", &format!("/test/j/{:016x}", seq + 1), "/test/j0"]);
            self.0.ctl(&["del", "/test/leader"]);
        })
    }
}

fn remote(etcd: &Etcd) -> Remote {
    etcd::connect(EtcdOptions::new(etcd.addresses()), PREFIX).expect("good options")
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(Etcd::start())
    }

    pub(crate) fn on(etcd: Etcd) -> Self {
        let etcd = Arc::new(etcd);
        let shared = Shared::on(InEtcd(etcd.clone()));
        Self { etcd, shared }
    }

    /// The same store for the tests that every shared store has to pass.
    pub(crate) fn shared() -> Shared {
        Self::new().shared
    }

    pub(crate) fn remote(&self) -> Remote {
        remote(&self.etcd)
    }

    /// Returns the store under another prefix.
    pub(crate) fn under(&self, prefix: &str) -> EtcdBackend {
        EtcdBackend::new(Arc::new(self.remote()), prefix)
    }
}
