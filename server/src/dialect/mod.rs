//! The protocols. Each is one folder that translates: parse, one engine call, render. Rules live in the core.

mod calendar;
mod lease_id;
mod leases;
mod lock;
pub mod locks;
mod owner;
mod path;

use std::fmt;
use std::str::FromStr;

use axum::Router;

use crate::app::App;

/// A protocol that can be switched on or off. The numbers are stored with every lease: they never change.
/// 2 and 4 belong to claims and files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dialect {
    /// The native one.
    Locks = 0,
    /// LS-SPEC-001.
    Leases = 1,
    /// The sticky lock with grace.
    Lock = 3,
}

/// All there are.
pub const ALL: [Dialect; 3] = [Dialect::Locks, Dialect::Leases, Dialect::Lock];

impl Dialect {
    /// As it is called in settings.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Locks => "locks",
            Dialect::Lock => "lock",
            Dialect::Leases => "leases",
        }
    }

    /// As the core knows it.
    pub(crate) fn number(self) -> leasehold_core::Dialect {
        leasehold_core::Dialect(self as u8)
    }

    pub(crate) fn routes(self, app: &App) -> Router<App> {
        match self {
            Dialect::Locks => locks::routes(),
            Dialect::Lock => lock::routes(),
            Dialect::Leases => leases::routes(app),
        }
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = ALL.into_iter().find(|dialect| dialect.name() == name);
        let names = ALL.map(Dialect::name).join(", ");
        known.ok_or_else(|| format!("there is no dialect {name:?}; there are: {names}"))
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
