//! The leases of a driver, whatever kind of guard holds them.

use leasehold::{Error, Leadership, LockGuard, Lost, MultiGuard};
use serde_json::{Value, json};

/// A guard of any kind.
pub(crate) enum Guard {
    One(LockGuard),
    Several(MultiGuard),
    Leader(Leadership),
}

/// A lease that the harness has named. It is kept after its release, because the harness might still check it.
pub(crate) struct Lease {
    pub(crate) guard: Option<Guard>,
    pub(crate) token: u64,
}

impl Guard {
    pub(crate) fn check(&self) -> Result<(), Lost> {
        match self {
            Guard::One(guard) => guard.check(),
            Guard::Several(guard) => guard.check(),
            Guard::Leader(leadership) => leadership.check(),
        }
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Guard::One(guard) => guard.release().await,
            Guard::Several(guard) => guard.release().await,
            Guard::Leader(leadership) => leadership.resign().await,
        }
    }

    /// Starts to report the loss of the lease, once.
    pub(crate) fn watch(&self, name: &str) {
        match self {
            Guard::One(guard) => tell("lease", name, guard.lost()),
            Guard::Several(guard) => tell("lease", name, guard.lost()),
            Guard::Leader(leadership) => tell("lease", name, leadership.lost()),
        }
    }

    pub(crate) fn tokens(&self) -> Vec<u64> {
        match self {
            Guard::One(guard) => vec![guard.fencing_token()],
            Guard::Several(guard) => {
                guard.leases().iter().map(|lease| lease.fencing_token).collect()
            }
            Guard::Leader(leadership) => vec![leadership.fencing_token()],
        }
    }
}

/// Reports the loss of a lease or a session as soon as it occurs.
pub(crate) fn tell(what: &str, name: &str, lost: impl Future<Output = Lost> + Send + 'static) {
    let mut event = json!({"event": "lost"});
    event[what] = Value::from(name);
    tokio::spawn(async move {
        event["reason"] = Value::from(match lost.await {
            Lost::OutOfTime => "out_of_time",
            Lost::Released => "released",
            _ => "ended",
        });
        leasehold_conformance::speak::say(&event);
    });
}
