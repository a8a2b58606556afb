//! The scripts. Each is a small function that causes one fault and judges the reaction.

mod acquire;
mod address;
mod election;
pub(crate) mod event;
mod leader;
mod loss;
mod pause;
mod release;
mod secret;
mod session;
mod wait;

use std::pin::Pin;
use std::time::Duration;

use crate::flaw::Outcome;
use crate::world::World;

/// The future of a running script.
pub type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A script and its name in the protocol.
#[derive(Clone, Copy)]
pub struct Script {
    /// The name in `PROTOCOL.md`.
    pub name: &'static str,
    /// Runs it.
    pub run: for<'a> fn(&'a World) -> Running<'a>,
}

macro_rules! scripts {
    ($($noun:ident::$name:ident,)+) => {
        &[$(Script { name: stringify!($name), run: |world| Box::pin($noun::$name(world)) }),+]
    };
}

/// All scripts, in the order of the protocol.
pub const SCRIPTS: &[Script] = scripts![
    acquire::renewed_while_held,
    acquire::held_is_held,
    acquire::several_or_none,
    loss::loss_before_end,
    loss::loss_counts_from_send,
    loss::loss_after_wait,
    loss::loss_when_server_stops,
    loss::loss_is_final,
    loss::revoked_is_told,
    loss::server_killed_lease_kept,
    acquire::foreign_is_no_answer,
    acquire::request_id_reused,
    release::release_is_one,
    release::nothing_after_release,
    release::release_gives_up,
    wait::wait_survives_restart,
    wait::wait_survives_cuts,
    wait::ended_wait_is_over,
    wait::cancel_leaves_queue,
    wait::cancel_gives_back,
    pause::paused_client,
    session::session_many_locks,
    session::session_loss,
    address::fail_over_refused,
    address::fail_over_stalled,
    address::fail_over_silent,
    leader::fail_over_leader,
    leader::fail_over_stranger,
    event::events_complete,
    election::election,
    secret::api_key_is_secret,
    acquire::namespaced,
];

/// Returns the names of all scripts, including those that run with all drivers in one cluster.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCRIPTS.iter().map(|script| script.name).chain(crate::cluster::NAMES)
}

/// How long a script waits for what a correct driver does at once or after its next try: more than ten times what that
/// takes. A script with a deliberate bug may have to wait for all of it.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// How long a driver waits for a lock, at most. Longer than any script lets it wait.
pub(crate) const WAIT_MS: u64 = 150_000;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
