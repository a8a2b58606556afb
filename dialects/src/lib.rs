//! The protocols. Each has a folder that only translates: parse the request, call the engine once, render the
//! response. The rules are in the core.

pub mod app;
pub mod backup;
mod basic;
pub mod claims;
pub mod contract;
mod counted;
pub mod cursor;
pub mod dav;
mod failure;
mod file_url;
pub mod files;
pub mod grip;
mod lease_id;
pub mod leases;
pub mod lfs;
mod limit;
mod listener;
mod metadata;
mod mismatch;
pub mod native;
pub mod operator;
mod owner;
pub mod path;
pub mod query;
pub mod redis;
mod rejection;
pub mod route;
pub mod sticky;
pub mod terraform;
#[cfg(any(test, feature = "toy"))]
pub mod toy;
pub mod vital;

use std::fmt;
use std::str::FromStr;

use leasehold_content as content;
use leasehold_http as http;
use leasehold_http::{audit, metrics};

use axum::Router;
use axum::response::Response;

use crate::contract::Chapter;
use crate::http::DialectNames;
use crate::route::Route;

pub use app::App;
pub use failure::RequestFailure;
pub use listener::Listener;
pub use owner::{shown, shown_metadata, vouched};

/// The table of the dialects. A dialect consists of its folder (and the `mod` line that names it) and its line in
/// this table. The line has its variant, its folder, its name in settings, and its number, which is stored with every
/// lease and never changes.
///
/// The folder's `mod.rs` contains `routes` (`axum::routing::any` accepts methods of any name), `WORDS` (the first
/// words of its paths), `ROUTES` (the operations that are answered when the server is full, or by followers), `Options`
/// with defaults, `LISTENER` if the dialect has a dedicated listener, and `render`, which turns a failure into a
/// response. Its `contract.rs` contains `chapter`.
macro_rules! dialects {
    ($(
        $(#[doc = $doc:literal])+
        $(#[cfg($cfg:meta)])?
        $variant:ident: $folder:ident, $name:literal, $number:literal;
    )*) => {
        /// A protocol that can be turned on or off.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Dialect {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? $variant = $number,)*
        }

        /// All dialects, with the one for tests.
        const KNOWN: &[Dialect] = &[$($(#[cfg($cfg)])? Dialect::$variant,)*];
        const KNOWN_NAMES: &[(leasehold_core::Dialect, &str)] =
            &[$($(#[cfg($cfg)])? (leasehold_core::Dialect($number), $name),)*];

        /// The settings of each dialect.
        #[derive(Clone, Debug, Default)]
        pub struct Options {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? pub $folder: $folder::Options,)*
        }

        impl Dialect {
            /// Returns the dialect's name in settings.
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $name,)*
                }
            }

            /// Returns the first words of the dialect's paths.
            pub fn words(self) -> &'static [&'static str] {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::WORDS,)*
                }
            }

            /// Returns the operations that the request pipeline treats differently.
            pub fn declared(self) -> &'static [Route] {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::ROUTES,)*
                }
            }

            /// Returns the dialect's dedicated listener, if it does not use HTTP.
            pub fn listener(self) -> Option<Listener> {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::LISTENER,)*
                }
            }

            /// Returns the dialect's chapter of the OpenAPI document.
            pub(crate) fn chapter(self, app: &App) -> Chapter {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::contract::chapter(app),)*
                }
            }

            /// Renders a failed request in the dialect's error format.
            pub fn render(self, app: &App, failure: impl Into<RequestFailure>) -> Response {
                let failure = failure.into();
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::render(app, failure),)*
                }
            }

            /// Returns the dialect's routes.
            pub fn routes(self, app: &App) -> Router<App> {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::routes(app),)*
                }
            }
        }
    };
}

dialects! {
    /// The native protocol.
    Native: native, "locks", 0;
    /// The leases protocol, LS-SPEC-001.
    Leases: leases, "leases", 1;
    /// The claims protocol, with a queue of claims for each resource.
    Claims: claims, "claims", 2;
    /// The sticky lock with a grace period.
    Sticky: sticky, "lock", 3;
    /// Files with locks.
    Files: files, "files", 4;
    /// The Redis protocol, as far as lock clients use it.
    Redis: redis, "redis", 5;
    /// The Terraform `http` backend.
    Terraform: terraform, "terraform", 6;
    /// Git LFS.
    Lfs: lfs, "lfs", 7;
    /// WebDAV, on the same files as the files dialect.
    Dav: dav, "dav", 8;
    /// A dialect for tests, which shows that a folder and a line in this table are enough.
    #[cfg(any(test, feature = "toy"))]
    Toy: toy, "toy", 255;
}

/// The number of the dialect for tests, which is the last in the table.
const FOR_TESTS: u8 = 255;

/// All dialects, without the one for tests, so that documents and lists are the same in tests.
pub const ALL: &[Dialect] = {
    let mut n = 0;
    while n < KNOWN.len() && (KNOWN[n] as u8) < FOR_TESTS {
        n += 1;
    }
    KNOWN.split_at(n).0
};

/// The name of each dialect, by its number in the core.
pub const NAMES: DialectNames = DialectNames(KNOWN_NAMES.split_at(ALL.len()).0);

impl Dialect {
    /// Returns whether the dialect stores content in addition to locks. Content is on one server only, so such
    /// dialects are off in a cluster.
    pub fn keeps_content(self) -> bool {
        matches!(self, Dialect::Files | Dialect::Terraform | Dialect::Lfs | Dialect::Dav)
    }

    /// Returns the dialect's number, by which the core knows it.
    pub fn number(self) -> leasehold_core::Dialect {
        leasehold_core::Dialect(self as u8)
    }
}

/// Returns the dialect that a path belongs to, whether or not the dialect is on. For the server's own paths this is
/// the native one.
pub fn of_path(path: &str) -> Dialect {
    let mut words = path.split('/').skip(1);
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match (first, second) {
        ("v1", "claims") => Dialect::Claims,
        _ => {
            let mut known = KNOWN.iter().copied();
            let known = known.find(|dialect| dialect.words().contains(&first));
            let rest = if is_reserved(first) { Dialect::Native } else { Dialect::Files };
            known.unwrap_or(rest)
        }
    }
}

/// Returns whether this word begins the paths of a dialect or of the server itself. Dialects that are off count too:
/// a setting must not change which paths are files.
pub fn is_reserved(word: &str) -> bool {
    /// The first words of the server's own paths, including words reserved for the future.
    const WORDS: &[&str] =
        &["metrics", "livez", "readyz", "healthz", "leaderz", "console", "openapi.json", "docs"];
    WORDS.contains(&word) || KNOWN.iter().any(|dialect| dialect.words().contains(&word))
}

/// Describes a rejection, for dialects that have no specific response to it.
pub fn in_words(rejection: &leasehold_core::Rejection) -> String {
    match rejection {
        leasehold_core::Rejection::Limit(exceeded) => match limit::met(*exceeded) {
            limit::Met::Request(why) | limit::Met::Room(why) => why,
        },
        other => rejection::in_words(other).into(),
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = KNOWN.iter().copied().find(|dialect| dialect.name() == name);
        let names = ALL.iter().map(|dialect| dialect.name()).collect::<Vec<_>>().join(", ");
        known.ok_or_else(|| format!("there is no dialect {name:?}; there are: {names}"))
    }
}

/// Returns the name of a dialect by its number in the core.
pub fn name_of(dialect: leasehold_core::Dialect) -> String {
    NAMES.of(dialect)
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
