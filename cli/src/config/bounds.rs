//! Bounds of settings: values must not be zero where the server needs something, or so long that they never end.

use std::time::Duration;

use super::Args;
use crate::duration::DurationArg;

/// The minimum time between two folds of the journal. The work itself takes longer than a shorter interval.
const FOLD_INTERVAL_MIN: Duration = Duration::from_millis(1);
const BACKUP_EVERY_MIN: Duration = Duration::from_millis(10);
/// Keys are fetched every five minutes; a lower limit would drop keys of a healthy issuer.
const KEYS_AGE_MIN: Duration = Duration::from_secs(600);

/// Ten years, as `10y` is parsed. A longer duration would mean "forever", and every lease has to end.
const LASTING_MAX: Duration = Duration::from_secs(10 * 31_557_600);

impl Args {
    /// Rejects zero for settings with which the server would start but serve no client.
    pub(super) fn check_none_is_0(&self) -> Result<(), String> {
        let Self { engine, limits, connections, redis, .. } = self;
        let has_time = |DurationArg(time): DurationArg| usize::from(!time.is_zero());
        let all = [
            ("--batch-max", engine.batch_max),
            ("--pending-max", engine.pending_max),
            ("--sweep-changes-max", engine.sweep_changes_max),
            ("--journal-bytes-max", engine.journal_bytes_max.min(1) as usize),
            ("--connections-max", connections.connections_max),
            ("--header-timeout", has_time(connections.header_timeout)),
            ("--heads-total-bytes-max", connections.heads_total_bytes_max),
            ("--redis-auth-timeout", has_time(redis.redis_auth_timeout)),
            ("--body-timeout", has_time(connections.body_timeout)),
            ("--body-bytes-max", connections.body_bytes_max),
            ("--answer-timeout", has_time(connections.answer_timeout)),
            ("--downloads-max", connections.downloads_max),
            ("--principal-downloads-max", connections.principal_downloads_max),
            ("--tree-operations-max", connections.tree_operations_max),
            ("--principal-tree-operations-max", connections.principal_tree_operations_max),
            ("--name-bytes-max", limits.name_bytes_max),
            ("--namespace-bytes-max", limits.namespace_bytes_max),
            ("--owner-bytes-max", limits.owner_bytes_max),
            ("--namespaces-max", limits.namespaces_max),
            ("--locks-max", limits.locks_max),
            ("--principal-leases-max", limits.principal_leases_max as usize),
            ("--principal-namespaces-max", limits.principal_namespaces_max as usize),
            ("--metadata-total-bytes-max", limits.metadata_total_bytes_max),
            ("--names-total-bytes-max", limits.names_total_bytes_max),
            ("--requests-total-bytes-max", limits.requests_total_bytes_max),
            ("--queues-total-bytes-max", limits.queues_total_bytes_max),
            ("--ended-total-bytes-max", limits.ended_total_bytes_max),
            ("--principal-metadata-bytes-max", limits.principal_metadata_bytes_max),
            ("--principal-names-bytes-max", limits.principal_names_bytes_max),
            ("--principal-requests-bytes-max", limits.principal_requests_bytes_max),
            ("--principal-queues-bytes-max", limits.principal_queues_bytes_max),
            ("--principal-ended-bytes-max", limits.principal_ended_bytes_max),
            ("--group-max", limits.group_max),
            ("--holders-max", limits.holders_max as usize),
            ("--promote-steps-max", limits.promote_steps_max),
            ("--ttl-max", has_time(limits.ttl_max)),
        ];
        match all.into_iter().find(|(_, n)| *n == 0) {
            Some((setting, _)) => Err(format!("{setting}: must be at least 1, got 0")),
            None => Ok(()),
        }
    }

    /// Rejects intervals that are too short for the work they repeat.
    pub(super) fn check_none_spins(&self) -> Result<(), String> {
        let all = [
            ("--fold-interval", Some(self.store.fold_interval), FOLD_INTERVAL_MIN),
            ("--backup-every", self.backup.every(), BACKUP_EVERY_MIN),
            ("--auth-keys-age-max", Some(self.auth.auth_keys_age_max), KEYS_AGE_MIN),
        ];
        for (setting, time, least) in all {
            if let Some(time) = time.filter(|time| time.0 < least) {
                let least = DurationArg(least);
                return Err(format!("{setting}: must be at least {least}, got {time}"));
            }
        }
        Ok(())
    }

    /// Rejects durations so long that a lease, a session or a wait would never end.
    pub(super) fn check_all_end(&self) -> Result<(), String> {
        let all = [
            ("--ttl-max", self.limits.ttl_max),
            ("--session-ttl-max", self.limits.session_ttl_max),
            ("--grace-max", self.limits.grace_max),
            ("--wait-max", self.limits.wait_max),
            ("--park-max", self.limits.park_max),
            ("--resume-park-max", self.limits.resume_park_max),
        ];
        match all.into_iter().find(|(_, time)| time.0 > LASTING_MAX) {
            Some((setting, time)) => {
                Err(format!("{setting}: must be at most 10 years (10y), got {time}"))
            }
            None => Ok(()),
        }
    }
}
