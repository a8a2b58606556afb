//! The native dialect on the wire: what a client sends, what the server answers, and every error code.
//!
//! Times are integers in milliseconds. `expires_in_ms` is the time left when the answer was made.
//! `expires_after_send_ms` counts from the moment the request was received: a client that adds it to the time it *sent*
//! the request always gives up before the server does.

mod admin;
mod error;
mod event;
mod fence;
mod group;
mod history;
mod lock;
mod object;
mod session;
mod state;

pub use admin::{
    AuthState, BackupTaken, Maintenance, MaintenanceRequest, RevokeAllRequest, RevokedAll,
    RevokedFrom, SessionList, SessionState,
};
pub use error::{Code, Failure};
pub use event::{Event, EventKind, Gap};
pub use fence::{FenceCheck, FenceVerdict};
pub use group::{
    AcquireAllRequest, AcquiredAll, CancelRequest, Cancelled, GrantedLease, HeldLease, LeaseEnd,
    NotRenewedAll, ReleaseAllRequest, ReleasedAll, ReleasedLease, RenewAllRequest, WantedLock,
    WatchLeaseRequest, WatchedLease,
};
pub use history::{History, PastEvent};
pub use lock::{
    AcquireRequest, Acquired, Holder, LockList, LockState, Mode, NotAcquired, NotReleased,
    NotRenewed, Reason, ReleaseRequest, Released, RenewRequest, Renewed, RevokeRequest, Revoked,
    RevokedLease, Waiter,
};
pub use session::{KeptAlive, OpenSessionRequest, SessionOpened};
pub use state::{StateVersion, StateVersions, StateWritten, TerraformState, TerraformStates};
