//! Metrics of a server that is part of a cluster. Other servers do not have them.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::{Book, NoLabels};
use leasehold_store::{Pulse, Room};

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct RoleLabel {
    role: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ChangeLabel {
    change: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// A gauge that is shown only once it has a value.
type OptionalGauge = Family<NoLabels, Gauge>;

/// A change of leadership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// This server became the leader.
    Taken,
    /// Another server took over, or the leader's lease expired.
    Lost,
    /// This leader handed over because other servers could not reach it.
    HandedOver,
}

/// How a journal record of unknown outcome was resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resolved {
    /// The record is durable.
    Durable,
    /// The record is lost, or another server took over and knows its outcome.
    Lost,
    /// The clients were told that the outcome is unknown.
    Told,
}

/// Buckets in seconds: 50 microseconds, doubling up to about half a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 2.0, 20))
}

/// The metrics of a cluster member.
pub struct ClusterMetrics {
    role: Family<RoleLabel, Gauge>,
    epoch: OptionalGauge,
    changes: Family<ChangeLabel, Counter>,
    nodes: OptionalGauge,
    lag: OptionalGauge,
    behind: OptionalGauge,
    seen: OptionalGauge,
    confirms: Family<NoLabels, Histogram, fn() -> Histogram>,
    unknowns: Family<OutcomeLabel, Counter>,
    kept: OptionalGauge,
    unreached: OptionalGauge,
    unreached_by: OptionalGauge,
    snapshot: OptionalGauge,
    space: [OptionalGauge; SPACE.len()],
}

/// Name and description of the gauges in [`ClusterMetrics::space`], in the same order. They are named after the first
/// shared store, because dashboards use these names.
const SPACE: [(&str, &str); 5] = [
    ("leasehold_etcd_bytes", "Bytes of the largest database file of an etcd member"),
    ("leasehold_etcd_bytes_in_use", "Bytes in use in the database file of the fullest etcd member"),
    ("leasehold_etcd_quota_bytes", "Bytes that etcd can use: the smallest quota of a member"),
    ("leasehold_etcd_alarms", "Alarms of etcd members"),
    ("leasehold_etcd_silent_members", "etcd members that did not respond to the last check"),
];

impl ClusterMetrics {
    pub(crate) fn registered(r: &mut Book) -> Self {
        let this = Self {
            role: Family::default(),
            epoch: Family::default(),
            changes: Family::default(),
            nodes: Family::default(),
            lag: Family::default(),
            behind: Family::default(),
            seen: Family::default(),
            confirms: Family::new_with_constructor(seconds),
            unknowns: Family::default(),
            kept: Family::default(),
            unreached: Family::default(),
            unreached_by: Family::default(),
            snapshot: Family::default(),
            space: Default::default(),
        };
        let about = "Whether this server is the leader of its cluster, or a follower";
        r.add("leasehold_cluster_role", about, this.role.clone());
        let about = "Leader changes, as of the last record that this server wrote";
        r.add("leasehold_cluster_epoch", about, this.epoch.clone());
        let about =
            "How often this server became leader, lost leadership, and handed over as unreachable";
        r.add("leasehold_cluster_changes", about, this.changes.clone());
        let about = "Servers of the cluster at the last check";
        r.add("leasehold_cluster_nodes", about, this.nodes.clone());
        let about = "Records that this server has not read yet";
        r.add("leasehold_cluster_lag_records", about, this.lag.clone());
        let about = "Time since this server had read all records";
        r.add("leasehold_cluster_lag_seconds", about, this.behind.clone());
        let about =
            "Time since the last response of the store that this server needs to lead or follow";
        r.add("leasehold_cluster_seen_seconds", about, this.seen.clone());
        let about = "Time to confirm with the store that this server has read all records";
        r.add("leasehold_cluster_confirm_seconds", about, this.confirms.clone());
        let about = "Records with an unknown outcome, by their final outcome";
        r.add("leasehold_cluster_unknowns", about, this.unknowns.clone());
        let about = "Time since the store last accepted a renewal of the leader key";
        r.add("leasehold_cluster_keep_alive_seconds", about, this.kept.clone());
        let about = "Time since this follower last reached the leader; only while it cannot";
        r.add("leasehold_cluster_unreached_seconds", about, this.unreached.clone());
        let about = "Servers that report that they cannot reach this leader";
        r.add("leasehold_cluster_unreached_by", about, this.unreached_by.clone());
        let about = "Age of the data in the latest snapshot";
        r.add("leasehold_cluster_snapshot_seconds", about, this.snapshot.clone());
        for (gauge, (name, about)) in this.space.iter().zip(SPACE) {
            r.add(name, about, gauge.clone());
        }
        this
    }

    /// Records that this server leads in this epoch, or follows.
    pub(crate) fn leads(&self, epoch: Option<u64>) {
        self.is(epoch.is_some(), epoch.is_none());
        if let Some(epoch) = epoch {
            self.epoch.get_or_create(&[]).set(epoch as i64);
        }
    }

    /// Records that the store does not confirm this leader, so it neither leads nor follows.
    pub(crate) fn is_unconfirmed(&self) {
        self.is(false, false);
    }

    fn is(&self, leader: bool, follower: bool) {
        for (role, is) in [("leader", leader), ("follower", follower)] {
            self.role.get_or_create(&RoleLabel { role }).set(is.into());
        }
    }

    /// How often the leader has changed, as of the last record this server wrote.
    pub fn epoch(&self) -> Option<u64> {
        let epoch = self.epoch.get(&[]).map(|epoch| epoch.get());
        epoch.and_then(|epoch| u64::try_from(epoch).ok())
    }

    /// Records how many servers share the store.
    pub fn has_nodes(&self, n: usize) {
        self.nodes.get_or_create(&[]).set(n as i64);
    }

    pub(crate) fn count(&self, turn: Turn) {
        let change = match turn {
            Turn::Taken => "taken",
            Turn::Lost => "lost",
            Turn::HandedOver => "handed_over",
        };
        self.changes.get_or_create(&ChangeLabel { change }).inc();
    }

    pub(crate) fn confirmed(&self, took: Duration) {
        self.confirms.get_or_create(&[]).observe(took.as_secs_f64());
    }

    pub(crate) fn resolved(&self, how: Resolved) {
        let outcome = match how {
            Resolved::Durable => "durable",
            Resolved::Lost => "lost",
            Resolved::Told => "told_unknown",
        };
        self.unknowns.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Updates the gauges that are computed only when metrics are read.
    pub(crate) fn observe(&self, pulse: &Pulse, room: Room, wall_ms: i64) {
        let show = |gauge: &OptionalGauge, value: u64| {
            gauge.get_or_create(&[]).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        let seconds = |gauge: &OptionalGauge, age: Option<Duration>| match age {
            Some(age) => show(gauge, age.as_secs()),
            None => gauge.clear(),
        };
        let Some(seen) = pulse.seen_age() else { return };
        seconds(&self.seen, Some(seen));
        show(&self.lag, pulse.lag());
        seconds(&self.behind, pulse.whole_age());
        seconds(&self.kept, pulse.kept_age());
        seconds(&self.unreached, pulse.unreached().map(|unreached| unreached.span));
        match pulse.kept_age() {
            Some(_) => show(&self.unreached_by, pulse.unreached_by()),
            None => self.unreached_by.clear(),
        }
        seconds(&self.snapshot, pulse.snapshot_age(wall_ms));
        if room.quota > 0 {
            let Room { n_bytes, n_bytes_in_use, quota, n_alarms, n_silent, .. } = room;
            let known = [n_bytes, n_bytes_in_use, quota, n_alarms, n_silent];
            self.space.iter().zip(known).for_each(|(gauge, value)| show(gauge, value));
        }
    }
}
