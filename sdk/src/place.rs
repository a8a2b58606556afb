//! A place in a queue, left at once by whoever does not want to wait any longer.

use leasehold_api::CancelRequest;

use crate::farewell::{self, GiveBack};
use crate::{Client, Error};

/// Where a request waits. Dropped before its wait is over, it tells the server that nobody waits there any more:
/// otherwise the place would be kept for a connection that might come back.
pub(crate) struct Place {
    client: Client,
    owner: String,
    request_id: Option<String>,
}

impl Place {
    /// Of no request yet.
    pub(crate) fn new(client: &Client, owner: &str) -> Self {
        Self { client: client.clone(), owner: owner.into(), request_id: None }
    }

    /// It is that of this request.
    pub(crate) fn take(&mut self, request_id: &str) {
        self.request_id = Some(request_id.into());
    }

    /// The request was answered.
    pub(crate) fn answered<T>(&mut self, answer: &Result<T, Error>) {
        if !matches!(answer, Err(error) if error.may_have_taken_effect()) {
            self.request_id = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(request_id) = self.request_id.take() {
            let request = CancelRequest { owner_id: std::mem::take(&mut self.owner), request_id };
            farewell::say(Cancel { client: self.client.clone(), request });
        }
    }
}

struct Cancel {
    client: Client,
    request: CancelRequest,
}

impl GiveBack for Cancel {
    async fn give_back(&self, client: &Client) {
        if let Err(error) = client.cancel(&self.request).await {
            tracing::debug!(%error, "a wait was not cancelled, its place is kept for a while");
        }
    }

    fn client(&self) -> &Client {
        &self.client
    }
}
