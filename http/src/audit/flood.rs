//! Limits the audit lines for refused requests, per second: for each client, and for all together.
//!
//! Known principals and clients without a valid credential are counted separately, so that neither hides the other.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::part::Part;
use leasehold_auth::{ANONYMOUS, By};

const SECOND_MS: i64 = 1000;
/// Maximum clients whose omitted refusals are reported one by one; those of the others are reported together.
const NAMED_MAX: usize = 20;
/// Maximum clients that are counted separately in one second.
const CLIENTS_MAX: usize = 1000;

/// Who was refused, and with which outcome: a client's 429s do not hide its 403s.
pub(super) type Client = (Arc<str>, &'static str);

/// The refusals of one second.
#[derive(Default)]
pub(super) struct Flood {
    second: i64,
    known: Group,
    unknown: Group,
    /// Leases that were taken from other principals. Their lines are not left out, but go to another file.
    taken: Group,
}

/// Clients that share a limit.
#[derive(Default)]
struct Group {
    n_written: u32,
    /// For each client, the refusals written and left out.
    by: HashMap<Client, (u32, u64)>,
    n_of_others: u64,
}

/// Refusals that were not written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LeftOut {
    pub(super) part: Part,
    /// The client and outcome; `None` for several clients together.
    pub(super) of: Option<Client>,
    pub(super) n: u64,
}

/// Maximum refusals written per second: of all clients, and of each.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    pub(super) of_all: u32,
    pub(super) of_each: u32,
}

impl Flood {
    /// Counts a refusal, or leases that were taken from others. Returns whether to write it.
    pub(super) fn take(&mut self, part: Part, client: Client, rate: Rate) -> bool {
        let group = match part {
            Part::Unknown => &mut self.unknown,
            Part::Admin => &mut self.taken,
            Part::Access | Part::Refusals => &mut self.known,
        };
        let n_max = CLIENTS_MAX.max(rate.of_all as usize);
        if group.by.len() >= n_max && !group.by.contains_key(&client) {
            group.n_of_others += 1;
            return false;
        }
        let (n_written, n_left_out) = group.by.entry(client).or_default();
        if group.n_written < rate.of_all && *n_written < rate.of_each {
            group.n_written += 1;
            *n_written += 1;
            return true;
        }
        *n_left_out += 1;
        false
    }

    /// If a new second has begun, returns the refusals left out in the last one.
    pub(super) fn turn(&mut self, wall_ms: i64) -> Vec<LeftOut> {
        let now = wall_ms.div_euclid(SECOND_MS);
        if std::mem::replace(&mut self.second, now) == now {
            return Vec::new();
        }
        self.taken = Group::default();
        let known = self.known.end(Part::Refusals);
        let unknown = self.unknown.end(Part::Unknown);
        known.into_iter().chain(unknown).collect()
    }
}

impl Group {
    fn end(&mut self, part: Part) -> Vec<LeftOut> {
        let Self { by, n_of_others, .. } = std::mem::take(self);
        let cut = by.into_iter().filter(|(_, (_, n))| *n > 0);
        let mut cut: Vec<_> = cut.map(|(of, (_, n))| LeftOut { part, of: Some(of), n }).collect();
        cut.sort_unstable_by(|one, other| (other.n, &one.of).cmp(&(one.n, &other.of)));
        let others = cut.split_off(cut.len().min(NAMED_MAX));
        let n = n_of_others + others.iter().map(|left_out| left_out.n).sum::<u64>();
        cut.extend((n > 0).then_some(LeftOut { part, of: None, n }));
        cut
    }
}

/// Returns the file for a refusal and the client to count: a principal or, without a valid credential, the address. Of
/// an IPv6 address, the client can choose the last 64 bits, so these are ignored.
pub(super) fn counted(by: &By) -> (Part, Arc<str>) {
    if !by.principal.is_empty() && *by.principal != *ANONYMOUS {
        return (Part::Refusals, by.principal.clone());
    }
    let peer = match by.peer.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V6(address)) => {
            let network = Ipv6Addr::from(u128::from(address) >> 64 << 64);
            format!("{network}/64").into()
        }
        _ => by.peer.clone(),
    };
    (Part::Unknown, peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { of_all: 5, of_each: 2 };

    fn client(name: &str) -> Client {
        (name.into(), "forbidden")
    }

    #[test]
    fn each_client_and_each_kind_has_a_limit_of_its_own() {
        let mut flood = Flood::default();
        flood.turn(0);
        let mut n_written = |part, of: &Client, n: usize| {
            (0..n).filter(|_| flood.take(part, of.clone(), RATE)).count()
        };
        for from in ["a", "b", "c", "d"] {
            n_written(Part::Unknown, &client(from), 100);
        }
        assert_eq!(n_written(Part::Refusals, &client("key:a"), 3), 2, "whatever strangers do");
        let limited = ("key:a".into(), "limited");
        assert_eq!(n_written(Part::Refusals, &limited, 3), 2, "another kind of refusal");
        assert_eq!(n_written(Part::Refusals, &client("key:b"), 3), 1, "five of all");
        let left_out = flood.turn(1000);
        let of = |name: &str| {
            let is_of = |left: &&LeftOut| left.of == Some(client(name));
            left_out.iter().find(is_of).map(|left| (left.part, left.n))
        };
        assert_eq!(of("key:a"), Some((Part::Refusals, 1)));
        assert_eq!(of("key:b"), Some((Part::Refusals, 2)));
        assert_eq!((of("a"), of("c")), (Some((Part::Unknown, 98)), Some((Part::Unknown, 99))));
        assert_eq!(left_out.iter().map(|left| left.n).sum::<u64>(), 395 + 1 + 1 + 2);
        assert!(flood.take(Part::Unknown, client("a"), RATE), "another second");
        assert_eq!(flood.turn(1999), []);
    }

    #[test]
    fn many_clients_take_bounded_memory_and_few_lines() {
        let mut flood = Flood::default();
        for n in 0..5000 {
            flood.take(Part::Unknown, client(&n.to_string()), RATE);
        }
        assert_eq!(flood.unknown.by.len(), CLIENTS_MAX);
        let left_out = flood.turn(1000);
        assert_eq!(left_out.len(), NAMED_MAX + 1);
        assert_eq!(left_out.iter().map(|left| left.n).sum::<u64>(), 4995);
        assert_eq!(left_out.last().map(|left| left.of.clone()), Some(None));
    }

    #[test]
    fn clients_that_proved_nothing_are_told_apart_by_network() {
        let of = |principal: &str, peer: &str| {
            counted(&By { principal: principal.into(), peer: peer.into(), ..By::default() })
        };
        assert_eq!(of("key:a", "192.0.2.1"), (Part::Refusals, "key:a".into()));
        assert_eq!(of(ANONYMOUS, "192.0.2.1"), (Part::Unknown, "192.0.2.1".into()));
        assert_eq!(of("", "unix"), (Part::Unknown, "unix".into()));
        assert_eq!(of("", "2001:db8::1"), of("", "2001:db8::ffff:1"));
    }
}
