//! The settings of a load run: what the clients do, and how often.

use std::time::Duration;

use clap::Args;
use fastrand::Rng;

use crate::duration::DurationArg;
use crate::exit::{Failure, USAGE};

/// A kept lease is held for this many halves of its TTL, so that only renewals keep it.
const KEPT_HALVES: u32 = 3;
const CLIENTS_MAX: u32 = 10_000;
const LOCKS_MAX: u32 = 1_000_000;

#[derive(Args, Clone, Debug)]
pub(super) struct Plan {
    /// Number of clients.
    #[arg(long, value_name = "N", default_value_t = 80,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CLIENTS_MAX)))]
    pub(super) clients: u32,
    /// Duration of the load.
    #[arg(long, default_value = "20s")]
    pub(super) duration: DurationArg,
    /// Lease duration without renewal.
    #[arg(long, default_value = "1s")]
    pub(super) ttl: DurationArg,
    /// How long a client holds the lock.
    #[arg(long, default_value = "5ms")]
    pub(super) hold: DurationArg,
    /// Maximum random time added to every hold and to every pause before a new attempt.
    #[arg(long, default_value = "5ms")]
    pub(super) jitter: DurationArg,
    /// Share of turns in which the client pauses until its lease has ended, and then continues as if it had not.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share)]
    pub(super) failrate: f64,
    /// Share of turns that last one and a half TTLs, with renewals.
    #[arg(long, value_name = "SHARE", default_value_t = 0.002, value_parser = share)]
    pub(super) keeprate: f64,
    /// Name of the lock; with --locks, the prefix of the names.
    #[arg(long, value_name = "NAME", default_value = "lockload")]
    pub(super) lock: String,
    /// Number of locks to spread the clients over.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LOCKS_MAX)))]
    pub(super) locks: u32,
}

/// What a client does in one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// Hold the lock for this time, write, release it.
    Work(Duration),
    /// Hold the lock past the end of the lease, then continue as if it were still held.
    Pause,
}

impl Plan {
    /// Checks combinations of settings that are valid one by one.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.failrate + self.keeprate > 1.0 {
            return Err(Failure::new(USAGE, "--failrate and --keeprate together exceed 1"));
        }
        if self.ttl.0.is_zero() {
            return Err(Failure::new(USAGE, "--ttl must be more than 0"));
        }
        Ok(())
    }

    pub(super) fn names(&self) -> Vec<String> {
        match self.locks {
            1 => vec![self.lock.clone()],
            n => (0..n).map(|number| format!("{}-{number}", self.lock)).collect(),
        }
    }

    pub(super) fn turn(&self, random: &mut Rng) -> Turn {
        let chance = random.f64();
        if chance < self.failrate {
            Turn::Pause
        } else if chance < self.failrate + self.keeprate {
            Turn::Work(self.ttl.0 * KEPT_HALVES / 2)
        } else {
            Turn::Work(self.hold.0 + self.jitter(random))
        }
    }

    pub(super) fn jitter(&self, random: &mut Rng) -> Duration {
        self.jitter.0.mul_f64(random.f64())
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "is not a number")?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("must be from 0 to 1".into()) }
}
