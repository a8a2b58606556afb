//! The protocols. Each is one folder that translates: parse, one engine call, render. Rules live in the core.

mod basic;
pub(crate) mod calendar;
pub mod claims;
mod counted;
pub(crate) mod cursor;
pub mod dav;
pub mod files;
pub(crate) mod grip;
mod lease_id;
pub mod leases;
pub mod lfs;
mod limit;
mod listener;
mod metadata;
mod mismatch;
pub mod native;
mod owner;
pub(crate) mod path;
pub(crate) mod query;
pub mod redis;
mod rejection;
pub mod sticky;
pub mod terraform;
#[cfg(test)]
mod toy;

use std::fmt;
use std::str::FromStr;

use axum::Router;
use axum::response::Response;

use crate::app::App;
use crate::auth::Denied;
use crate::contract::Chapter;

pub use listener::Listener;
pub(crate) use owner::{shown, shown_metadata, vouched};

/// The table of the dialects. A dialect is its folder (and the `mod` that names it) and its line here: its variant, its
/// folder, its name in settings and its number, which is stored with every lease and never changes.
///
/// The folder's `mod.rs` has `routes` (`axum::routing::any` takes methods of any name), `WORDS`, the first words of its
/// paths, `Options` with their defaults, and `LISTENER` if it listens on its own; its `contract.rs` has `chapter`.
macro_rules! dialects {
    ($(
        $(#[doc = $doc:literal])+
        $(#[cfg($cfg:meta)])?
        $variant:ident: $folder:ident, $name:literal, $number:literal;
    )*) => {
        /// A protocol that can be switched on or off.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Dialect {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? $variant = $number,)*
        }

        /// All there are.
        pub const ALL: &[Dialect] = &[$($(#[cfg($cfg)])? Dialect::$variant,)*];

        /// What each dialect can be told.
        #[derive(Clone, Debug, Default)]
        pub struct Options {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? pub $folder: $folder::Options,)*
        }

        impl Dialect {
            /// As it is called in settings.
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $name,)*
                }
            }

            /// The words its paths begin with.
            pub(crate) fn words(self) -> &'static [&'static str] {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::WORDS,)*
                }
            }

            /// The listener it has beside HTTP's.
            pub(crate) fn listener(self) -> Option<Listener> {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::LISTENER,)*
                }
            }

            /// Its chapter of the contract.
            pub(crate) fn chapter(self, app: &App) -> Chapter {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::contract::chapter(app),)*
                }
            }

            /// Somebody may not do what they ask, said in its shape.
            pub(crate) fn refuse(self, app: &App, denied: Denied) -> Response {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::refuse(app, denied),)*
                }
            }

            pub(crate) fn routes(self, app: &App) -> Router<App> {
                match self {
                    $($(#[cfg($cfg)])? Dialect::$variant => $folder::routes(app),)*
                }
            }
        }
    };
}

dialects! {
    /// The native one.
    Native: native, "locks", 0;
    /// LS-SPEC-001.
    Leases: leases, "leases", 1;
    /// A queue of claims for each resource.
    Claims: claims, "claims", 2;
    /// The sticky lock with grace.
    Sticky: sticky, "lock", 3;
    /// Files with locks.
    Files: files, "files", 4;
    /// Lock clients of Redis.
    Redis: redis, "redis", 5;
    /// The http backend of Terraform.
    Terraform: terraform, "terraform", 6;
    /// Git LFS.
    Lfs: lfs, "lfs", 7;
    /// WebDAV, on the same files.
    Dav: dav, "dav", 8;
    /// Shows that a folder and a line are all a dialect takes.
    #[cfg(test)]
    Toy: toy, "toy", 255;
}

impl Dialect {
    /// Does it keep content beside locks? That is on one server only, so it is off where several share a store.
    pub fn keeps_content(self) -> bool {
        matches!(self, Dialect::Files | Dialect::Terraform | Dialect::Lfs | Dialect::Dav)
    }

    /// As the core knows it.
    pub(crate) fn number(self) -> leasehold_core::Dialect {
        leasehold_core::Dialect(self as u8)
    }
}

/// Whose path this is, on or off. What belongs to the server itself is answered in the native shape.
pub(crate) fn of_path(path: &str) -> Dialect {
    let mut words = path.split('/').skip(1);
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match (first, second) {
        ("v1", "claims") => Dialect::Claims,
        _ => {
            let mut known = ALL.iter().copied();
            let known = known.find(|dialect| dialect.words().contains(&first));
            let rest = if is_reserved(first) { Dialect::Native } else { Dialect::Files };
            known.unwrap_or(rest)
        }
    }
}

/// Is this word the first of some dialect's paths, or of the server's own? Whether or not that dialect is on: a file
/// must not become something else by a setting.
pub(crate) fn is_reserved(word: &str) -> bool {
    /// The server's own, and those of dialects to come.
    const WORDS: &[&str] =
        &["metrics", "livez", "readyz", "healthz", "leaderz", "console", "openapi.json", "docs"];
    WORDS.contains(&word) || ALL.iter().any(|dialect| dialect.words().contains(&word))
}

/// Why something was rejected, for those who have no answer of their own for it.
pub(crate) fn in_words(rejection: &leasehold_core::Rejection) -> String {
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
        let known = ALL.iter().copied().find(|dialect| dialect.name() == name);
        let names = ALL.iter().map(|dialect| dialect.name()).collect::<Vec<_>>().join(", ");
        known.ok_or_else(|| format!("there is no dialect {name:?}; there are: {names}"))
    }
}

/// The name of a dialect as the core knows it.
pub(crate) fn name_of(dialect: leasehold_core::Dialect) -> String {
    let known = ALL.iter().find(|known| known.number() == dialect);
    known.map_or_else(|| format!("dialect {}", dialect.0), |known| known.to_string())
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
