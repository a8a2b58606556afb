//! Waiting for locks. A wait ends when the caller loses the right to the locks.

use leasehold_auth::{Caller, Denied};
use leasehold_core::{Acquire, Cancel};
use leasehold_engine::{Ask, Call, Error};

use super::error::Refusal;
use crate::app::App;

/// A request that is about to wait for locks.
pub(super) struct Waiting {
    /// The command that removes a parked wait from the queue; `None` if the request has no id and so is never parked.
    cancel: Option<Cancel>,
}

impl Waiting {
    pub(super) fn by(acquire: &Acquire) -> Self {
        let cancel = acquire.request_id.clone().map(|request_id| Cancel {
            owner: acquire.owner.clone(),
            namespace: acquire.lock.namespace.clone(),
            lock: None,
            dialect: acquire.dialect,
            request_id,
        });
        Self { cancel }
    }

    /// Waits for the engine's response. If the caller's right is revoked or its credential becomes invalid in the
    /// meantime, the wait ends and the caller gets that reason.
    pub(super) async fn answer<A: Ask>(
        self,
        app: &App,
        caller: &Caller,
        call: Call<A>,
        is_over: impl Fn(&Result<A::Answer, Error>) -> bool,
        may: impl Fn(&Caller) -> Result<(), Denied>,
    ) -> Result<Result<A::Answer, Error>, Refusal> {
        let denied = tokio::select! {
            answer = call => {
                if is_over(&answer) {
                    // The wait might have ended because the caller's credential expired.
                    caller.still(app.engine.clock()).and_then(|now| may(&now))?;
                }
                return Ok(answer);
            }
            denied = caller.denied(app.engine.clock(), &may) => denied,
        };
        // The call is dropped by now, which only parks a wait with a request id: it would keep its place in the queue
        // for a while.
        if let Some(cancel) = self.cancel {
            let _ = app.engine.ask(caller.own(cancel)).await?;
        }
        Err(denied.into())
    }
}
