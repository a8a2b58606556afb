//! Checks that acknowledged changes are durable: every start finds them on disk.

use super::Found;
use super::lease::Leases;
use crate::front::name;
use crate::history::History;

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    for (at, why) in &history.refusals {
        found.add("a restart needs no hand", format!("at {at}: {why}"));
    }
    for (at, what) in &history.unseen {
        found.add("damage is seen", format!("at {at}: {what}"));
    }
    for (at, recovery) in &history.recoveries {
        let down_at = history.outages.iter().find(|outage| outage.to == *at);
        let down_at = down_at.map_or(*at, |outage| outage.from);
        for lease in leases.iter().filter(|lease| lease.first_told_at < down_at) {
            let claim = lease.claim;
            let found_there = recovery.active.get(&claim.id.number);
            let is_there = found_there.is_some_and(|(token, ..)| *token == claim.token)
                && !recovery.closed.contains(&claim.id.number);
            if lease.good_at(down_at) > Some(*at) && !is_there && !recovery.is_restored {
                found.add("acknowledged is durable", format!("{claim:?} is gone at {at}"));
            }
            if is_there && lease.over_at.is_some_and(|over_at| over_at < *at) {
                found.add("acknowledged is durable", format!("{claim:?} is back at {at}"));
            }
            let is_restored = history.was_restored_within(0, *at);
            let last = recovery.tokens.get(&name(claim.lock));
            if let Some(last) = last.filter(|last| **last < claim.token && !is_restored) {
                found.add("acknowledged is durable", format!("{claim:?}, but {last:?} at {at}"));
            }
        }
    }
}
