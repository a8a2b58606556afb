//! Deliberate bugs, which tests switch on one at a time to prove that a checker finds them.
//!
//! Release builds cannot switch them on: only tests enable the feature `mutants`. Without it `mutant!` is always false.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether any thread has ever switched a bug on. As long as none has, a bug costs one load of a shared byte.
static IS_USED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// One bug. Each is a line or two behind `mutant!` where its name would be looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Core: a waiter is granted the lock though its wait or its session is over.
    GrantWithoutRecheck,
    /// Engine: answers go out before the record is durable.
    AnswerBeforeAppend,
    /// Core: a renewal needs no token.
    RenewWithoutToken,
    /// Core: what is overdue counts until a sweep has come by.
    ExpireBySweepOnly,
    /// Core: a lock's last token is not read back from the tables.
    TokenInMemoryOnly,
    /// Core: a restart starts every ttl anew.
    RestartWithFullTtl,
    /// Core: the request id of an acquire is not kept.
    RequestIdNotStored,
    /// Core: a release frees whoever has the lock.
    ReleaseByName,
    /// Core: last in, first out.
    QueueLifo,
    /// Core: nobody waits for a grace period.
    GraceIgnored,
    /// Core: a replayed acquire tells what was left when it was granted.
    ReplayFirstRemaining,
    /// Engine: busy is told after it was done.
    BusyAfterApplying,
    /// Simulated store: records are deleted that are only in unsynced tables.
    TrimBeforeFoldSynced,
    /// Core: a restore raises nothing.
    IdsReusedAfterRestore,
    /// Engine: an append that failed is told as if nothing was done.
    UnknownAsBusy,
    /// Engine: after an append that failed it goes on with what it has in memory.
    GoOnAfterUnknown,
    /// Engine: an append of which nobody knows yet whether it is durable is answered for.
    UnsettledAsCommitted,
    /// Engine: an append that another server kept from being made is answered for.
    FencedAsCommitted,
    /// Core: an expiry noticed by the sweep lets nobody in.
    ExpireWithoutPromote,
    /// Core: a lease outlives its session.
    SessionIgnored,
    /// Engine: a grant is given back though somebody else was told of it too.
    GiveBackWhatIsKnownElsewhere,
    /// Core: those that wait together are granted one by one.
    GroupGrantedLockByLock,
    /// Core: those that wait together need not be next on every lock.
    GroupPassesOthers,
    /// Core: a lock that is free is given to whoever asks, though some wait for it together with others.
    GroupIsPassed,
    /// Core: of those that waited together, only the first comes back.
    GroupParkedInPart,
    /// Core: of those that wait together, one ends without the others.
    GroupEndedInPart,
    /// Core: a lock that is new after somebody asked for a list is not on lists.
    NewLockNotListed,
    /// Engine: leases asked for together are told though one of them has ended.
    GroupToldInPart,
    /// Core: a repeated request is answered though one of its leases has ended.
    GroupReplayedInPart,
    /// Core: of leases granted together that nobody was told of, only the first is given back.
    GroupGivenBackInPart,
    /// Core: leases are renewed up to the first that cannot be.
    GroupRenewedInPart,
    /// Core: when those that wait together are over, nobody looks at the queues they leave.
    GroupEndsWithoutPromote,
    /// Core: that leases wait together is not read back from the tables.
    GroupNotStored,
    /// Core: what was noted before a restart is noted again.
    NotedAgainAfterRestart,
    /// Core: how long a lease is held counts from when it was asked for.
    HeldFromRequest,
    /// Core: after a restart a waiter keeps its place no longer than after a broken connection.
    ResumedAsDeparted,
    /// Core: of leases that wait together, each is noted.
    WaitNotedOfEachMember,
    /// Core: a deadlock of two or more owners is missed; only an owner that waits for itself is found.
    DeadlockOfTwoUnseen,
    /// Core: a deadlock through the first waiter of a queue is missed; only holders are looked at.
    DeadlockInQueueUnseen,
    /// Core: whoever waits is suspected.
    DeadlockWithoutCircle,
    /// Server: lock time follows the wall clock.
    LockTimeFromWall,
    /// Server: a record is taken for the next one whatever it says of the one before.
    ChainNotChecked,
    /// Server: a journal that ends before the last acknowledged record is taken for whole.
    MarkIgnored,
    /// Simulated store: a record is marked as acknowledged before it is durable.
    MarkBeforeCommit,
    /// Core: a namespace is forgotten and its tokens with it.
    ForgetWithoutRaising,
    /// Engine: a worker's first question wakes nobody.
    AskWithoutWaking,
    /// Engine: its thread is not told that a worker's round made something due sooner.
    DueWithoutWaking,
    /// Engine: whoever gives the writer up does not look whether anything was asked meanwhile.
    SleepWithoutLooking,
    /// Engine: the last of those a round waits for wakes nobody.
    GatherWithoutWaking,
    /// Engine: a grant that nobody was told of is kept.
    UndeliveredIsKept,
    /// Engine: a grant is given back though its client was told of it.
    DeliveredIsGivenBack,
    /// Core: how many leases a namespace has is not looked at.
    NamespaceQuotaIgnored,
    /// Core: a share counts against the limit of holders of a lock.
    SharesLimited,
    /// Core: a lock with shares only counts as held.
    SharesCounted,
    /// Core: shares appear in events.
    SharesTold,
    /// Core: the share of one principal in the budgets is not checked.
    PrincipalShareIgnored,
    /// Store in etcd: who has the seat is not compared, neither by its revision nor by its nonce.
    SeatNotCompared,
    /// Store in etcd: where the journal ends is not compared.
    HeadNotCompared,
    /// Store in etcd: the seat's value is the same every time a node has it.
    NonceNotDrawn,
    /// Store in etcd: a confirmation does not compare where the journal ends.
    ConfirmWithoutHead,
    /// Engine: what changes nothing is confirmed before it is looked up.
    ConfirmBeforeApplying,
    /// Store in etcd: a confirmation may be answered by a member that is behind.
    ConfirmStale,
    /// Store in etcd: what changes nothing is not confirmed.
    ConfirmSkipped,
    /// Engine: what is over by now is told without the time being written.
    DeadlineWithoutTick,
    /// Engine: an append of which nobody knows yet whether it is durable is told as if nothing was done.
    UnsettledAsBusy,
    /// Store in etcd: a refusal for lack of room is told as if nothing was done, after it was applied.
    NoSpaceAsBusy,
    /// Store in etcd: what is not there when it is looked for is taken for not done, though it may be on its way.
    SettleByReading,
    /// Engine: leases end while it is not known whether the last record is durable.
    SweepWhileUnsettled,
    /// Engine: a server that is to stop waits until it knows what became of its last record.
    StopWithTheStore,
    /// Engine: a lease that was over before its record was known to be durable is told as granted.
    ExpiredIsToldAsGranted,
    /// Engine: a grant nobody was told of is given back in a later epoch, which may have told it again.
    DepartureOfAnyEpoch,
    /// Server: when a request was received is turned into lock time at once, not by whoever answers.
    ReceivedByOldClock,
    /// Engine: whoever was in a batch that may be durable is told that nothing was done.
    LostBatchToldNotLeading,
    /// Engine: a new leader answers before its first record is durable.
    AnswerBeforeEpochRecord,
    /// Store in etcd: records that are missing are passed over.
    ApplyOverGap,
    /// Store in etcd: records are deleted before the snapshot they are in counts.
    TrimBeforeManifest,
    /// Store in etcd: what is in a snapshot is deleted up to the record that the head names.
    TrimOfHead,
    /// Store in etcd: a backup is restored while somebody leads.
    RestoreWithoutSeat,
    /// Store in etcd: a node that knows of a restore follows what was there before it.
    EarlierGenerationAccepted,
    /// Store in etcd: pieces of other snapshots are deleted by whoever led once.
    OrphansDeletedUnguarded,
    /// Store in etcd: a follower believes a member that is behind, and takes the store for put back.
    LookStale,
    /// Engine: a store that lost something is given the state before what led to it is written.
    MendedTooSoon,
    /// Store in etcd: a node remembers a record of its own before it is known to be durable.
    UnsettledNoted,
    /// Store in etcd: a new leader goes by the format it read when it began to follow.
    FormatNotReadAgain,
    /// Store in etcd: lock time goes on by the time since an earlier record was received.
    TimeFromOlderRecord,
    /// Store in etcd: a new leader adds the time that the seat of the last one took to run out.
    TimePlusTtl,
    /// Store in etcd: lock time goes on by another node's time since boot.
    ForeignBoottime,
    /// Store in etcd: a record counts as received when it was asked for.
    ReceivedWhenAsked,
    /// Store in etcd: the seat is kept though its writer hangs.
    KeptThoughStuck,
    /// Engine: what was granted to a waiter whose wait ended with an unknown outcome is given back at once.
    ForsakenGivenBack,
    /// Relay: how long a request was held by another server is not looked at.
    HeldTimeIgnored,
    /// Relay: a request whose answer was lost is sent again.
    LostIsRepeated,
    /// Events: a server that has read less than a cursor has seen does not wait for it.
    CursorAheadNotAwaited,
    /// Simulated client: the bound that counts from the send time is counted from the answer.
    CountFromAnswer,
}

/// Those the simulation's checker finds.
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

/// Those that are found by trying every order in which threads can meet.
pub const OF_ROUNDS: [Mutant; 4] = [
    Mutant::AskWithoutWaking,
    Mutant::DueWithoutWaking,
    Mutant::SleepWithoutLooking,
    Mutant::GatherWithoutWaking,
];

/// Those in what is asked for together: the reference model must notice them.
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

/// Those in what is noted of leases: the naive account of it must notice them.
pub const OF_NOTES: [Mutant; 6] = [
    Mutant::NotedAgainAfterRestart,
    Mutant::HeldFromRequest,
    Mutant::WaitNotedOfEachMember,
    Mutant::DeadlockOfTwoUnseen,
    Mutant::DeadlockInQueueUnseen,
    Mutant::DeadlockWithoutCircle,
];

/// Those in what becomes of an answer on its way to the socket.
pub const OF_DELIVERY: [Mutant; 2] = [Mutant::UndeliveredIsKept, Mutant::DeliveredIsGivenBack];

/// Those in what servers pass on to each other.
pub const OF_PEERS: [Mutant; 4] = [
    Mutant::HeldTimeIgnored,
    Mutant::LostIsRepeated,
    Mutant::GiveBackWhatIsKnownElsewhere,
    Mutant::CursorAheadNotAwaited,
];

/// The bugs in what becomes of waiters while etcd is silent.
pub const OF_SILENCE: [Mutant; 1] = [Mutant::ForsakenGivenBack];

/// Gives the bug of this thread to the thread that runs `life`.
pub fn inherited<T>(life: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let mutant = ON.get();
    move || {
        switch(mutant);
        life()
    }
}

/// Switches this bug on for this thread, or all of them off.
pub fn switch(mutant: Option<Mutant>) {
    if mutant.is_some() {
        IS_USED.store(true, Relaxed);
    }
    ON.set(mutant);
}

/// Whether this build has the bugs. The tests of the server have them only if the simulation is built with them.
pub const IS_BUILT: bool = cfg!(feature = "mutants");

/// A constant in builds without the feature, so that the compiler removes the bugs.
#[inline]
pub fn is_on(mutant: Mutant) -> bool {
    IS_BUILT && IS_USED.load(Relaxed) && ON.get() == Some(mutant)
}
