//! Operations on whole stores in etcd: backup, restore, verify, and migration between a data directory and etcd.

#[cfg(feature = "etcd")]
mod built;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::location::SCHEME;
use super::{Access, Location};

pub use built::{backup, migrate, reopen, restore, verify};

/// A store: a data directory or etcd.
#[derive(Clone, Debug)]
pub enum Home {
    /// The data directory of one server.
    Folder(PathBuf),
    /// A shared store.
    Shared(Access),
}

/// The address of a store on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// The path of a data directory.
    Folder(PathBuf),
    /// `etcd://...`
    Shared(Location),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.starts_with(SCHEME) {
            true => text.parse().map(Self::Shared),
            false if text.is_empty() => {
                Err("must be a directory, or etcd://HOST:PORT/PREFIX".into())
            }
            false => Ok(Self::Folder(text.into())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Shared(location) => location.fmt(f),
        }
    }
}

#[cfg(not(feature = "etcd"))]
mod built {
    use std::path::Path;

    use super::Home;
    use crate::cluster::{Access, built::not_built};
    use leasehold_store::{Error, sqlite};

    /// Fails, because this build has no etcd support.
    pub fn backup(_: &Access, _: &Path) -> Result<sqlite::Copied, Error> {
        not_built()
    }

    /// Fails, because this build has no etcd support.
    pub fn verify(_: &Access) -> Result<sqlite::Report, Error> {
        not_built()
    }

    /// Fails, because this build has no etcd support.
    pub fn restore(_: &Path, _: &Access) -> Result<(), Error> {
        not_built()
    }

    /// Fails, because this build has no etcd support.
    pub fn migrate(_: &Home, _: &Home) -> Result<(), Error> {
        not_built()
    }

    /// Fails, because this build has no etcd support.
    pub fn reopen(_: &Home) -> Result<(), Error> {
        not_built()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_folder_or_etcd() {
        assert_eq!("./data".parse(), Ok(Address::Folder("./data".into())));
        let shared: Address = "etcd://a:1/x".parse().expect("an address");
        assert_eq!(shared.to_string(), "etcd://a:1/x");
        for wrong in ["", "etcd://", "etcd://a"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
