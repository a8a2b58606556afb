//! Deliberate bugs, each of which a script must find. A script that finds no bug proves nothing.

/// A mistake that clients of lock servers make. `naive-driver` makes one if `CONFORMANCE_BUG` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is told in the table")]
pub enum Bug {
    NeverRenews,
    OneRequestId,
    SeveralOneByOne,
    NeverTellsLoss,
    CountsFromAnswer,
    CountsTtlFromSend,
    TrustsSlowRenewals,
    Resurrects,
    IgnoresRefusedRenewals,
    BrokenIsLost,
    TrustsAnything,
    NewRequestIdEachTry,
    ReleaseWithoutId,
    RenewsAfterRelease,
    ClaimsRelease,
    WaitsOnce,
    WaitsAgain,
    CancelsLocally,
    KeepsUnwanted,
    ChecksNoClock,
    RenewsEachOfSession,
    SessionTellsNoLock,
    FirstUrlOnly,
    NoTimeForTheNext,
    NeverAsksWhoLeads,
    FollowsAnyServer,
    DropsAnEvent,
    LeaderSaysNothing,
    LogsTheKey,
    IgnoresNamespace,
    WritesNextToken,
    KeepsClosedSession,
}

/// Every bug, what it is, and the scripts that must find it.
pub const BUGS: &[(Bug, &str, &[&str])] = &[
    (Bug::NeverRenews, "a lease is never renewed", &["renewed_while_held"]),
    (Bug::OneRequestId, "every acquire has the same request id", &["held_is_held"]),
    (Bug::SeveralOneByOne, "several locks are acquired one by one", &["several_or_none"]),
    (Bug::NeverTellsLoss, "no loss is told", &["loss_before_end"]),
    (Bug::CountsFromAnswer, "counts from the answer", &["loss_counts_from_send"]),
    (Bug::CountsTtlFromSend, "counts the ttl from the send time", &["loss_after_wait"]),
    (
        Bug::TrustsSlowRenewals,
        "no loss is told while a renewal is under way",
        &["loss_when_server_stops"],
    ),
    (Bug::Resurrects, "a late answer brings a lease back", &["loss_is_final"]),
    (Bug::IgnoresRefusedRenewals, "a refused renewal is tried again", &["revoked_is_told"]),
    (
        Bug::BrokenIsLost,
        "a broken renewal is a loss",
        &["server_killed_lease_kept", "leader_paused"],
    ),
    (Bug::TrustsAnything, "any 200 renews a lease", &["foreign_is_no_answer"]),
    (
        Bug::NewRequestIdEachTry,
        "each try has its own request id",
        &["request_id_reused", "wait_survives_cuts"],
    ),
    (Bug::ReleaseWithoutId, "a release has no request id", &["release_is_one"]),
    (Bug::RenewsAfterRelease, "a release does not stop renewals", &["nothing_after_release"]),
    (Bug::ClaimsRelease, "a release that failed is told as done", &["release_gives_up"]),
    (Bug::WaitsOnce, "a wait that breaks is over", &["wait_survives_restart", "leader_killed"]),
    (Bug::WaitsAgain, "repeats a wait that was ended", &["ended_wait_is_over"]),
    (Bug::CancelsLocally, "a cancelled wait goes on", &["cancel_leaves_queue"]),
    (Bug::KeepsUnwanted, "what is granted to who has gone is kept", &["cancel_gives_back"]),
    (Bug::ChecksNoClock, "a check does not look at the clock", &["paused_client"]),
    (Bug::WritesNextToken, "a write carries another token", &["paused_client"]),
    (Bug::RenewsEachOfSession, "every lock of a session is renewed", &["session_many_locks"]),
    (Bug::KeepsClosedSession, "a closed session is kept alive", &["session_many_locks"]),
    (Bug::SessionTellsNoLock, "only the session is told lost", &["session_loss"]),
    (
        Bug::FirstUrlOnly,
        "only the first URL is used",
        &["fail_over_refused", "fail_over_stalled", "fail_over_silent", "leader_killed"],
    ),
    (
        Bug::NoTimeForTheNext,
        "all tries together last no longer than one of them",
        &["fail_over_silent"],
    ),
    (
        Bug::NeverAsksWhoLeads,
        "those that follow have to pass all on",
        &["fail_over_leader", "leader_killed"],
    ),
    (Bug::FollowsAnyServer, "goes wherever a server sends it", &["fail_over_stranger"]),
    (Bug::DropsAnEvent, "an event is not told", &["events_complete"]),
    (Bug::LeaderSaysNothing, "a leader does not say who it is", &["election"]),
    (Bug::LogsTheKey, "the API key is in the log", &["api_key_is_secret"]),
    (Bug::IgnoresNamespace, "the namespace is ignored", &["namespaced"]),
];

impl Bug {
    /// Returns its name in `CONFORMANCE_BUG`.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Returns the bug that `CONFORMANCE_BUG` names.
    pub fn chosen() -> Option<Self> {
        let name = std::env::var("CONFORMANCE_BUG").ok()?;
        BUGS.iter().map(|(bug, ..)| *bug).find(|bug| bug.name() == name)
    }
}
