//! The wire format of the native protocol: requests, responses and error codes.
//!
//! Times are integers in milliseconds. `expires_in_ms` is the time left when the response was made.
//! `expires_after_send_ms` counts from the moment at which the server received the request: a client that adds it to
//! the time at which it *sent* the request always gives up before the server does.

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
