//! Limits how many units of a resource are in use, in total and per client. A client is a principal, or all anonymous
//! clients of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use leasehold_base::sync::lock;
use leasehold_core::Quota;

use super::Caller;

/// The client whose share a unit counts in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Taker {
    Principal(Arc<str>),
    Network(IpAddr),
}

/// A client whose share units count in.
#[derive(Clone, Debug)]
pub struct Client {
    /// `None` for anonymous clients of an exempt address.
    taker: Option<Taker>,
    /// The quota of event streams, if the client has one.
    pub streams: Option<Quota>,
}

impl Client {
    /// Returns the client that this caller is. `network` returns the network of an anonymous caller; `None` if its
    /// address is exempt.
    #[inline]
    pub fn of(caller: &Caller, network: impl FnOnce() -> Option<IpAddr>) -> Self {
        let streams = caller.streams_quota();
        let who = caller.principal();
        if !who.is_anonymous() {
            return Self { taker: Some(Taker::Principal(who.name().clone())), streams };
        }
        Self { streams, ..Self::of_network(network()) }
    }

    /// The anonymous clients of this network; `None`: clients without a share.
    #[inline]
    pub fn of_network(network: Option<IpAddr>) -> Self {
        Self { taker: network.map(Taker::Network), streams: None }
    }

    /// A client without a share.
    pub fn any() -> Self {
        Self { taker: None, streams: None }
    }
}

/// A limited resource.
#[derive(Debug)]
pub struct Shares {
    n_max: usize,
    share_max: usize,
    counts: Mutex<UnitCounts>,
}

#[derive(Default, Debug)]
struct UnitCounts {
    n: usize,
    by_taker: HashMap<Taker, usize>,
}

/// Some units, until they are dropped.
#[derive(Debug)]
pub struct Taken {
    shares: Arc<Shares>,
    taker: Option<Taker>,
    n: usize,
}

/// Why a unit was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The limit of all clients is used up.
    All,
    /// This client's share is used up.
    Share,
    /// This client's quota is used up.
    Quota(Quota),
}

impl Shares {
    /// Creates the limits: `n_max` in all, and `share_max` for each client.
    pub fn new(n_max: usize, share_max: usize) -> Arc<Self> {
        Arc::new(Self { n_max, share_max, counts: Mutex::default() })
    }

    /// Takes one unit for this client.
    pub fn take(self: &Arc<Self>, client: &Client, quota: Option<Quota>) -> Result<Taken, Full> {
        self.take_some(client, 1, quota)
    }

    /// Takes several units for this client, or none.
    pub fn take_some(
        self: &Arc<Self>,
        client: &Client,
        n: usize,
        quota: Option<Quota>,
    ) -> Result<Taken, Full> {
        self.take_up_to(client, n, (quota, self.n_max))
    }

    /// Takes several units for this client, even if others have used up all of them. The client's own share counts.
    pub fn take_beyond(self: &Arc<Self>, client: &Client, n: usize) -> Result<Taken, Full> {
        self.take_up_to(client, n, (None, usize::MAX))
    }

    fn take_up_to(
        self: &Arc<Self>,
        client: &Client,
        n: usize,
        (quota, n_max): (Option<Quota>, usize),
    ) -> Result<Taken, Full> {
        let mut counts = lock(&self.counts);
        if let Some(taker) = &client.taker {
            let n = counts.by_taker.get(taker).copied().unwrap_or_default() + n;
            match quota {
                Some(quota) if n > quota.max as usize => return Err(Full::Quota(quota)),
                None if n > self.share_max => return Err(Full::Share),
                _ => {}
            }
        }
        if counts.n + n > n_max {
            return Err(Full::All);
        }
        counts.n += n;
        if let Some(taker) = &client.taker {
            *counts.by_taker.entry(taker.clone()).or_default() += n;
        }
        Ok(Taken { shares: self.clone(), taker: client.taker.clone(), n })
    }

    /// The number of units in use.
    pub fn n(&self) -> usize {
        lock(&self.counts).n
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut counts = lock(&self.shares.counts);
        counts.n -= self.n;
        let Some(taker) = &self.taker else { return };
        if let Some(n) = counts.by_taker.get_mut(taker) {
            *n -= self.n;
            if *n == 0 {
                counts.by_taker.remove(taker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Client {
        Client { taker: Some(Taker::Principal(name.into())), streams: None }
    }

    #[test]
    fn one_client_has_its_share_and_no_more() {
        let shares = Shares::new(5, 2);
        let quota = Some(Quota { max: 1, line: 7 });
        let _one = shares.take(&client("a"), None).expect("the first");
        let two = shares.take(&client("a"), None).expect("the second");
        assert_eq!(shares.take(&client("a"), None).err(), Some(Full::Share));
        let _three = shares.take(&client("b"), quota).expect("another's");
        assert_eq!(shares.take(&client("b"), quota).err(), quota.map(Full::Quota));
        drop(two);
        let _two = shares.take(&client("a"), None).expect("there is one less");
        let _others = [(); 2].map(|()| shares.take(&Client::any(), None).expect("it has no share"));
        assert_eq!(shares.take(&client("c"), None).err(), Some(Full::All));
        assert_eq!(shares.n(), 5);
    }

    #[test]
    fn several_units_are_taken_together_or_not_at_all() {
        let shares = Shares::new(9, 5);
        let _three = shares.take_some(&client("a"), 3, None).expect("there is room");
        assert_eq!(shares.take_some(&client("a"), 3, None).err(), Some(Full::Share));
        let five = shares.take_some(&client("b"), 5, None).expect("there is room");
        assert_eq!(shares.take_some(&client("c"), 2, None).err(), Some(Full::All));
        let one = shares.take_beyond(&client("c"), 2).expect("its share is not used up");
        assert_eq!(shares.take_beyond(&client("a"), 3).err(), Some(Full::Share));
        drop((five, one));
        assert_eq!(shares.n(), 3);
    }

    #[test]
    fn what_is_gone_leaves_nothing() {
        let shares = Shares::new(5, 2);
        drop(shares.take_some(&client("a"), 2, None).expect("the first"));
        assert_eq!(shares.n(), 0);
        assert!(lock(&shares.counts).by_taker.is_empty());
    }
}
