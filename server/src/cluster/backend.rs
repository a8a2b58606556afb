//! The connection to the system that keeps the shared store. No other module knows which system it is.

use std::sync::Arc;

use super::{Access, StoreHealth};
use leasehold_store::Error;
use leasehold_store::shared::Backend;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// To serve requests, which must not wait for a member that does not respond.
    Serving,
    /// Work that no request waits for: deleting a whole journal, for example, takes a while.
    Errand,
}

#[cfg(feature = "etcd")]
mod built {
    use std::fs;
    use std::path::PathBuf;
    use std::time::Duration;

    use leasehold_base::runtime;
    use leasehold_store::etcd::{self, EtcdBackend};

    use super::{Access, Arc, Backend, Error, Purpose, StoreHealth};
    use crate::cluster::Member;

    /// The time limit of one attempt of an errand.
    const ERRAND_TRY_MAX: Duration = Duration::from_secs(2);

    pub(in crate::cluster) fn connect(
        access: &Access,
        purpose: Purpose,
    ) -> Result<Arc<dyn Backend>, Error> {
        let mut options = options(access)?;
        if purpose == Purpose::Errand {
            options.try_max = ERRAND_TRY_MAX;
        }
        Ok(Arc::new(EtcdBackend::connect(options, &access.location.prefix)?))
    }

    /// Checks every member. Blocks, so it must not be called on a tokio thread.
    pub fn health(access: &Access) -> Result<StoreHealth, Error> {
        let refused = |error: &dyn std::fmt::Display| Error::Refused(error.to_string());
        runtime::on_this_thread().map_err(|error| refused(&error))?.block_on(async {
            let client = leasehold_etcd::Client::new(options(access)?);
            let client = client.map_err(|error| refused(&error))?;
            let members = client.status().await.into_iter().map(|status| {
                let known = |status: leasehold_etcd::StatusResponse| Member {
                    version: status.version,
                    has_leader: status.leader != 0,
                    n_bytes: status.db_size,
                    alarms: status.errors,
                };
                status.map(known).map_err(|error| error.to_string())
            });
            let members = access.location.members.iter().cloned().zip(members).collect();
            let n_keys = etcd::n_keys(&client, &access.location.prefix).await;
            Ok(StoreHealth { members, n_keys: n_keys.map_err(|error| error.to_string()) })
        })
    }

    fn options(access: &Access) -> Result<leasehold_etcd::Options, Error> {
        let Access { location, ca_file, identity_files, user } = access;
        let mut options = leasehold_etcd::Options::new(location.members.iter().cloned());
        if let Some(ca_file) = ca_file {
            let identity = identity_files.as_ref();
            let identity = identity.map(|(certificate, key)| Ok((read(certificate)?, read(key)?)));
            let identity = identity.transpose()?;
            options.tls = Some(leasehold_etcd::Tls { ca: read(ca_file)?, identity });
        }
        if let Some((user, password_file)) = user {
            let password = leasehold_etcd::Password::In(password_file.clone());
            // An unreadable password file must be reported now.
            password.read().map_err(|error| Error::Refused(error.to_string()))?;
            let user = user.clone();
            options.credentials = Some(leasehold_etcd::Credentials { user, password });
        }
        Ok(options)
    }

    fn read(file: &PathBuf) -> Result<String, Error> {
        fs::read_to_string(file)
            .map_err(|error| Error::Refused(format!("{}: {error}", file.display())))
    }
}

#[cfg(not(feature = "etcd"))]
mod built {
    use super::{Access, Arc, Backend, Error, Purpose, StoreHealth};

    /// Returns the error for builds without etcd support.
    fn not_built<T>() -> Result<T, Error> {
        Err(Error::Refused("this program was built without etcd (feature etcd)".into()))
    }

    pub(in crate::cluster) fn connect(_: &Access, _: Purpose) -> Result<Arc<dyn Backend>, Error> {
        not_built()
    }

    /// Fails, because this build has no etcd support.
    pub fn health(_: &Access) -> Result<StoreHealth, Error> {
        not_built()
    }
}

pub(super) use built::connect;
pub use built::health;
