//! What is counted of a server that shares its store with others. Nothing is shown of one that does not.

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

/// A gauge that is shown once it has a value.
type Shown = Family<NoLabels, Gauge>;

/// What became of the seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// This server took it.
    Taken,
    /// Another took it, or it ran out.
    Lost,
    /// This server handed over, because the others could not reach it.
    HandedOver,
}

/// What became of a record of which it was not known at once whether it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resolved {
    /// It is.
    Durable,
    /// It is not, or another server goes on and knows.
    Lost,
    /// Those who asked for it were told that nobody knows.
    Told,
}

/// Buckets from 50 microseconds up, in seconds, doubling to about half a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 2.0, 20))
}

/// All of it.
pub struct ClusterMetrics {
    role: Family<RoleLabel, Gauge>,
    epoch: Shown,
    changes: Family<ChangeLabel, Counter>,
    nodes: Shown,
    lag: Shown,
    behind: Shown,
    seen: Shown,
    confirms: Family<NoLabels, Histogram, fn() -> Histogram>,
    unknowns: Family<OutcomeLabel, Counter>,
    kept: Shown,
    unreached: Shown,
    unreached_by: Shown,
    snapshot: Shown,
    space: [Shown; SPACE.len()],
}

/// The space that the store has left, in the order of [`ClusterMetrics::space`]. The names are those of the first
/// shared store, because dashboards use them.
const SPACE: [(&str, &str); 5] = [
    ("leasehold_etcd_bytes", "Bytes of etcd's file, of the member that has most"),
    (
        "leasehold_etcd_bytes_in_use",
        "Bytes of etcd's file that are in use, of the member that has most",
    ),
    ("leasehold_etcd_quota_bytes", "Bytes etcd may use, of the member that may use least"),
    ("leasehold_etcd_alarms", "Alarms of etcd's members"),
    (
        "leasehold_etcd_silent_members",
        "Members of etcd that did not answer this server when it last looked",
    ),
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
        let about = "Whether this server leads those that share its store, or follows";
        r.add("leasehold_cluster_role", about, this.role.clone());
        let about = "How often the leader has changed, as of the last record this server wrote";
        r.add("leasehold_cluster_epoch", about, this.epoch.clone());
        let about =
            "How often this server became leader, lost the lead, and handed over as unreachable";
        r.add("leasehold_cluster_changes", about, this.changes.clone());
        let about = "Servers that share the store and were there when this one last looked";
        r.add("leasehold_cluster_nodes", about, this.nodes.clone());
        let about = "Records that this server knows of and has not read yet";
        r.add("leasehold_cluster_lag_records", about, this.lag.clone());
        let about = "Since this server had read everything there was";
        r.add("leasehold_cluster_lag_seconds", about, this.behind.clone());
        let about = "Since the store last answered this server what it needs to lead or to follow";
        r.add("leasehold_cluster_seen_seconds", about, this.seen.clone());
        let about = "Asking the store whether what this server knows is still all there is";
        r.add("leasehold_cluster_confirm_seconds", about, this.confirms.clone());
        let about = "Records whose fate was not known at once, by what became of them";
        r.add("leasehold_cluster_unknowns", about, this.unknowns.clone());
        let about = "Since the store last took a keep-alive of this server's lead";
        r.add("leasehold_cluster_keep_alive_seconds", about, this.kept.clone());
        let about = "Since this follower last reached the leader; only while it cannot";
        r.add("leasehold_cluster_unreached_seconds", about, this.unreached.clone());
        let about = "Servers that report that they cannot reach this leader";
        r.add("leasehold_cluster_unreached_by", about, this.unreached_by.clone());
        let about = "How old what the latest snapshot has is";
        r.add("leasehold_cluster_snapshot_seconds", about, this.snapshot.clone());
        for (gauge, (name, about)) in this.space.iter().zip(SPACE) {
            r.add(name, about, gauge.clone());
        }
        this
    }

    /// This server leads, in this epoch, or follows.
    pub(crate) fn leads(&self, epoch: Option<u64>) {
        self.is(epoch.is_some(), epoch.is_none());
        if let Some(epoch) = epoch {
            self.epoch.get_or_create(&[]).set(epoch as i64);
        }
    }

    /// This server leads as far as it knows, but the store does not confirm it: it counts neither as a leader nor as a
    /// follower.
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

    /// So many servers share the store.
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

    /// What is looked up only when somebody asks.
    pub(crate) fn observe(&self, pulse: &Pulse, room: Room, wall_ms: i64) {
        let show = |gauge: &Shown, value: u64| {
            gauge.get_or_create(&[]).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        let seconds = |gauge: &Shown, age: Option<Duration>| match age {
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
