//! Whole stores, to and from a shared store: backups, restores, checks, and moves from one machine to several and back.

mod built;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::location::SCHEME;
use super::{Access, Location};

pub use built::{backup, migrate, reopen, restore, verify};

/// Where a store is: a folder, or a shared store.
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
