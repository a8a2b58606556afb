//! A place in a queue, or a grant that is on its way: given up at once by whoever does not want it any longer.

use leasehold_api::CancelRequest;

use crate::farewell::{self, GiveBack};
use crate::retry::persist;
use crate::terms::Wish;
use crate::{Client, Error};

/// What the server may have for a request. Dropped before that is in anybody's hands, it tells the server that nobody
/// waits there any more, and gives back what was granted meanwhile: otherwise a place would be kept for a connection
/// that might come back, and a lease for as long as it lasts.
pub(crate) struct Place<'a, W: Wish> {
    wish: &'a W,
    request_id: Option<String>,
}

impl<'a, W: Wish> Place<'a, W> {
    /// Of no request yet.
    pub(crate) fn new(wish: &'a W) -> Self {
        Self { wish, request_id: None }
    }

    /// It is that of this request.
    pub(crate) fn take(&mut self, request_id: &str) {
        self.request_id = Some(request_id.into());
    }

    /// The request was refused, or nobody knows.
    pub(crate) fn refused(&mut self, error: &Error) {
        if !error.may_have_taken_effect() {
            self.request_id = None;
        }
    }

    /// There is nothing to give up: somebody has what was granted, or is told that it may have been.
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
        // Nobody waits, so it may have been granted. The same request tells, and what it gives is given back.
        let wish = self.wish.by(client);
        let granted = persist(client, || wish.ask(&self.request_id, None)).await?;
        wish.give_back(granted).await;
        Ok(())
    }
}

impl<W: Wish> GiveBack for Leaving<W> {
    async fn give_back(&self, client: &Client) {
        if let Err(error) = self.leave(client).await {
            tracing::debug!(%error, "what was asked for could not be given up at once");
        }
    }

    fn client(&self) -> &Client {
        self.wish.client()
    }
}
