//! Deliberate bugs, which tests switch on one at a time to prove that a checker finds them.
//!
//! Release builds cannot switch them on: only tests enable the feature `mutants`. Without it `mutant!` is always false.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether any thread has ever switched a bug on. Until then, each check of a bug costs one load of a shared byte.
static IS_USED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// A deliberate bug. Each is one or two lines behind `mutant!`, at the place its name suggests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Core: a waiter is granted the lock even though its wait or its session has ended.
    GrantWithoutRecheck,
    /// Engine: answers are sent before the record is durable.
    AnswerBeforeAppend,
    /// Core: a renewal does not check the token.
    RenewWithoutToken,
    /// Core: an overdue lease counts as active until a sweep ends it.
    ExpireBySweepOnly,
    /// Core: a lock's last token is not restored from the tables.
    TokenInMemoryOnly,
    /// Core: a restart resets every lease to its full TTL.
    RestartWithFullTtl,
    /// Core: the request id of an acquire is not stored.
    RequestIdNotStored,
    /// Core: a release ends the lease of any holder.
    ReleaseByName,
    /// Core: the queue is last in, first out.
    QueueLifo,
    /// Core: grace periods are ignored.
    GraceIgnored,
    /// Core: a replayed acquire reports the remaining time from its grant instead of the current one.
    ReplayFirstRemaining,
    /// Engine: a request is rejected as busy after it was applied.
    BusyAfterApplying,
    /// Simulated store: deletes records whose changes are only in unsynced tables.
    TrimBeforeFoldSynced,
    /// Core: a restore raises no tokens or numbers.
    IdsReusedAfterRestore,
    /// Engine: a failed append is reported as if nothing was written.
    UnknownAsBusy,
    /// Engine: continues with the state in memory after a failed append.
    GoOnAfterUnknown,
    /// Engine: answers for an append that might not be durable.
    UnsettledAsCommitted,
    /// Engine: answers for an append that another server prevented.
    FencedAsCommitted,
    /// Core: when the sweep expires a lease, the next waiter is not granted the lock.
    ExpireWithoutPromote,
    /// Core: a lease outlives its session.
    SessionIgnored,
    /// Engine: releases an undelivered grant even though another connection was told of it.
    GiveBackWhatIsKnownElsewhere,
    /// Core: the leases of a group are granted one by one.
    GroupGrantedLockByLock,
    /// Core: a group is granted without being first in every queue.
    GroupPassesOthers,
    /// Core: an acquire is granted a free lock ahead of a waiting group.
    GroupIsPassed,
    /// Core: when a group's client returns, only the first lease is unparked.
    GroupParkedInPart,
    /// Core: one lease of a waiting group ends without the others.
    GroupEndedInPart,
    /// Core: after the first list request, new locks are missing from lists.
    NewLockNotListed,
    /// Core: a renewal is not collected, so lists show the lock's earlier deadline.
    RenewalNotCollected,
    /// Engine: the directory of locks still counts what a lock was before it changed.
    FormerStateCounted,
    /// Engine: a grant of a group is reported even though one of its leases has ended.
    GroupToldInPart,
    /// Core: a repeated request of a group is answered even though one of its leases has ended.
    GroupReplayedInPart,
    /// Core: of an undelivered grant of a group, only the first lease is released.
    GroupGivenBackInPart,
    /// Core: renewing several leases renews those before the first failure.
    GroupRenewedInPart,
    /// Core: when a waiting group ends, the queues it leaves are not checked.
    GroupEndsWithoutPromote,
    /// Core: groups are not restored from the tables.
    GroupNotStored,
    /// Core: observations noted before a restart are noted again.
    NotedAgainAfterRestart,
    /// Core: the time a lease is held is counted from its request instead of its grant.
    HeldFromRequest,
    /// Core: after a restart, waiters keep their position only as long as after a closed connection.
    ResumedAsDeparted,
    /// Core: each lease of a waiting group is noted, instead of one.
    WaitNotedOfEachMember,
    /// Core: deadlocks of two or more owners are missed. Only an owner that waits for itself is found.
    DeadlockOfTwoUnseen,
    /// Core: deadlocks through the first waiter of a queue are missed. Only holders are followed.
    DeadlockInQueueUnseen,
    /// Core: every long wait is suspected of being a deadlock.
    DeadlockWithoutCircle,
    /// Server: lock time follows the wall clock.
    LockTimeFromWall,
    /// Server: a record is accepted without checking that it follows the record before it.
    ChainNotChecked,
    /// Server: a journal that ends before the last acknowledged record is accepted.
    MarkIgnored,
    /// Simulated store: marks a record as acknowledged before it is durable.
    MarkBeforeCommit,
    /// Core: forgetting a namespace loses its last tokens.
    ForgetWithoutRaising,
    /// Engine: a worker's first request does not wake the engine's thread.
    AskWithoutWaking,
    /// Engine: its thread is not woken when a worker's round sets an earlier deadline.
    DueWithoutWaking,
    /// Engine: a thread that gives up the writer's role does not check for requests that arrived in the meantime.
    SleepWithoutLooking,
    /// Engine: the last of the requests that a round waits for does not wake it.
    GatherWithoutWaking,
    /// Engine: a grant whose answer was not delivered is kept.
    UndeliveredIsKept,
    /// Engine: a grant is released even though its answer was delivered.
    DeliveredIsGivenBack,
    /// Core: a namespace's quota of leases is not checked.
    NamespaceQuotaIgnored,
    /// Core: a share counts against the limit of holders of a lock.
    SharesLimited,
    /// Core: a lock with shares only counts as held.
    SharesCounted,
    /// Core: shares appear in events.
    SharesTold,
    /// Core: the share of one principal in the budgets is not checked.
    PrincipalShareIgnored,
    /// etcd store: the leader key's revision and nonce are not compared.
    SeatNotCompared,
    /// etcd store: the end of the journal is not compared.
    HeadNotCompared,
    /// etcd store: the leader key has the same value every time a node is leader.
    NonceNotDrawn,
    /// etcd store: a confirmation does not compare the end of the journal.
    ConfirmWithoutHead,
    /// Engine: read-only requests are confirmed before they are applied.
    ConfirmBeforeApplying,
    /// etcd store: a confirmation can be answered by an etcd member that lags behind.
    ConfirmStale,
    /// etcd store: read-only requests are not confirmed.
    ConfirmSkipped,
    /// Engine: an expiry is reported without a durable record of the time.
    DeadlineWithoutTick,
    /// Engine: an append with an unknown outcome is reported as if nothing was written.
    UnsettledAsBusy,
    /// etcd store: when etcd is out of space, requests are rejected as not done after they were applied.
    NoSpaceAsBusy,
    /// etcd store: a write that a read does not find counts as not done, although it could still arrive.
    SettleByReading,
    /// Engine: leases end while the outcome of the last record is unknown.
    SweepWhileUnsettled,
    /// Engine: a shutdown waits until the outcome of the last record is known.
    StopWithTheStore,
    /// Engine: a lease that expired before its record was durable is reported as granted.
    ExpiredIsToldAsGranted,
    /// Engine: an undelivered grant is released in a later epoch, which might have delivered it.
    DepartureOfAnyEpoch,
    /// Server: the receive time of a request is converted to lock time immediately, so a later clock correction is
    /// missed.
    ReceivedByOldClock,
    /// Engine: clients of a batch that might be durable are told that nothing was done.
    LostBatchToldNotLeading,
    /// Engine: a new leader answers before its first record is durable.
    AnswerBeforeEpochRecord,
    /// etcd store: missing records are skipped.
    ApplyOverGap,
    /// etcd store: records are deleted before the snapshot that contains them is valid.
    TrimBeforeManifest,
    /// etcd store: records in a snapshot are deleted up to and including the record that the journal head refers to.
    TrimOfHead,
    /// etcd store: a backup is restored while another server is leader.
    RestoreWithoutSeat,
    /// etcd store: a node that knows of a restore continues with the journal from before it.
    EarlierGenerationAccepted,
    /// etcd store: a former leader can still delete chunks of other snapshots.
    OrphansDeletedUnguarded,
    /// etcd store: a follower trusts an etcd member that lags behind, and concludes that the store was rolled back.
    LookStale,
    /// Engine: after the store lost data, the state is written back too early, before the records that led to it.
    MendedTooSoon,
    /// etcd store: a node remembers its own record before it is known to be durable.
    UnsettledNoted,
    /// etcd store: a new leader uses the format it read when it started to follow.
    FormatNotReadAgain,
    /// etcd store: lock time advances by the time since an older record was received.
    TimeFromOlderRecord,
    /// etcd store: a new leader adds the TTL of its predecessor's leader key to lock time.
    TimePlusTtl,
    /// etcd store: lock time advances by another node's time since boot.
    ForeignBoottime,
    /// etcd store: a record's receive time is the time of the read request.
    ReceivedWhenAsked,
    /// etcd store: the leader key is renewed even though the writer is stuck.
    KeptThoughStuck,
    /// Engine: a grant to a waiter whose wait ended with an unknown outcome is released immediately.
    ForsakenGivenBack,
    /// Engine: a leader that has not been confirmed for the length of its lease still accepts requests.
    HeldWhileLapsed,
    /// Relay: the time a request spent on another server is not subtracted.
    HeldTimeIgnored,
    /// Relay: a request whose answer was lost is sent again.
    LostIsRepeated,
    /// Events: a server that is behind a client's cursor does not wait to catch up.
    CursorAheadNotAwaited,
    /// Simulated client: the deadline that counts from the send time is counted from the answer.
    CountFromAnswer,
}

/// The bugs that the simulation's checker finds.
pub const ALL: [Mutant; 34] = [
    Mutant::GrantWithoutRecheck,
    Mutant::AnswerBeforeAppend,
    Mutant::RenewWithoutToken,
    Mutant::ExpireBySweepOnly,
    Mutant::TokenInMemoryOnly,
    Mutant::RestartWithFullTtl,
    Mutant::RequestIdNotStored,
    Mutant::ReleaseByName,
    Mutant::QueueLifo,
    Mutant::GraceIgnored,
    Mutant::ReplayFirstRemaining,
    Mutant::BusyAfterApplying,
    Mutant::TrimBeforeFoldSynced,
    Mutant::IdsReusedAfterRestore,
    Mutant::UnknownAsBusy,
    Mutant::GoOnAfterUnknown,
    Mutant::UnsettledAsCommitted,
    Mutant::FencedAsCommitted,
    Mutant::ExpireWithoutPromote,
    Mutant::SessionIgnored,
    Mutant::GiveBackWhatIsKnownElsewhere,
    Mutant::LockTimeFromWall,
    Mutant::ForgetWithoutRaising,
    Mutant::AskWithoutWaking,
    Mutant::DueWithoutWaking,
    Mutant::CountFromAnswer,
    Mutant::DeliveredIsGivenBack,
    Mutant::ChainNotChecked,
    Mutant::MarkIgnored,
    Mutant::MarkBeforeCommit,
    Mutant::GroupPassesOthers,
    Mutant::GroupIsPassed,
    Mutant::GroupParkedInPart,
    Mutant::GroupNotStored,
];

/// The bugs that are found by trying every interleaving of the threads.
pub const OF_ROUNDS: [Mutant; 4] = [
    Mutant::AskWithoutWaking,
    Mutant::DueWithoutWaking,
    Mutant::SleepWithoutLooking,
    Mutant::GatherWithoutWaking,
];

/// The bugs in groups, which the reference model must find.
pub const GROUPS: [Mutant; 10] = [
    Mutant::GroupGrantedLockByLock,
    Mutant::GroupPassesOthers,
    Mutant::GroupIsPassed,
    Mutant::GroupParkedInPart,
    Mutant::GroupEndedInPart,
    Mutant::GroupReplayedInPart,
    Mutant::GroupGivenBackInPart,
    Mutant::GroupRenewedInPart,
    Mutant::GroupEndsWithoutPromote,
    Mutant::GroupNotStored,
];

/// The bugs in shares: the reference model must find them.
pub const OF_SHARES: [Mutant; 3] =
    [Mutant::SharesLimited, Mutant::SharesCounted, Mutant::SharesTold];

/// The bugs in notes about leases, which the naive account of notes must find.
pub const OF_NOTES: [Mutant; 6] = [
    Mutant::NotedAgainAfterRestart,
    Mutant::HeldFromRequest,
    Mutant::WaitNotedOfEachMember,
    Mutant::DeadlockOfTwoUnseen,
    Mutant::DeadlockInQueueUnseen,
    Mutant::DeadlockWithoutCircle,
];

/// The bugs in the delivery of answers to connections.
pub const OF_DELIVERY: [Mutant; 2] = [Mutant::UndeliveredIsKept, Mutant::DeliveredIsGivenBack];

/// The bugs in forwarding requests between servers.
pub const OF_PEERS: [Mutant; 4] = [
    Mutant::HeldTimeIgnored,
    Mutant::LostIsRepeated,
    Mutant::GiveBackWhatIsKnownElsewhere,
    Mutant::CursorAheadNotAwaited,
];

/// The bugs in handling waiters while etcd is unavailable.
pub const OF_SILENCE: [Mutant; 2] = [Mutant::ForsakenGivenBack, Mutant::HeldWhileLapsed];

/// Passes the current thread's bug to the thread that runs `life`.
pub fn inherited<T>(life: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let mutant = ON.get();
    move || {
        switch(mutant);
        life()
    }
}

/// Switches a bug on for the current thread, or all bugs off.
pub fn switch(mutant: Option<Mutant>) {
    if mutant.is_some() {
        IS_USED.store(true, Relaxed);
    }
    ON.set(mutant);
}

/// Whether this build contains the bugs. Tests of the server contain them only if they are built together with the
/// simulation.
pub const IS_BUILT: bool = cfg!(feature = "mutants");

/// Returns whether a bug is on in this thread. Without the feature this is the constant false, so the compiler removes
/// the bugs.
#[inline]
pub fn is_on(mutant: Mutant) -> bool {
    IS_BUILT && IS_USED.load(Relaxed) && ON.get() == Some(mutant)
}
