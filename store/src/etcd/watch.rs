//! Reads keys that tell the leader to step down: whether an operator requested another leader, and whether the other
//! servers can reach this one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_base::pace;
use leasehold_base::sync::lock;
use leasehold_etcd::{Error, KeyValue, Op, RangeRequest, Txn, TxnResponse, When};

use super::cluster::Cluster;
use super::guard::Tenure;
use super::handover::{BackOff, Judgement, Other, Reports};
use super::keys::Keys;
use super::value::{Drained, NodeValue};
use crate::{Dismissal, Health};

/// The positions of the results in the response.
const DRAINS: usize = 0;
const NODES: usize = 1;
const PAUSE: usize = 2;

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
            .then(Op::GetRange(nodes.0, nodes.1, 0))
            .then(Op::Get(self.keys.pause()));
        let answer = cluster.txn(txn.request())?;
        let judgement = self.reports.judge(pace::now(), &self.others(&answer));
        self.note(&judgement, health);
        let found = answer.found_all(DRAINS).iter().find(|found| found.key == own_drain);
        if let Some(found) = found {
            let is_own_word = found.value == Drained::Unreached.word().as_bytes();
            if is_own_word {
                // The response to the put was lost.
                lock(&back_off).hands_over(pace::now());
                self.handed_over = Some(Dismissal::Unreached(judgement.unreached_by));
            }
            let by_operator = || Some(Dismissal::ByOperator);
            return Ok(self.handed_over.clone().or_else(by_operator));
        }
        // While the servers are paused, none would take over.
        if !judgement.hands_over || answer.found(PAUSE).is_some() {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::MutexGuard;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use leasehold_etcd::{
        Kind, LeaseGrantResponse, RangeResponse, Request, Response, ResponseOp, TxnRequest,
    };

    use super::*;

    /// Keys and their values, without revisions and conditions.
    #[derive(Default)]
    struct Keyed {
        all: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
        /// Responses to writes are lost.
        loses: AtomicBool,
    }

    impl Keyed {
        fn put(&self, key: Vec<u8>, value: &str) {
            lock(&self.all).insert(key, value.into());
        }
    }

    impl Cluster for Keyed {
        fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
            let end = match request.range_end {
                end if end.is_empty() => [&request.key[..], b"\0"].concat(),
                end => end,
            };
            let kv = |(key, value): (&Vec<u8>, &Vec<u8>)| KeyValue {
                key: key.clone(),
                value: value.clone(),
                ..KeyValue::default()
            };
            let kvs = lock(&self.all).range(request.key..end).map(kv).collect();
            Ok(RangeResponse { kvs, ..RangeResponse::default() })
        }

        fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error> {
            let mut answer = TxnResponse { succeeded: true, ..TxnResponse::default() };
            for op in request.success {
                let response = match op.request {
                    Some(Request::Range(range)) => Some(Response::Range(self.range(range)?)),
                    Some(Request::Put(put)) => {
                        lock(&self.all).insert(put.key, put.value);
                        if self.loses.load(Relaxed) {
                            return Err(Error::new(Kind::Unknown, "the test", "it is lost"));
                        }
                        None
                    }
                    _ => None,
                };
                answer.responses.push(ResponseOp { response });
            }
            Ok(answer)
        }

        fn lease_grant(&self, ttl: i64) -> Result<LeaseGrantResponse, Error> {
            Ok(LeaseGrantResponse { id: 1, ttl, ..LeaseGrantResponse::default() })
        }

        fn lease_keep_alive(&self, _: i64) -> Result<i64, Error> {
            Ok(1)
        }

        fn lease_revoke(&self, _: i64) -> Result<(), Error> {
            Ok(())
        }

        fn compact(&self, _: i64) -> Result<(), Error> {
            Ok(())
        }

        fn n_members(&self) -> usize {
            1
        }

        fn wait(&self, _: Duration) {}
    }

    const SEAT: i64 = 7;

    /// Returns a leader, n1, that its only follower, n2, has not reached for a minute. Tests take turns, because a log
    /// line that one test writes first, without a subscriber, stays off for the subscriber of another test.
    fn unreached() -> (MutexGuard<'static, ()>, Keyed, Keys, Watch) {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = lock(&TURN);
        let (cluster, keys) = (Keyed::default(), Keys::new("test"));
        let report = format!(
            r#"{{"instance":"i","process":"p","address":"http://n2","peer":"","version":"1","formats":[1],"seq":1,
                "unreached":{{"leader":"n1","seat":{SEAT},"why":"unreachable","for_ms":60000,"run":1}}}}"#
        );
        cluster.put(keys.node("n2"), &report);
        let tenure = Tenure { created_at: SEAT, value: Vec::new() };
        let watch = Watch::new(keys.clone(), "n1", &tenure, Some(Arc::default()));
        (turn, cluster, keys, watch)
    }

    fn by_n2() -> Option<Dismissal> {
        Some(Dismissal::Unreached(vec!["n2".into()]))
    }

    #[test]
    fn a_leader_does_not_hand_over_while_the_servers_are_paused() {
        let (_turn, cluster, keys, mut watch) = unreached();
        let health = Health::default();
        cluster.put(keys.pause(), "paused");
        assert_eq!(watch.look(&cluster, &health).ok(), Some(None));
        assert_eq!(health.pulse().unreached_by(), 1, "it says so all the same");
        assert!(!lock(&cluster.all).contains_key(&keys.drain("n1")));
        lock(&cluster.all).remove(&keys.pause());
        assert_eq!(watch.look(&cluster, &health).ok(), Some(by_n2()));
        assert_eq!(lock(&cluster.all).get(&keys.drain("n1")), Some(&b"handed-over".to_vec()));
    }

    /// Collects the log lines of a leader.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_leader_logs_which_servers_cannot_reach_it_and_that_it_hands_over() {
        let (_turn, cluster, _, mut watch) = unreached();
        let lines = Lines::default();
        let sink = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || sink.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            assert_eq!(watch.look(&cluster, &Health::default()).ok(), Some(by_n2()));
        });
        let logged = String::from_utf8_lossy(&lock(&lines.0)).into_owned();
        for words in ["n2", "they cannot reach this leader", "this leader; handing over"] {
            assert!(logged.contains(words), "{words}: {logged}");
        }
    }

    #[test]
    fn a_leader_that_an_operator_drains_steps_down_also_while_the_servers_are_paused() {
        let (_turn, cluster, keys, mut watch) = unreached();
        cluster.put(keys.pause(), "paused");
        cluster.put(keys.drain("n1"), "step-down");
        let looked = watch.look(&cluster, &Health::default());
        assert_eq!(looked.ok(), Some(Some(Dismissal::ByOperator)));
    }

    #[test]
    fn a_leader_that_hands_over_says_why_also_if_the_response_of_etcd_is_lost() {
        let (_turn, cluster, _, mut watch) = unreached();
        let health = Health::default();
        cluster.loses.store(true, Relaxed);
        assert!(watch.look(&cluster, &health).is_err());
        cluster.loses.store(false, Relaxed);
        assert_eq!(watch.look(&cluster, &health).ok(), Some(by_n2()));
    }
}
