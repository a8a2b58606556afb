//! Supervises a running command: handles its end, signals, the terminal, renewals and the loss of the lock.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::clock::{BootClock, Clock};
use leasehold::{Lost, Moment};
use rustix::process::Signal;

use super::child::{Child, Exit, Status};
use super::ending::{Ending, Whom};
use super::held::Held;
use super::release::Release;
use super::signals::{self, Signals};
use super::terminal::Terminal;
use crate::duration::DurationArg;
use crate::exit::{Failure, LOST, SIGNAL, SYSTEM, TOO_LONG};

/// How long a stop can take to reach all our threads.
const STOPPED_WITHIN: Duration = Duration::from_millis(200);
/// Signals that a terminal sends.
const FROM_TERMINAL: [Signal; 3] = [Signal::INT, Signal::QUIT, Signal::HUP];

/// A command that runs under a lock.
pub(super) struct Supervision {
    guard: Held,
    child: Child,
    terminal: Option<Terminal>,
    signals: Signals,
    /// The time before the end of the lease at which all processes of the command must be dead.
    kill_before: Duration,
    /// The time between SIGTERM and SIGKILL.
    grace: Duration,
    /// The numbers of the signals that were sent to `run`, which passed them on to the command.
    passed_on: BTreeSet<i32>,
}

/// Why the supervision ends.
enum Over {
    Ended(Exit),
    Lost(Lost),
    /// The command ran longer than `--at-most`.
    TooLong(Duration),
    /// The warden was killed, and the command with it.
    WardenGone,
}

impl Supervision {
    pub(super) fn new(
        guard: Held,
        child: Child,
        terminal: Option<Terminal>,
        signals: Signals,
        kill_before: Duration,
        grace: Duration,
    ) -> Self {
        let passed_on = BTreeSet::new();
        Self { guard, child, terminal, signals, kill_before, grace, passed_on }
    }

    /// Runs until the command has ended or was ended, and the lock is released.
    pub(super) async fn see_through(
        mut self,
        at_most: Option<Duration>,
        release: Release,
    ) -> Result<Ending, Failure> {
        let end_at = at_most.map_or(Moment::NEVER, |at_most| BootClock.now() + at_most);
        let mut lost_at = std::pin::pin!(self.guard.lost());
        let over = loop {
            let renewal = self.guard.renewal();
            self.child.kill_at(self.kill_at());
            tokio::select! {
                // After a pause of this process, the loss of the lock is handled first.
                biased;
                loss = &mut lost_at => break self.end_lost(loss).await,
                status = self.child.change() => match status {
                    Status::Ended(exit) => break Over::Ended(exit),
                    Status::Stopped(signal) => self.stopped(signal).await,
                    Status::WardenGone => {
                        self.child.kill_orphans();
                        break Over::WardenGone;
                    }
                },
                signal = self.signals.next() => self.pass_on(signal),
                () = renewal => {}
                () = BootClock.sleep_until(end_at) => {
                    self.end(BootClock.now() + self.grace).await;
                    break Over::TooLong(at_most.unwrap_or_default());
                }
            }
        };
        let was_killed = !matches!(over, Over::Ended(Exit::Code(_)));
        let had_terminal = self.take_terminal_back(was_killed);
        let ending = match over {
            Over::Ended(exit) => self.ending(exit, had_terminal),
            Over::Lost(_) => Ending::Status(LOST),
            Over::TooLong(_) => Ending::Status(TOO_LONG),
            Over::WardenGone => Ending::Status(SYSTEM),
        };
        let Self { guard, child, signals, .. } = self;
        child.dismiss();
        let name = guard.name().to_owned();
        match over {
            Over::Ended(_) => release.finish(guard, signals, ending).await,
            Over::Lost(loss) => {
                let why = guard.loss(loss);
                release.at_once(guard).await;
                Err(Failure::new(LOST, format!("{why}; the command was ended")))
            }
            Over::TooLong(most) => {
                release.finish(guard, signals, ending).await?;
                let most = DurationArg(most);
                let why = format!("{name}: the command was ended after {most} (--at-most)");
                Err(Failure::new(TOO_LONG, why))
            }
            Over::WardenGone => {
                release.at_once(guard).await;
                Err(Failure::new(
                    SYSTEM,
                    format!("{name}: the warden was killed, and the command with it"),
                ))
            }
        }
    }

    fn kill_at(&self) -> Moment {
        self.guard.end() - self.kill_before
    }

    /// Returns how `run` ends after the command ended with `exit`.
    fn ending(&self, exit: Exit, had_terminal: bool) -> Ending {
        match exit {
            Exit::Code(code) => Ending::Status(code),
            Exit::Signal(number) => match Signal::from_named_raw(number) {
                Some(signal) if self.passed_on.contains(&number) => {
                    Ending::Signal(signal, Whom::Ourselves)
                }
                Some(signal) if had_terminal && FROM_TERMINAL.contains(&signal) => {
                    Ending::Signal(signal, Whom::Group)
                }
                _ => Ending::Status(SIGNAL.wrapping_add(number as u8)),
            },
        }
    }

    /// Takes the terminal back. Returns whether the command had it, or lost it by a hang-up.
    fn take_terminal_back(&self, was_killed: bool) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        let had_it = terminal.belongs_to(self.child.group()) || terminal.is_gone();
        terminal.take_from(self.child.group());
        if was_killed {
            terminal.restore();
        }
        had_it
    }

    /// Ends the command while the lease still holds, or immediately if it might not. Prints nothing before that:
    /// writing can block for any time.
    async fn end_lost(&mut self, loss: Lost) -> Over {
        let kill_at = if loss == Lost::OutOfTime { self.kill_at() } else { Moment::default() };
        self.end(kill_at).await;
        Over::Lost(loss)
    }

    /// Sends SIGTERM if there is time, then SIGKILL at `kill_at`, or earlier if the lease ends before that.
    async fn end(&mut self, kill_at: Moment) {
        let kill_at = kill_at.min(self.kill_at());
        if BootClock.now() < kill_at {
            self.child.terminate();
            tokio::select! {
                biased;
                () = BootClock.sleep_until(kill_at) => {}
                () = self.child.ended() => {}
            }
        }
        // Other processes can be left even if the command itself has ended.
        self.child.kill();
        self.child.ended().await;
    }

    /// Handles a stop of the command. If the terminal stopped it, the shell that started `run` expects `run` to stop
    /// too.
    async fn stopped(&mut self, signal: Signal) {
        let Some(terminal) = &self.terminal else { return };
        let wants_terminal = [Signal::TTIN, Signal::TTOU].contains(&signal);
        if !wants_terminal && signal != Signal::TSTP {
            return;
        }
        if !(wants_terminal && terminal.is_ours()) {
            terminal.take_from(self.child.group());
            signals::stop_group();
            // If there is no shell that could continue us, the stop has no effect, and we continue.
            let _ = tokio::time::timeout(STOPPED_WITHIN, self.signals.continued()).await;
        }
        // After the pause, the command continues only if the lock is still held. Otherwise the loop kills it.
        if self.guard.is_held() {
            self.pass_on(Signal::CONT);
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        if signal == Signal::CONT
            && let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.is_ours())
        {
            terminal.give(self.child.group());
        }
        self.passed_on.insert(signal.as_raw());
        self.child.signal(signal);
    }
}
