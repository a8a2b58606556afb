//! Proofs of ownership, and the calls to renew and release with them.

use std::time::Duration;

use leasehold::api::{
    Acquired, HeldLease, ReleaseAllRequest, ReleaseRequest, RenewAllRequest, RenewRequest,
};
use leasehold::{Client, Error};
use leasehold_conformance::bug::Bug;

use crate::retry::{Tries, request_id};

/// A proof of ownership.
#[derive(Clone)]
pub(crate) enum Proof {
    Lease(Box<Acquired>),
    Leases { owner: String, leases: Vec<HeldLease> },
    Session { id: String },
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Proof {
    /// Renews it. Returns how long it lasts from when the request was sent.
    pub(crate) async fn renew(&self, client: &Client, ttl: Duration) -> Result<Duration, Error> {
        let given_ms = match self {
            Proof::Lease(acquired) => {
                let request = RenewRequest {
                    owner_id: acquired.owner_id.clone(),
                    lease_id: acquired.lease_id.clone(),
                    fencing_token: acquired.fencing_token,
                    extend_by_ms: millis(ttl),
                    request_id: None,
                };
                client.renew(&acquired.lock_name, &request).await?.expires_after_send_ms
            }
            Proof::Leases { owner, leases } => {
                let request = RenewAllRequest {
                    owner_id: owner.clone(),
                    extend_by_ms: millis(ttl),
                    leases: leases.clone(),
                };
                client.renew_all(&request).await?.expires_after_send_ms
            }
            Proof::Session { id } => Some(client.keep_session(id).await?.expires_after_send_ms),
        };
        Ok(given_ms.map_or(Duration::MAX, Duration::from_millis))
    }

    /// Releases it.
    pub(crate) async fn give_back(&self, client: &Client) -> Result<(), Error> {
        let (mut tries, id) = (Tries::few(), request_id());
        let mut may_be_done = false;
        loop {
            let error = match self.give_back_once(client, &id).await {
                Ok(()) => return Ok(()),
                Err(Error::Failed { status: 404, .. }) if may_be_done => return Ok(()),
                Err(error) => error,
            };
            may_be_done |= error.may_have_taken_effect();
            if !tries.again(&error).await {
                return Err(error);
            }
        }
    }

    async fn give_back_once(&self, client: &Client, id: &str) -> Result<(), Error> {
        match self {
            Proof::Lease(acquired) => {
                let has_id = Bug::chosen() != Some(Bug::ReleaseWithoutId);
                let request = ReleaseRequest {
                    owner_id: acquired.owner_id.clone(),
                    lease_id: acquired.lease_id.clone(),
                    fencing_token: acquired.fencing_token,
                    request_id: has_id.then(|| id.to_owned()),
                };
                client.release(&acquired.lock_name, &request).await.map(drop)
            }
            Proof::Leases { owner, leases } => {
                let request = ReleaseAllRequest { owner_id: owner.clone(), leases: leases.clone() };
                client.release_all(&request).await.map(drop)
            }
            Proof::Session { id } => client.close_session(id).await,
        }
    }
}
