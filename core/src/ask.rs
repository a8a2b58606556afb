//! What can be asked of the machine, and what each is answered: one line for each command.
//!
//! To add a command: its struct goes to `command.rs`, what decides it to a file of its own under `apply/`, and its line
//! to the table below. Its answer can be any type.

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

/// Something that can be asked of the machine. It knows the type of its answer.
pub trait Ask: Sized {
    /// What it is answered if it is not refused.
    type Answer;

    /// The same with its type forgotten, for those who carry many kinds of it.
    fn into_command(self) -> Command;

    /// Its answer, the type of which was forgotten. `None`: that is another command's.
    fn answer_in(outcome: Outcome) -> Option<Self::Answer>;

    /// Does it. Nobody outside can: there is no transition to be had.
    #[doc(hidden)]
    fn decide(self, t: &mut Transition<'_>) -> Result<Self::Answer, Rejection>;
}

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident -> $answer:ty, $decide:expr;)*) => {
        /// Any command. Each is whole or not at all.
        #[derive(Clone, Debug)]
        pub enum Command {
            $($(#[$doc])* $name($name),)*
        }

        /// What a command achieved, by command.
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
    /// Take a lock or queue for it.
    Acquire -> Acquired, acquire::acquire;
    /// Take several locks or none, or queue for all of them.
    AcquireAll -> AcquiredAll, acquire_all::acquire_all;
    /// End one's own wait. The answer is whether there was one.
    Cancel -> bool, |t, asked| cancel::cancel(t, &asked);
    /// Move a deadline.
    Renew -> Box<LeaseView>, |t, asked| renew::renew(t, &asked);
    /// Move several deadlines or none.
    RenewAll -> Vec<LeaseView>, |t, asked| renew::renew_all(t, &asked);
    /// Give those of several leases back that are still active. The answer is what became of each.
    ReleaseAll -> Vec<Result<LeaseView, Rejection>>, |t, asked| release::release_all(t, &asked);
    /// Give a lease back.
    Release -> Box<LeaseView>, |t, asked| release::release(t, &asked);
    /// Give up, by the owner's name, a lease or the grace period that followed it.
    GiveUp -> (), |t, asked| release::give_up(t, asked);
    /// Take leases away.
    Revoke -> Vec<LeaseView>, |t, asked| revoke::revoke(t, &asked);
    /// Change what a later grant of a lease lasts.
    Amend -> Box<LeaseView>, |t, asked| renew::amend(t, &asked);
    /// Is a lease active? If it waits: who is in the way?
    Confirm -> Box<LeaseRecord>, |t, asked| confirm::confirm(t, &asked);
    /// The connection behind a lease is gone.
    Leave -> (), |t, Leave(lease)| { leave::leave(t, lease); Ok(()) };
    /// The wait of a lease ended with an unknown outcome. Is it active, and can a repeated request find it?
    StepAside -> bool, |t, StepAside(lease)| Ok(leave::step_aside(t, lease));
    /// Start a session.
    OpenSession -> SessionOpened, session::open;
    /// Move a session's deadline. The answer is the new one.
    KeepSession -> Timestamp, |t, asked| session::keep(t, &asked);
    /// End a session and all its leases.
    CloseSession -> (), |t, asked| session::close(t, &asked);
    /// End a session by its number, whoever it belongs to. Its leases count as revoked.
    EndSession -> (), |t, asked| session::end(t, &asked);
    /// Show that a lease is one's own and active.
    Prove -> Box<LeaseView>, |t, asked| proof::show(t, &asked);
    /// Begin maintenance or end it.
    Maintain -> (), |t, asked| maintain::maintain(t, &asked);
    /// Bring a lock up to date before it is read.
    Settle -> (), |t, Settle(lock)| settle::settle(t, &lock);
    /// Work off what has fallen due.
    Sweep -> Swept, |t, asked| Ok(sweep::sweep(t, asked.n_changes_max));
    /// The server has restarted: no connection is left. Are there more waiters to see off?
    Resume -> bool, |t, asked| Ok(leave::resume(t, asked.n_waiters_max));
    /// The state comes from a backup: nothing handed out since may be handed out again.
    Restore -> (), |t, Restore| { restore::restore(t); Ok(()) };
}
