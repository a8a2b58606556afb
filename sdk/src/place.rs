//! A position in a queue, or a grant that is on its way. If the caller no longer wants it, it is cancelled or released
//! immediately.

use leasehold_api::CancelRequest;

use crate::farewell::{self, GiveBack};
use crate::retry::persist;
use crate::terms::Wish;
use crate::{Client, Error};

/// What the server might hold for a request: a position in the queue or a granted lease. If this is dropped before
/// the caller has the result, it cancels the wait at the server and releases a lease that was granted in the
/// meantime. Otherwise the server would keep the position for a connection that might return, and the lease until it
/// expires.
pub(crate) struct Place<'a, W: Wish> {
    wish: &'a W,
    request_id: Option<String>,
}

impl<'a, W: Wish> Place<'a, W> {
    /// Creates it without a request.
    pub(crate) fn new(wish: &'a W) -> Self {
        Self { wish, request_id: None }
    }

    /// Sets the request that the position belongs to.
    pub(crate) fn take(&mut self, request_id: &str) {
        self.request_id = Some(request_id.into());
    }

    /// Records that the request failed. If the outcome is unknown, the position is still cancelled on drop.
    pub(crate) fn refused(&mut self, error: &Error) {
        if !error.may_have_taken_effect() {
            self.request_id = None;
        }
    }

    /// Records that there is nothing to cancel or release: the caller has the lease, or has an error that it might have
    /// been granted.
    pub(crate) fn settle(&mut self) {
        self.request_id = None;
    }
}

impl<W: Wish> Drop for Place<'_, W> {
    fn drop(&mut self) {
        if let Some(request_id) = self.request_id.take() {
            farewell::say(Leaving { wish: self.wish.clone(), request_id });
        }
    }
}

struct Leaving<W> {
    wish: W,
    request_id: String,
}

impl<W: Wish> Leaving<W> {
    async fn leave(&self, client: &Client) -> Result<(), Error> {
        let (owner_id, request_id) = (self.wish.terms().owner.clone(), self.request_id.clone());
        let request = CancelRequest { owner_id, request_id };
        if persist(client, || client.cancel(&request)).await? {
            return Ok(());
        }
        // The request no longer waits, so its lease might have been granted. Repeating the request returns that
        // lease, which is then released.
        let wish = self.wish.by(client);
        let granted = persist(client, || wish.ask(&self.request_id, None)).await?;
        wish.give_back(granted).await;
        Ok(())
    }
}

impl<W: Wish> GiveBack for Leaving<W> {
    async fn give_back(&self, client: &Client) {
        if let Err(error) = self.leave(client).await {
            tracing::debug!(%error, "could not cancel the request immediately");
        }
    }

    fn client(&self) -> &Client {
        self.wish.client()
    }
}
