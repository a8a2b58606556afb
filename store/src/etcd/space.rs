//! Monitors how much space etcd has left. An etcd without space rejects every write, so not even a leader change is
//! possible. To prevent that, the server stops granting locks long before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_etcd::{Kind, StatusResponse};

use super::cluster::Cluster;
use crate::shared::Watching;
use crate::shared::aide::{Aide, Shared};
use crate::{Error, Health, Room};

/// No more locks are granted once the keys in etcd use this percentage of its quota. Locks are granted again
/// automatically once compaction has freed enough.
const FULL_PERCENT: u64 = 80;
/// No more locks are granted once etcd's database file uses this percentage of the quota, with which etcd compares its
/// size. The file never shrinks automatically, but its free pages are reused before it grows. So it can come closer to
/// the quota.
const FILE_FULL_PERCENT: u64 = 90;
/// etcd's name of the alarm.
const NO_SPACE: &str = "NOSPACE";

/// A thread that checks the space. Dropping this value ends it.
pub(super) struct SpaceWatch {
    _thread: Aide<()>,
}

impl SpaceWatch {
    pub(super) fn start(
        cluster: Arc<dyn Cluster>,
        watching: Watching,
        health: Arc<Health>,
    ) -> Result<Self, Error> {
        let work = move |shared: &Shared<()>| {
            let (mut said, mut silent) = (Room::default(), Silent::default());
            let mut alarmed = Vec::new();
            loop {
                let (answers, endpoints) = (cluster.status(), cluster.endpoints());
                silent.look(&endpoints, &answers);
                // If no member responds, the last result is kept.
                let room = worst(&answers, watching.quota).unwrap_or_else(|| health.room());
                let room = Room { n_silent: silent.0.len() as u64, ..room };
                say(&said, &room);
                let found = alarmed_members(&endpoints, &answers).filter(|_| has_space(&room));
                if let Some(members) = found.filter(|members| *members != alarmed) {
                    say_alarmed(&members, watching.every);
                    alarmed = members;
                }
                health.found(room);
                said = room;
                if shared.rest(watching.every) {
                    return;
                }
            }
        };
        Ok(Self { _thread: Aide::start("space", (), work)? })
    }
}

pub(super) type Answer = Result<StatusResponse, leasehold_etcd::Error>;

/// The members that do not respond. As long as a majority responds, the cluster works and the outage is easy to miss.
#[derive(Default)]
struct Silent(BTreeSet<String>);

impl Silent {
    /// Logs which members have stopped responding, and which respond again.
    fn look(&mut self, endpoints: &[String], answers: &[Answer]) {
        for (member, answer) in endpoints.iter().zip(answers) {
            match answer {
                Err(why) if self.0.insert(member.clone()) => {
                    let what = match why.kind {
                        Kind::Denied => "rejects the credentials",
                        _ => "does not respond",
                    };
                    tracing::warn!(%member, %why, "an etcd member {what}");
                }
                Ok(_) if self.0.remove(member) => {
                    tracing::info!(%member, "an etcd member responds again");
                }
                _ => {}
            }
        }
    }
}

/// Returns the alarms for each queried member. Every member reports the alarms of all members, and each alarm names its
/// member. The alarm of a member that did not respond is listed with the first member that reports it.
pub(super) fn alarms(answers: &[Answer]) -> Vec<Vec<String>> {
    let id = |answer: &Answer| Some(answer.as_ref().ok()?.header.as_ref()?.member_id);
    let ids: Vec<_> = answers.iter().map(id).collect();
    let mut told = BTreeSet::new();
    let of = |(answer, own): (&Answer, &Option<u64>)| {
        let alarms = answer.iter().flat_map(|status| &status.errors).map(|alarm| alarm.trim());
        let is_own = |alarm: &&str| match member_in(alarm) {
            named @ Some(_) if ids.contains(&named) => named == *own,
            Some(_) => told.insert((*alarm).to_owned()),
            None => true,
        };
        alarms.filter(is_own).map(str::to_owned).collect()
    };
    answers.iter().zip(&ids).map(of).collect()
}

/// Returns the members with the alarm NOSPACE: their addresses, or etcd's ids of members that did not answer. `None` if
/// no member answered.
fn alarmed_members(endpoints: &[String], answers: &[Answer]) -> Option<Vec<String>> {
    let has_answered = answers.iter().any(Result::is_ok);
    let member = |(endpoint, (answer, alarm)): (&String, (&Answer, String))| {
        let own = answer.as_ref().ok().and_then(|status| Some(status.header.as_ref()?.member_id));
        match member_in(&alarm) {
            named @ Some(id) if named != own => format!("memberID:{id}"),
            _ => endpoint.clone(),
        }
    };
    let each = answers.iter().zip(alarms(answers));
    let each = endpoints.iter().zip(each).flat_map(|(endpoint, (answer, alarms))| {
        alarms.into_iter().map(move |alarm| (endpoint, (answer, alarm)))
    });
    let members = each.filter(|(_, (_, alarm))| alarm.contains(NO_SPACE)).map(member).collect();
    has_answered.then_some(members)
}

/// Returns whether etcd would accept writes without the alarm.
fn has_space(room: &Room) -> bool {
    room.quota > 0 && !is_used(room) && !is_grown(room)
}

/// Logs which members still have an alarm that an operator has to disarm.
fn say_alarmed(members: &[String], every: Duration) {
    if !members.is_empty() {
        tracing::warn!(
            members = members.join(", "),
            "etcd has space again, but these members still have the alarm NOSPACE: disarm it on each of them (etcdctl \
             alarm disarm); acquires resume within {}s",
            every.as_secs().max(1)
        );
    }
}

/// Returns the id of the member that an alarm such as `memberID:7 alarm:NOSPACE` belongs to.
fn member_in(alarm: &str) -> Option<u64> {
    let mut words = alarm.split_whitespace();
    words.find_map(|word| word.strip_prefix("memberID:"))?.parse().ok()
}

/// Returns the state of the member with the least space, or `None` if no member responded.
fn worst(answers: &[Answer], quota: u64) -> Option<Room> {
    let n_alarms = alarms(answers).iter().map(|alarms| alarms.len() as u64).sum();
    let mut worst: Option<Room> = None;
    for member in answers.iter().flatten() {
        let quota = u64::try_from(member.db_size_quota).ok().filter(|n| *n > 0).unwrap_or(quota);
        let [n_bytes, n_bytes_in_use] =
            [member.db_size, member.db_size_in_use].map(|n| u64::try_from(n).unwrap_or(0));
        let is_out = member.errors.iter().any(|error| error.contains(NO_SPACE));
        let known = worst.unwrap_or_default();
        worst = Some(Room {
            n_bytes: known.n_bytes.max(n_bytes),
            n_bytes_in_use: known.n_bytes_in_use.max(n_bytes_in_use),
            quota: if known.quota == 0 { quota } else { known.quota.min(quota) },
            n_alarms,
            n_silent: 0,
            is_out: known.is_out || is_out,
            is_short: false,
        });
    }
    worst.map(|room| Room { is_short: room.is_out || is_used(&room) || is_grown(&room), ..room })
}

/// Returns whether too little of the quota is unused.
fn is_used(room: &Room) -> bool {
    reaches(room.n_bytes_in_use, room.quota, FULL_PERCENT)
}

/// Returns whether the file is close to the quota.
fn is_grown(room: &Room) -> bool {
    reaches(room.n_bytes, room.quota, FILE_FULL_PERCENT)
}

fn reaches(n_bytes: u64, quota: u64, percent: u64) -> bool {
    n_bytes.saturating_mul(100) >= quota.saturating_mul(percent)
}

/// Logs a change.
fn say(before: &Room, room: &Room) {
    let Room { n_bytes, n_bytes_in_use, quota, .. } = *room;
    if room.is_out && !before.is_out {
        tracing::error!(
            n_bytes,
            n_bytes_in_use,
            quota,
            "etcd is full (alarm NOSPACE): the server cannot write, and no server can take over. Compact and \
             defragment etcd, or raise its quota, then run etcdctl alarm disarm"
        );
    } else if room.is_short && !before.is_short {
        let Fullness { what, remedy } = fullness(room);
        tracing::error!(
            n_bytes,
            n_bytes_in_use,
            quota,
            "{what}: acquires are refused, renewals and releases continue. {remedy}, or raise the quota (etcd-quota)"
        );
    } else if before.is_short && !room.is_short {
        tracing::info!(n_bytes, n_bytes_in_use, quota, "etcd has enough space again");
    }
    let is_large = |room: &Room| reaches(room.n_bytes, room.quota, FULL_PERCENT);
    if is_large(room) && !is_large(before) && !room.is_short {
        tracing::warn!(
            n_bytes,
            n_bytes_in_use,
            quota,
            "the etcd database file has reached {FULL_PERCENT} % of the quota, but part of it is empty; defragment it \
             (etcdctl defrag) before it reaches {FILE_FULL_PERCENT} %"
        );
    }
}

/// Describes why there is too little space.
struct Fullness {
    what: String,
    remedy: &'static str,
}

fn fullness(room: &Room) -> Fullness {
    match is_used(room) {
        true => Fullness {
            what: format!("etcd uses {FULL_PERCENT} % of its quota or more"),
            remedy: "Compact and defragment etcd",
        },
        false => Fullness {
            what: format!(
                "the etcd database file has reached {FILE_FULL_PERCENT} % of the quota, but part of it is empty"
            ),
            remedy: "Defragment etcd (etcdctl defrag)",
        },
    }
}

#[cfg(test)]
mod tests {
    use leasehold_etcd::Header;

    use super::*;

    fn member(n_bytes: i64, in_use: i64, quota: i64, errors: &[&str]) -> Answer {
        Ok(StatusResponse {
            db_size: n_bytes,
            db_size_in_use: in_use,
            db_size_quota: quota,
            errors: errors.iter().map(|error| (*error).to_owned()).collect(),
            ..StatusResponse::default()
        })
    }

    #[test]
    fn every_alarm_is_counted_once_and_told_of_its_member() {
        let full = |id: u64| format!("memberID:{id} alarm:NOSPACE ");
        let (full_1, full_2, full_9) = (full(1), full(2), full(9));
        let says = |member_id: u64, errors: &[&str]| {
            let header = Some(Header { member_id, ..Header::default() });
            member(9, 9, 0, errors).map(|status| StatusResponse { header, ..status })
        };
        let all = [full_1.as_str(), &full_2, &full_9];
        let silent = Err(leasehold_etcd::Error::new(Kind::Unknown, "m4", "it is gone"));
        let answers = [says(3, &all), says(1, &all), says(2, &all), silent];
        let [full_1, full_2, full_9] =
            [full_1, full_2, full_9].map(|alarm| alarm.trim().to_owned());
        assert_eq!(alarms(&answers), [vec![full_9], vec![full_1], vec![full_2], vec![]]);
        assert_eq!(worst(&answers, 1000).map(|room| (room.n_alarms, room.is_out)), Some((3, true)));
    }

    #[test]
    fn the_members_that_still_have_the_alarm_are_named() {
        let says = |member_id: u64, errors: &[&str]| {
            let header = Some(Header { member_id, ..Header::default() });
            member(9, 9, 1000, errors).map(|status| StatusResponse { header, ..status })
        };
        let endpoints = ["http://a", "http://b", "http://c"].map(String::from);
        let silent = || Err(leasehold_etcd::Error::new(Kind::Unknown, "c", "it is gone"));
        let all =
            ["memberID:2 alarm:NOSPACE ", "memberID:3 alarm:NOSPACE ", "memberID:1 alarm:CORRUPT"];
        let answers = [says(1, &all), says(2, &all), silent()];
        let named = alarmed_members(&endpoints, &answers).expect("two answer");
        assert_eq!(named, ["memberID:3", "http://b"]);
        let room = worst(&answers, 1000).expect("two answer");
        assert!(room.is_out && room.is_short && has_space(&room), "only the alarm is in the way");
        assert_eq!(alarmed_members(&endpoints, &[says(1, &[]), says(2, &[])]), Some(vec![]));
        assert_eq!(alarmed_members(&endpoints, &[silent()]), None);
    }

    #[test]
    fn what_counts_is_the_member_with_least_room() {
        let look = |members: &[Answer]| worst(members, 1000);
        assert_eq!(look(&[]), None);
        let short = |members: &[Answer]| look(members).map(|room| room.is_short);
        assert_eq!(short(&[member(899, 799, 0, &[])]), Some(false), "what is empty is used again");
        assert_eq!(short(&[member(800, 100, 0, &[]), member(800, 800, 0, &[])]), Some(true));
        assert_eq!(short(&[member(900, 800, 2000, &[])]), Some(false), "it says itself");
        let grown = look(&[member(900, 100, 0, &[])]).expect("a member");
        assert!(grown.is_short && !grown.is_out, "etcd refuses by the size of its file");
        assert!(fullness(&grown).remedy.contains("etcdctl defrag"));
        let used = look(&[member(900, 800, 0, &[])]).expect("a member");
        assert!(fullness(&used).remedy.contains("Compact"));
        let out = look(&[member(9, 9, 0, &["memberID:1 alarm:NOSPACE "])]).expect("a member");
        assert!(out.is_out && out.is_short);
        let corrupt = look(&[member(9, 9, 0, &["alarm:CORRUPT"])]).expect("a member");
        assert_eq!((corrupt.is_short, corrupt.n_alarms), (false, 1));
    }
}
