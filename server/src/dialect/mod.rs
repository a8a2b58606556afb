//! The protocols. Each is one folder that translates: parse, one engine call, render. Rules live in the core.

pub(crate) mod calendar;
mod claims;
mod counted;
pub(crate) mod files;
mod lease_id;
mod leases;
mod limit;
mod metadata;
pub mod native;
mod owner;
mod path;
mod query;
mod sticky;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use leasehold_core::Span;

use crate::app::App;
use crate::contract::Chapter;

/// A protocol that can be switched on or off. The numbers are stored with every lease: they never change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dialect {
    /// The native one.
    Native = 0,
    /// LS-SPEC-001.
    Leases = 1,
    /// A queue of claims for each resource.
    Claims = 2,
    /// The sticky lock with grace.
    Sticky = 3,
    /// Files with locks.
    Files = 4,
}

/// All there are.
pub const ALL: [Dialect; 5] =
    [Dialect::Native, Dialect::Leases, Dialect::Claims, Dialect::Sticky, Dialect::Files];

/// What the dialects can be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of `/v1/locks`.
    pub locks_namespace: Arc<str>,
    /// What comes before a tenant's name in the namespace of its locks.
    pub leases_namespace_prefix: Arc<str>,
    /// The shortest ttl in `/leases`.
    pub leases_ttl_seconds_min: u64,
    /// The longest ttl in `/leases`.
    pub leases_ttl_seconds_max: u64,
    /// The namespace of `/v1/claims`.
    pub claims_namespace: Arc<str>,
    /// How long a claim may wait before it expires.
    pub claims_wait_max: Span,
    /// The namespace of `/lock`.
    pub lock_namespace: Arc<str>,
    /// How long after expiry `/lock` keeps a lock for its last holder.
    pub grace: Span,
    /// The namespace of files.
    pub files_namespace: Arc<str>,
    /// How long a file stays locked.
    pub files_lock_ttl: Span,
    /// How long a session of the files lasts.
    pub files_session_ttl: Span,
    /// Largest file, in bytes.
    pub files_bytes_max: u64,
    /// May anybody read files, without a session?
    pub files_public: bool,
    /// Most bytes of all files together.
    pub files_quota: u64,
    /// Bytes of the disk that uploads leave free; `None`: a twentieth of it, and at least 256 MiB.
    pub free_space_min: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        let default: Arc<str> = "default".into();
        Self {
            locks_namespace: default.clone(),
            leases_namespace_prefix: "".into(),
            leases_ttl_seconds_min: 10,
            leases_ttl_seconds_max: 300,
            claims_namespace: default.clone(),
            claims_wait_max: Span::from_secs(24 * 3600),
            lock_namespace: default,
            grace: Span::from_secs(5),
            files_namespace: "files".into(),
            files_lock_ttl: Span::from_secs(30 * 60),
            files_session_ttl: Span::from_secs(7 * 24 * 3600),
            files_bytes_max: 16 << 30,
            files_public: true,
            files_quota: 64 << 30,
            free_space_min: None,
        }
    }
}

impl Dialect {
    /// As it is called in settings.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Native => "locks",
            Dialect::Sticky => "lock",
            Dialect::Leases => "leases",
            Dialect::Claims => "claims",
            Dialect::Files => "files",
        }
    }

    /// As the core knows it.
    pub(crate) fn number(self) -> leasehold_core::Dialect {
        leasehold_core::Dialect(self as u8)
    }

    /// What it answers.
    pub(crate) fn chapter(self, app: &App) -> Chapter {
        match self {
            Dialect::Native => native::contract::chapter(app),
            Dialect::Sticky => sticky::contract::chapter(app),
            Dialect::Leases => leases::contract::chapter(app),
            Dialect::Claims => claims::contract::chapter(app),
            Dialect::Files => files::contract::chapter(app),
        }
    }

    pub(crate) fn routes(self, app: &App) -> Router<App> {
        match self {
            Dialect::Native => native::routes(),
            Dialect::Sticky => sticky::routes(),
            Dialect::Leases => leases::routes(app),
            Dialect::Claims => claims::routes(),
            Dialect::Files => files::routes(app),
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

/// The name of a dialect as the core knows it.
fn name_of(dialect: leasehold_core::Dialect) -> String {
    let known = ALL.into_iter().find(|known| known.number() == dialect);
    known.map_or_else(|| format!("dialect {}", dialect.0), |known| known.to_string())
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
