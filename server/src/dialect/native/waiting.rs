//! A wait that lasts as long as whoever waits may have what they wait for.

use leasehold_core::{Acquire, Cancel};

use super::error::Refusal;
use crate::app::App;
use crate::auth::{Caller, Denied};
use crate::engine::{Ask, Call, Error};

/// A wait that is about to begin.
pub(super) struct Waiting {
    /// How to end it, if it could be come back to.
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

    /// The answer. Whoever loses the right to have it, or whose credential counts no more, leaves the queue and is told
    /// why.
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
                    // It may have been ended because of that.
                    caller.still(&app.engine).and_then(|now| may(&now))?;
                }
                return Ok(answer);
            }
            denied = caller.denied(&app.engine, &may) => denied,
        };
        // By now the call is gone, and what has a request id would keep its place for a while.
        if let Some(cancel) = self.cancel {
            let _ = app.engine.ask(caller.own(cancel)).await?;
        }
        Err(denied.into())
    }
}
