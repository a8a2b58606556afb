//! Reads from etcd, in addition to the leader's seat, whether an operator asked for another leader, and whether the
//! other servers can reach this one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_etcd::{Error, KeyValue, Op, RangeRequest, Txn, TxnResponse, When};

use super::cluster::Cluster;
use super::guard::Tenure;
use super::handover::{BackOff, Judgement, Other, Reports};
use super::keys::Keys;
use super::value::{Drained, NodeValue};
use crate::pace;
use crate::store::{Dismissal, Health};
use crate::sync::lock;

/// The positions of the results in the response.
const DRAINS: usize = 0;
const NODES: usize = 1;

/// The watch of one leader.
pub(super) struct Watch {
    keys: Keys,
    node: Box<str>,
    tenure: Tenure,
    /// How long it does not lead again after a handover; `None` if there are no other servers.
    back_off: Option<Arc<Mutex<BackOff>>>,
    reports: Reports,
    /// The servers that could not reach it at the last check.
    unreached_by: Vec<String>,
    handed_over: Option<Dismissal>,
}

impl Watch {
    pub(super) fn new(
        keys: Keys,
        node: &str,
        tenure: &Tenure,
        back_off: Option<Arc<Mutex<BackOff>>>,
    ) -> Self {
        Self {
            keys,
            node: node.into(),
            tenure: tenure.clone(),
            back_off,
            reports: Reports::default(),
            unreached_by: Vec::new(),
            handed_over: None,
        }
    }

    /// Returns why another server has to lead, if so.
    pub(super) fn look(
        &mut self,
        cluster: &dyn Cluster,
        health: &Health,
    ) -> Result<Option<Dismissal>, Error> {
        if self.handed_over.is_some() {
            return Ok(self.handed_over.clone());
        }
        let own_drain = self.keys.drain(&self.node);
        let Some(back_off) = self.back_off.clone() else {
            let found = cluster.range(RangeRequest { key: own_drain, ..Default::default() })?;
            return Ok((!found.kvs.is_empty()).then_some(Dismissal::ByOperator));
        };
        let [drains, nodes] = [self.keys.drains(), self.keys.nodes()];
        let txn = Txn::default()
            .then(Op::GetRange(drains.0, drains.1, 0))
            .then(Op::GetRange(nodes.0, nodes.1, 0));
        let answer = cluster.txn(txn.request())?;
        if answer.found_all(DRAINS).iter().any(|found| found.key == own_drain) {
            return Ok(Some(Dismissal::ByOperator));
        }
        let judgement = self.reports.judge(pace::now(), &self.others(&answer));
        self.note(&judgement, health);
        if !judgement.hands_over {
            return Ok(None);
        }
        let mut next = *lock(&back_off);
        let span = next.hands_over(pace::now());
        self.do_not_lead(cluster, own_drain, span)?;
        *lock(&back_off) = next;
        let by = judgement.unreached_by;
        tracing::error!(
            unreached_by = %by.join(", "),
            n_others = judgement.n_others,
            back_off_s = span.as_secs(),
            "most other servers cannot reach this leader; handing over"
        );
        self.handed_over = Some(Dismissal::Unreached(by));
        Ok(self.handed_over.clone())
    }

    /// Returns the other servers that are present. A key that cannot be read does not count as a server.
    fn others(&self, answer: &TxnResponse) -> Vec<Other> {
        let drains = answer.found_all(DRAINS);
        let other = |found: &KeyValue| {
            let node = self.keys.name_under("node", &found.key)?.to_owned();
            let value: NodeValue = serde_json::from_slice(&found.value).ok()?;
            let is_drained = drains.iter().any(|drain| drain.key == self.keys.drain(&node));
            let report = value.unreached.filter(|report| report.seat == self.tenure.created_at);
            let unreached = report.map(|report| Duration::from_millis(report.for_ms));
            let may_lead = !value.never_leads && !is_drained;
            (*node != *self.node).then_some(Other { node, unreached, may_lead })
        };
        answer.found_all(NODES).iter().filter_map(other).collect()
    }

    /// Logs which servers cannot reach this leader, when that changes.
    fn note(&mut self, judgement: &Judgement, health: &Health) {
        let by = &judgement.unreached_by;
        health.pulse().not_reached_by(by.len());
        if *by == self.unreached_by {
            return;
        }
        match by.is_empty() {
            true => tracing::info!("every other server can reach this leader again"),
            false => tracing::warn!(
                unreached_by = %by.join(", "),
                n_others = judgement.n_others,
                "other servers report that they cannot reach this leader"
            ),
        }
        self.unreached_by.clone_from(by);
    }

    /// Keeps this server from leading for a while, so that another server can take over.
    fn do_not_lead(
        &self,
        cluster: &dyn Cluster,
        key: Vec<u8>,
        span: Duration,
    ) -> Result<(), Error> {
        let lease = cluster.lease_grant(i64::try_from(span.as_secs()).unwrap_or(i64::MAX))?.id;
        let put = Op::Put(key.clone(), Drained::Unreached.word().into(), lease);
        // An operator might have written the key in the meantime.
        let txn = Txn::default().when(key, When::Absent).then(put);
        cluster.txn(txn.request()).map(drop)
    }
}
