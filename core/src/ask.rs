//! The table of all commands with the types of their answers, one line per command.
//!
//! To add a command, add its struct to `command.rs`, its decision to a new file under `apply/`, and its line to the
//! table below. The answer can be any type.

use crate::apply::{
    acquire, acquire_all, cancel, confirm, leave, maintain, proof, release, renew, restore, revoke,
    session, settle, sweep,
};
use crate::command::{
    Acquire, AcquireAll, Amend, Cancel, CloseSession, Confirm, EndSession, GiveUp, KeepSession,
    Leave, Maintain, OpenSession, Prove, Release, ReleaseAll, Renew, RenewAll, Restore, Resume,
    Revoke, Settle, StepAside, Sweep,
};
use crate::lease::LeaseRecord;
use crate::outcome::{Acquired, AcquiredAll, Rejection, SessionOpened, Swept};
use crate::time::Timestamp;
use crate::transition::Transition;
use crate::view::LeaseView;

/// A command for the machine, with the type of its answer.
pub trait Ask: Sized {
    /// The answer if the command is not rejected.
    type Answer;

    /// Converts to [`Command`], for code that handles commands of any type.
    fn into_command(self) -> Command;

    /// Extracts the answer from an outcome. Returns `None` if the outcome belongs to another command.
    fn answer_in(outcome: Outcome) -> Option<Self::Answer>;

    /// Executes the command. Only the machine can call this, because only it can create a [`Transition`].
    #[doc(hidden)]
    fn decide(self, t: &mut Transition<'_>) -> Result<Self::Answer, Rejection>;
}

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident -> $answer:ty, $decide:expr;)*) => {
        /// Any command. Each is executed completely or not at all.
        #[derive(Clone, Debug)]
        pub enum Command {
            $($(#[$doc])* $name($name),)*
        }

        /// The answer of any command.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Outcome {
            $(#[doc = concat!("The answer to [`Command::", stringify!($name), "`].")] $name($answer),)*
        }

        impl Ask for Command {
            type Answer = Outcome;

            fn into_command(self) -> Command {
                self
            }

            fn answer_in(outcome: Outcome) -> Option<Outcome> {
                Some(outcome)
            }

            fn decide(self, t: &mut Transition<'_>) -> Result<Outcome, Rejection> {
                match self {
                    $(Command::$name(asked) => asked.decide(t).map(Outcome::$name),)*
                }
            }
        }

        $(
            impl Ask for $name {
                type Answer = $answer;

                fn into_command(self) -> Command {
                    Command::$name(self)
                }

                fn answer_in(outcome: Outcome) -> Option<$answer> {
                    match outcome {
                        Outcome::$name(answer) => Some(answer),
                        _ => None,
                    }
                }

                fn decide(self, t: &mut Transition<'_>) -> Result<$answer, Rejection> {
                    let decide: fn(&mut Transition<'_>, $name) -> Result<$answer, Rejection> = $decide;
                    decide(t, self)
                }
            }

            impl From<$name> for Command {
                fn from(asked: $name) -> Self {
                    Command::$name(asked)
                }
            }
        )*
    };
}

commands! {
    /// Acquires a lock, or queues for it.
    Acquire -> Acquired, acquire::acquire;
    /// Acquires several locks or none, or queues for all of them.
    AcquireAll -> AcquiredAll, acquire_all::acquire_all;
    /// Ends the owner's own wait. The answer is whether there was one.
    Cancel -> bool, |t, asked| cancel::cancel(t, &asked);
    /// Moves the deadline of a lease.
    Renew -> Box<LeaseView>, |t, asked| renew::renew(t, &asked);
    /// Moves the deadlines of several leases, or of none.
    RenewAll -> Vec<LeaseView>, |t, asked| renew::renew_all(t, &asked);
    /// Releases several leases. The answer has one result per requested lease: a lease that is no longer active gets an
    /// error, and the others are released.
    ReleaseAll -> Vec<Result<LeaseView, Rejection>>, |t, asked| release::release_all(t, &asked);
    /// Releases a lease.
    Release -> Box<LeaseView>, |t, asked| release::release(t, &asked);
    /// Releases a lease by its owner's name, or ends the grace period after it.
    GiveUp -> (), |t, asked| release::give_up(t, asked);
    /// Ends leases by force.
    Revoke -> Vec<LeaseView>, |t, asked| revoke::revoke(t, &asked);
    /// Changes the TTL of later grants of a lease.
    Amend -> Box<LeaseView>, |t, asked| renew::amend(t, &asked);
    /// Checks whether a lease is active. If it waits, the rejection names what blocks it.
    Confirm -> Box<LeaseRecord>, |t, asked| confirm::confirm(t, &asked);
    /// Handles the closed connection of a lease's client.
    Leave -> (), |t, Leave(lease)| { leave::leave(t, lease); Ok(()) };
    /// Handles a wait that ended with an unknown outcome. The answer is whether the lease is active and can be found by
    /// a repeated request.
    StepAside -> bool, |t, StepAside(lease)| Ok(leave::step_aside(t, lease));
    /// Opens a session.
    OpenSession -> SessionOpened, session::open;
    /// Keeps a session alive. The answer is its new deadline.
    KeepSession -> Timestamp, |t, asked| session::keep(t, &asked);
    /// Closes a session and ends all its leases.
    CloseSession -> (), |t, asked| session::close(t, &asked);
    /// Ends a session by its number, regardless of its owner. Its leases count as revoked.
    EndSession -> (), |t, asked| session::end(t, &asked);
    /// Proves that a lease is the client's own and active.
    Prove -> Box<LeaseView>, |t, asked| proof::show(t, &asked);
    /// Turns maintenance mode on or off.
    Maintain -> (), |t, asked| maintain::maintain(t, &asked);
    /// Brings a lock up to date before it is read.
    Settle -> (), |t, Settle(lock)| settle::settle(t, &lock);
    /// Handles expired deadlines and forgets old records.
    Sweep -> Swept, |t, asked| Ok(sweep::sweep(t, asked.n_changes_max));
    /// Parks or ends the waiters of closed connections after a restart. The answer is whether more waiters are left.
    Resume -> bool, |t, asked| Ok(leave::resume(t, asked.n_waiters_max));
    /// Marks the state as restored from a backup, so that no token or number issued since the backup is issued again.
    Restore -> (), |t, Restore| { restore::restore(t); Ok(()) };
}
