//! Limits the number of connections, in total and per client, and decides which one to close if there are too many.
//!
//! If all slots are taken, an idle connection is closed. If none is idle, the new connection gets a reserved slot while
//! there are any, but only its renewals, releases and health checks are served. Otherwise clients that wait for a lock
//! could keep its holder from releasing it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hyper::http::request::Parts;
use leasehold_base::complaint::Complaint;
use leasehold_base::sync::lock;
use leasehold_engine::metrics::Refusals;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Options;
use super::activity::Activity;
use super::intake::charged_bytes;
use super::lingering::Lingering;
use super::streams::{Stream, Streams};
use super::wire::Wire;
use crate::metrics::Metrics;
use crate::request::Peer;
use leasehold_auth::shares::{Client, Shares};
use leasehold_store::Health;

/// One client can use at most `1 / RESERVED_SHARE` of the reserved slots.
const RESERVED_SHARE: usize = 4;
/// Maximum connections that one search for an idle connection inspects. The next search continues after them.
const LOOKED_AT_MAX: usize = 1024;
/// One client can use at most `1 / LINGERING_SHARE` of the lingering connections.
const LINGERING_SHARE: usize = 4;
/// If heads use more than their budget, at least this fraction of the budget is freed.
const HEADS_FREED_SHARE: i64 = 16;
/// Interval between checks for a free slot if all slots, including reserved ones, are taken.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The connection slots of all listeners.
pub struct Places {
    options: Options,
    /// The store's health, which decides whether this server accepts more connections.
    health: Arc<Health>,
    epoch: Instant,
    taken: Mutex<Slots>,
    is_freed: Notify,
    streams: Arc<Streams>,
    /// Lingering connections, which have no slot.
    lingering: Arc<Shares>,
    n_lingering: Gauge,
    /// Bytes of all connection buffers beyond the free allowance.
    heads_bytes: Gauge,
    refusals: Refusals,
    /// Limits how often the log reports that heads use too much memory.
    complaint: Complaint,
    stream_complaint: Complaint,
}

#[derive(Default)]
struct Slots {
    n_full: usize,
    n_reserved: usize,
    by_peer: HashMap<IpAddr, OfPeer>,
    /// The connections by the number of their slot.
    connections: Vec<Option<Arc<Activity>>>,
    unused: Vec<usize>,
    /// Where the next search for an idle connection continues.
    next_look: usize,
}

#[derive(Default)]
struct OfPeer {
    n: usize,
    n_reserved: usize,
}

/// A connection slot, freed when this is dropped.
pub struct Place {
    places: Arc<Places>,
    number: usize,
    /// The client's address; `None` for clients without a limit.
    peer: Option<IpAddr>,
    is_restricted: bool,
    /// The setting because of which the connection is restricted.
    limit: Option<&'static str>,
    pub(super) activity: Arc<Activity>,
}

/// The head or body of an HTTP/2 request, which counts until this is dropped.
pub(super) struct ChargedHead {
    heads_bytes: Gauge,
    n_bytes: i64,
}

impl ChargedHead {
    pub(super) fn new(heads_bytes: &Gauge, n_bytes: i64) -> Self {
        heads_bytes.inc_by(n_bytes);
        Self { heads_bytes: heads_bytes.clone(), n_bytes }
    }
}

impl Drop for ChargedHead {
    fn drop(&mut self) {
        self.heads_bytes.dec_by(self.n_bytes);
    }
}

/// Why a connection got no slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoPlace {
    /// There are too many connections.
    Any,
    /// There are too many connections from this client.
    ForPeer,
}

impl NoPlace {
    /// The setting with the limit.
    pub(super) fn setting(self) -> &'static str {
        match self {
            NoPlace::Any => "connections-max",
            NoPlace::ForPeer => "connections-per-peer-max",
        }
    }
}

impl Places {
    /// Creates the places that these options allow.
    pub fn new(options: Options, health: Arc<Health>, metrics: &Metrics) -> Arc<Self> {
        let streams = Streams::new(&options, metrics);
        let lingering_max = options.lingering_max;
        Arc::new(Self {
            options,
            health,
            epoch: Instant::now(),
            taken: Mutex::default(),
            is_freed: Notify::new(),
            streams,
            lingering: Shares::new(lingering_max, lingering_max.div_ceil(LINGERING_SHARE)),
            n_lingering: metrics.tasks.lingering.clone(),
            heads_bytes: metrics.heads_bytes.clone(),
            refusals: metrics.engine.refusals.clone(),
            complaint: Complaint::default(),
            stream_complaint: Complaint::default(),
        })
    }

    /// Returns when there might be a free slot.
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

    /// Returns a slot for a connection from this peer.
    pub(super) fn enter(self: &Arc<Self>, peer: Peer) -> Result<Place, NoPlace> {
        let peer = peer.address();
        let peer = self.options.network_of(peer);
        let of_peer = |taken: &Slots| {
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
        let limit = (is_restricted && !is_drained).then_some(match is_one_too_many {
            true => "connections-per-peer-max",
            false => "connections-max",
        });
        Ok(Place { places: self.clone(), number, peer, is_restricted, limit, activity })
    }

    /// Adds an HTTP/2 request to a connection. If there are too many streams in all, closes the connections that leave
    /// most of their responses unread.
    pub(super) fn add_stream(
        &self,
        activity: &Arc<Activity>,
        patience: Option<Duration>,
        lingers: bool,
    ) -> Stream {
        let (stream, n_excess) = self.streams.add(activity.clone(), patience, lingers);
        if n_excess > 0 {
            let n_closed = self.taken().shed_untaken(n_excess, &self.streams);
            if n_closed > 0 {
                self.stream_complaint.make(|n_before| {
                    tracing::warn!(
                        n_closed,
                        n_before,
                        "too many unread HTTP/2 responses; closed the connections with most of them (streams-max)"
                    );
                });
            }
        }
        stream
    }

    /// Records the new size of a connection's buffer. If all buffers together are too large, closes the connections
    /// that have kept a large buffer for the longest time without a request in progress; if there are none, closes this
    /// one.
    pub(super) fn charge(&self, activity: &Activity, n_bytes: usize) {
        let n_max = i64::try_from(self.options.heads_total_bytes_max).unwrap_or(i64::MAX);
        let n_more = activity.intake.charge(n_bytes) as i64;
        let n_all = self.heads_bytes.inc_by(n_more) + n_more;
        if n_all <= n_max {
            return;
        }
        // Frees more than needed, so that the connections are not searched each time.
        let n_excess = n_all - n_max + n_max / HEADS_FREED_SHARE;
        let n_freed = self.taken().shed_buffers(n_excess) as i64;
        self.heads_bytes.dec_by(n_freed);
        if n_freed < n_all - n_max {
            activity.shed();
        }
        self.complaint.make(|n_before| {
            tracing::warn!(
                n_max,
                n_freed,
                n_before,
                "request heads use too much memory; closing the connections that take longest \
                 (heads-total-bytes-max)"
            );
        });
    }

    /// Counts the head of an HTTP/2 request until the result is dropped. `None`: all heads together are too large.
    pub(super) fn charge_stream(&self, head: &Parts, stream: &Stream) -> Option<ChargedHead> {
        let n_max = i64::try_from(self.options.heads_total_bytes_max).unwrap_or(i64::MAX);
        let n_bytes = charged_bytes(head);
        stream.has_head(n_bytes);
        let n_bytes = n_bytes as i64;
        let charged = ChargedHead::new(&self.heads_bytes, n_bytes);
        if n_bytes > 0 && self.heads_bytes.get() > n_max {
            self.refusals.count("heads-total-bytes-max");
            return None;
        }
        Some(charged)
    }

    /// Closes the connection that has been idle for the longest time, if any is idle.
    pub(super) fn make_room(&self) {
        self.shed_idle();
    }

    /// Counts and logs a connection that got no slot.
    pub(super) fn refuse(&self, why: NoPlace) {
        self.refusals.count(why.setting());
    }

    fn shed_idle(&self) -> bool {
        self.taken().shed_idle(&self.options)
    }

    fn taken(&self) -> MutexGuard<'_, Slots> {
        lock(&self.taken)
    }
}

impl Slots {
    fn add(&mut self, activity: Arc<Activity>, peer: Option<IpAddr>, is_restricted: bool) -> usize {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        // Restricted connections have no slot to give up.
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

    /// Closes the connection that has been idle for the longest time and frees its slot. Returns `false` if none is
    /// idle.
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

    /// Closes connections with large buffers until this many bytes are free. Returns how many bytes were freed.
    fn shed_buffers(&mut self, n_bytes: i64) -> usize {
        let all = self.connections.iter().enumerate();
        let mut idle: Vec<_> = all
            .filter_map(|(number, activity)| Some((activity.as_ref()?.buffers_since()?, number)))
            .collect();
        idle.sort_unstable();
        let mut n_freed = 0;
        for (_, number) in idle {
            if n_freed as i64 >= n_bytes {
                break;
            }
            if let Some(activity) = self.connections[number].take() {
                activity.shed();
                self.n_full -= 1;
                n_freed += activity.intake.discharge();
            }
        }
        n_freed
    }

    /// Closes connections until this many streams are freed, first those that leave most responses unread. Returns the
    /// number of closed connections.
    fn shed_untaken(&mut self, n_excess: i64, streams: &Streams) -> usize {
        let all = self.connections.iter().enumerate();
        let mut untaken: Vec<_> = all
            .filter_map(|(number, activity)| Some((activity.as_ref()?.untaken.n(), number)))
            .filter(|(n, _)| *n > 0)
            .collect();
        untaken.sort_unstable();
        let (mut n_freed, mut n_closed) = (0, 0);
        for (_, number) in untaken.into_iter().rev() {
            if n_freed >= n_excess {
                break;
            }
            if let Some(activity) = self.connections[number].take() {
                activity.shed();
                self.n_full -= 1;
                n_freed += streams.discharge(&activity);
                n_closed += 1;
            }
        }
        n_closed
    }
}

impl Place {
    /// Returns whether only renewals, releases and health checks are served.
    pub(super) fn is_restricted(&self) -> bool {
        self.is_restricted
    }

    /// Returns the setting because of which the connection is restricted; `None` if it is not, or for another reason.
    pub(super) fn limit(&self) -> Option<&'static str> {
        self.limit
    }

    pub(super) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// Frees the slot for another connection while this one lingers. Returns `None` if too many connections linger.
    pub(super) fn leave(self, wire: &Wire) -> Option<Lingering> {
        let places = self.places.clone();
        let taken = places.lingering.take(&Client::of_network(self.peer), None);
        drop(self);
        let Ok(taken) = taken else {
            places.refusals.count("lingering-max");
            return None;
        };
        Some(Lingering::new(wire.clone(), places.n_lingering.clone(), taken))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.heads_bytes.dec_by(self.activity.intake.discharge() as i64);
        self.activity.untaken.end();
        let mut taken = self.places.taken();
        // A connection that was closed to free its slot no longer has one.
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
