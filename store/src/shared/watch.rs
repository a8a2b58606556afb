//! Reads entries that tell the leader to step down: whether an operator requested another leader, and whether the other
//! servers can reach this one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_base::pace;
use leasehold_base::sync::lock;

use super::backend::{Backend, BackendFailure, NodeEntry, Requests};
use super::guard::Tenure;
use super::handover::{BackOff, Judgement, Other, Reports};
use super::value::{Drained, NodeValue};
use crate::{Dismissal, Health};

/// The watch of one leader.
pub(super) struct Watch {
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
    pub(super) fn new(node: &str, tenure: &Tenure, back_off: Option<Arc<Mutex<BackOff>>>) -> Self {
        Self {
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
        backend: &dyn Backend,
        health: &Health,
    ) -> Result<Option<Dismissal>, BackendFailure> {
        if self.handed_over.is_some() {
            return Ok(self.handed_over.clone());
        }
        let requests = backend.requests()?;
        let found = requests.drained.iter().find(|(node, _)| **node == *self.node);
        let Some(back_off) = self.back_off.clone() else {
            return Ok(found.map(|_| Dismissal::ByOperator));
        };
        let judgement = self.reports.judge(pace::now(), &self.others(&requests));
        self.note(&judgement, health);
        if let Some((_, word)) = found {
            let is_own_word = word == Drained::Unreached.word();
            if is_own_word {
                // The response to the put was lost.
                lock(&back_off).hands_over(pace::now());
                self.handed_over = Some(Dismissal::Unreached(judgement.unreached_by));
            }
            let by_operator = || Some(Dismissal::ByOperator);
            return Ok(self.handed_over.clone().or_else(by_operator));
        }
        // While the servers are paused, none would take over.
        if !judgement.hands_over || requests.is_paused {
            return Ok(None);
        }
        let mut next = *lock(&back_off);
        let span = next.hands_over(pace::now());
        self.do_not_lead(backend, span)?;
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

    /// Returns the other servers that are present. An entry that cannot be read does not count as a server.
    fn others(&self, requests: &Requests) -> Vec<Other> {
        let other = |found: &NodeEntry| {
            let node = found.name.clone();
            let value: NodeValue = serde_json::from_slice(&found.value).ok()?;
            let is_drained = requests.drained.iter().any(|(drained, _)| *drained == node);
            let report = value.unreached.filter(|report| report.seat == self.tenure.number);
            let unreached = report.map(|report| Duration::from_millis(report.for_ms));
            let may_lead = !value.never_leads && !is_drained;
            (*node != *self.node).then_some(Other { node, unreached, may_lead })
        };
        requests.nodes.iter().filter_map(other).collect()
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
    fn do_not_lead(&self, backend: &dyn Backend, span: Duration) -> Result<(), BackendFailure> {
        let lease = backend.grant(i64::try_from(span.as_secs()).unwrap_or(i64::MAX))?;
        // An operator might have made a request in the meantime.
        backend.drain(&self.node, Drained::Unreached.word(), Some(lease), false)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::MutexGuard;

    use super::*;
    use crate::memory_shared::MemoryShared;
    use crate::shared::{Leadership, Servers};

    const SEAT: i64 = 7;

    fn word_of(store: &MemoryShared, node: &str) -> Option<String> {
        let drained = store.requests().expect("it answers").drained;
        drained.into_iter().find(|(name, _)| name == node).map(|(_, word)| word)
    }

    /// Returns a leader, n1, that its only follower, n2, has not reached for a minute. Tests take turns, because a log
    /// line that one test writes first, without a subscriber, stays off for the subscriber of another test.
    fn unreached() -> (MutexGuard<'static, ()>, MemoryShared, Watch) {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = lock(&TURN);
        let store = MemoryShared::new();
        let report = format!(
            r#"{{"instance":"i","process":"p","address":"http://n2","peer":"","version":"1","formats":[1],"seq":1,
                "unreached":{{"leader":"n1","seat":{SEAT},"why":"unreachable","for_ms":60000,"run":1}}}}"#
        );
        let lease = store.grant(60).expect("a lease");
        store.put_node("n2", report.as_bytes(), None, lease).expect("it is put");
        let tenure = Tenure { number: SEAT, value: Vec::new() };
        let watch = Watch::new("n1", &tenure, Some(Arc::default()));
        (turn, store, watch)
    }

    fn by_n2() -> Option<Dismissal> {
        Some(Dismissal::Unreached(vec!["n2".into()]))
    }

    #[test]
    fn a_leader_does_not_hand_over_while_the_servers_are_paused() {
        let (_turn, store, mut watch) = unreached();
        let health = Health::default();
        store.pause().expect("paused");
        assert_eq!(watch.look(&store, &health).ok(), Some(None));
        assert_eq!(health.pulse().unreached_by(), 1, "it says so all the same");
        assert_eq!(word_of(&store, "n1"), None);
        assert!(store.withdraw(None).expect("it was paused"));
        assert_eq!(watch.look(&store, &health).ok(), Some(by_n2()));
        assert_eq!(word_of(&store, "n1").as_deref(), Some("handed-over"));
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
        let (_turn, store, mut watch) = unreached();
        let lines = Lines::default();
        let sink = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || sink.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            assert_eq!(watch.look(&store, &Health::default()).ok(), Some(by_n2()));
        });
        let logged = String::from_utf8_lossy(&lock(&lines.0)).into_owned();
        for words in ["n2", "they cannot reach this leader", "this leader; handing over"] {
            assert!(logged.contains(words), "{words}: {logged}");
        }
    }

    #[test]
    fn a_leader_that_an_operator_drains_steps_down_also_while_the_servers_are_paused() {
        let (_turn, store, mut watch) = unreached();
        store.pause().expect("paused");
        store.drain("n1", "step-down", None, true).expect("requested");
        let looked = watch.look(&store, &Health::default());
        assert_eq!(looked.ok(), Some(Some(Dismissal::ByOperator)));
    }

    #[test]
    fn a_leader_that_hands_over_says_why_even_if_the_response_is_lost() {
        let (_turn, store, mut watch) = unreached();
        // An earlier attempt has taken effect, without a response.
        store.drain("n1", "handed-over", None, true).expect("requested");
        assert_eq!(watch.look(&store, &Health::default()).ok(), Some(by_n2()));
    }
}
