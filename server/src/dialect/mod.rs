//! The protocols. Each is one folder that translates: parse, one engine call, render. Rules live in the core.

mod claims;
pub mod locks;

use std::fmt;
use std::str::FromStr;

use axum::Router;

use crate::app::App;

/// A protocol that can be switched on or off. The numbers are stored with every lease: they never change.
/// 1, 3 and 4 belong to leases, lock and files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dialect {
    /// The native one.
    Locks = 0,
    /// A queue of claims for each resource.
    Claims = 2,
}

/// All there are.
pub const ALL: [Dialect; 2] = [Dialect::Locks, Dialect::Claims];

impl Dialect {
    /// As it is called in settings.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Locks => "locks",
            Dialect::Claims => "claims",
        }
    }

    /// As the core knows it.
    pub(crate) fn number(self) -> leasehold_core::Dialect {
        leasehold_core::Dialect(self as u8)
    }

    pub(crate) fn routes(self) -> Router<App> {
        match self {
            Dialect::Locks => locks::routes(),
            Dialect::Claims => claims::routes(),
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
