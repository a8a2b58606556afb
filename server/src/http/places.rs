//! How many connections there may be, from where, and who has to go if there are too many.
//!
//! There are so many places. If they are taken, a connection that does nothing gives its place up. If there is none,
//! the
//! new one is let in all the same, as long as there are reserved places left, but is only served what keeps locks
//! from being lost and what tells whether the server is well: otherwise those who wait for a lock could keep its holder
//! from giving it back.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Options;
use super::activity::Activity;
use super::forwarded::is_in;
use crate::door::Peer;
use crate::store::Health;
use crate::sync::lock;

/// At most one of so many reserved places is one client's.
const RESERVED_SHARE: usize = 4;
/// How many connections are looked at for one that does nothing. Those that were not looked at now are the next time.
const LOOKED_AT_MAX: usize = 1024;
/// If there is no place at all, it is looked for again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// All of them.
pub(crate) struct Places {
    options: Options,
    /// Whether this server is to take no more connections.
    health: Arc<Health>,
    epoch: Instant,
    taken: Mutex<Taken>,
    is_freed: Notify,
    n_streams: AtomicUsize,
}

#[derive(Default)]
struct Taken {
    n_full: usize,
    n_reserved: usize,
    by_peer: HashMap<IpAddr, OfPeer>,
    /// By the number of their place.
    connections: Vec<Option<Arc<Activity>>>,
    unused: Vec<usize>,
    /// Where looking for an idle one goes on.
    next_look: usize,
}

#[derive(Default)]
struct OfPeer {
    n: usize,
    n_reserved: usize,
}

/// One place, until it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    number: usize,
    /// None for those who may have as many as they like.
    peer: Option<IpAddr>,
    is_restricted: bool,
    pub(super) activity: Arc<Activity>,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoPlace {
    /// There are too many connections.
    Any,
    /// There are too many from there.
    ForPeer,
}

impl Places {
    pub(crate) fn new(options: Options, health: Arc<Health>) -> Arc<Self> {
        Arc::new(Self {
            options,
            health,
            epoch: Instant::now(),
            taken: Mutex::default(),
            is_freed: Notify::new(),
            n_streams: AtomicUsize::new(0),
        })
    }

    /// Returns when there is some place, or may be one.
    pub(super) async fn room(&self) {
        loop {
            let freed = self.is_freed.notified();
            {
                let taken = self.taken();
                let is_full = taken.n_full >= self.options.connections_max;
                if !is_full || taken.n_reserved < self.options.connections_reserved {
                    return;
                }
            }
            if tokio::time::timeout(LOOK_AGAIN, freed).await.is_err() && self.shed_idle() {
                return;
            }
        }
    }

    /// A place for a connection from there.
    pub(super) fn enter(self: &Arc<Self>, peer: Peer) -> Result<Place, NoPlace> {
        let peer = peer.address();
        let peer = (!self.is_exempt(peer)).then(|| network(peer));
        let of_peer = |taken: &Taken| {
            let of = peer.and_then(|peer| taken.by_peer.get(&peer));
            of.map_or((0, 0), |of| (of.n, of.n_reserved))
        };
        let mut taken = self.taken();
        let (n, n_reserved) = of_peer(&taken);
        let is_one_too_many =
            peer.is_some() && n - n_reserved >= self.options.connections_per_peer_max;
        let is_free = taken.n_full < self.options.connections_max;
        let is_drained = self.health.pulse().is_drained();
        let is_restricted =
            is_drained || is_one_too_many || !(is_free || taken.shed_idle(&self.options));
        if is_restricted {
            let share = self.options.connections_reserved.div_ceil(RESERVED_SHARE);
            if peer.is_some() && n_reserved >= share {
                return Err(NoPlace::ForPeer);
            }
            if taken.n_reserved >= self.options.connections_reserved {
                return Err(NoPlace::Any);
            }
        }
        let activity = Activity::new(self.epoch);
        let number = taken.add(activity.clone(), peer, is_restricted);
        Ok(Place { places: self.clone(), number, peer, is_restricted, activity })
    }

    /// One more request on a connection that has many.
    pub(super) fn add_stream(self: &Arc<Self>) -> (StreamPlace, bool) {
        let n_before = self.n_streams.fetch_add(1, Relaxed);
        (StreamPlace(self.clone()), n_before >= self.options.streams_max)
    }

    fn shed_idle(&self) -> bool {
        self.taken().shed_idle(&self.options)
    }

    fn is_exempt(&self, peer: IpAddr) -> bool {
        let Options { connections_per_peer_exempt, trusted_proxies, proxy_protocol_from, .. } =
            &self.options;
        let exempt = [connections_per_peer_exempt, trusted_proxies, proxy_protocol_from];
        exempt.into_iter().any(|networks| is_in(networks, peer))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        lock(&self.taken)
    }
}

impl Taken {
    fn add(&mut self, activity: Arc<Activity>, peer: Option<IpAddr>, is_restricted: bool) -> usize {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        // Only those with a full place can give one up.
        self.connections[number] = (!is_restricted).then_some(activity);
        if is_restricted {
            self.n_reserved += 1;
        } else {
            self.n_full += 1;
        }
        if let Some(peer) = peer {
            let of = self.by_peer.entry(peer).or_default();
            of.n += 1;
            of.n_reserved += usize::from(is_restricted);
        }
        number
    }

    /// Takes the place of whoever has done nothing for the longest time. `false`: everybody does something.
    fn shed_idle(&mut self, options: &Options) -> bool {
        let Options { restricted_timeout, header_timeout, .. } = *options;
        let n = self.connections.len();
        let looked_at = (0..n.min(LOOKED_AT_MAX)).map(|ahead| (self.next_look + ahead) % n);
        let idle = looked_at.filter_map(|number| {
            let activity = self.connections[number].as_ref()?;
            Some((activity.dispensable_since(restricted_timeout, header_timeout)?, number))
        });
        let Some((_, number)) = idle.min() else {
            self.next_look += LOOKED_AT_MAX;
            return false;
        };
        if let Some(activity) = self.connections[number].take() {
            activity.shed();
            self.n_full -= 1;
        }
        true
    }
}

impl Place {
    /// May it only be served what cannot wait?
    pub(super) fn is_restricted(&self) -> bool {
        self.is_restricted
    }

    pub(super) fn places(&self) -> &Arc<Places> {
        &self.places
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        // Whoever was shed has given its place up already.
        let was_full = taken.connections[self.number].take().is_some();
        taken.unused.push(self.number);
        taken.n_full -= usize::from(was_full);
        taken.n_reserved -= usize::from(self.is_restricted);
        if let Some(peer) = self.peer
            && let Some(of) = taken.by_peer.get_mut(&peer)
        {
            of.n -= 1;
            of.n_reserved -= usize::from(self.is_restricted);
            if of.n == 0 {
                taken.by_peer.remove(&peer);
            }
        }
        drop(taken);
        self.places.is_freed.notify_one();
    }
}

/// The place of a request that shares its connection with others.
pub(super) struct StreamPlace(Arc<Places>);

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.n_streams.fetch_sub(1, Relaxed);
    }
}

/// Who counts as one client: an address, or the network that one customer of an IPv6 provider has at least.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}
