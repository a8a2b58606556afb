//! A server that is part of a cluster: its shared store, and its identity in the cluster.

mod location;
pub(crate) mod roster;
pub mod transfer;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::http::Listen;
use crate::metrics::Metrics;
use leasehold_base::clock::Clock;
use leasehold_base::host::is_host;
use leasehold_engine::{self as engine, Engine, EngineHandle};
use leasehold_store::{Error, NodeFolder, Peering};
pub use location::Location;
use roster::Roster;

/// How to connect to etcd.
#[derive(Clone, Debug)]
pub struct Access {
    /// The address of the store in etcd.
    pub location: Location,
    /// The CA of the members' certificates, in PEM; `None` for unencrypted connections.
    pub ca_file: Option<PathBuf>,
    /// The client certificate and its key, in PEM, if members require one.
    pub identity_files: Option<(PathBuf, PathBuf)>,
    /// The etcd user, and the file with its password.
    pub user: Option<(String, PathBuf)>,
}

/// The cluster settings of one server.
#[derive(Clone, Debug)]
pub struct Options {
    /// How to connect to etcd.
    pub access: Access,
    /// The name of this server, which must be unique in the cluster.
    pub node: String,
    /// The URL at which clients reach this server; `None` to derive it from the first listen address.
    pub advertise: Option<String>,
    /// The listen address for the other servers; `None` for a free port of the first listen address.
    pub peer_listen: Option<SocketAddr>,
    /// The file with the secret that all servers share. With `None`, each server publishes a random key in etcd, which
    /// is only safe if all servers are on one machine.
    pub peer_secret_file: Option<PathBuf>,
    /// Allows this server to lead even if its data directory does not remember how far the journal went.
    pub lead_without_memory: bool,
    /// Makes this server a follower that never leads.
    pub never_lead: bool,
    /// Whether the leader compacts etcd.
    pub compacts: bool,
    /// The storage quota of etcd members in bytes, for members that do not report it.
    pub quota: u64,
}

const SECRET_BYTES_MIN: usize = 16;

impl Options {
    /// Returns an error if other servers could not reach this one.
    pub fn check(&self, listen: &[Listen]) -> Result<(), String> {
        if let Some(url) = &self.advertise
            && host_of(url).is_none()
        {
            return Err(format!(
                "--advertise: must be http://HOST:PORT or https://HOST:PORT, got {url:?}"
            ));
        }
        let is_reached =
            |listen: &Listen| listen.address().is_some_and(|at| !at.ip().is_unspecified());
        if self.advertise.is_none() && !listen.first().is_some_and(is_reached) {
            let listen = listen.first().map(ToString::to_string).unwrap_or_default();
            return Err(format!(
                "--advertise: is required with --listen {listen}: it says where clients and other servers reach this \
                 one, such as http://n1.example:8080"
            ));
        }
        let peers = self.peers(listen);
        if self.peer_secret_file.is_none() && !peers.ip().to_canonical().is_loopback() {
            let given = match self.peer_listen {
                Some(_) => format!("--peer-listen {peers}"),
                None => format!("beside the first --listen: {peers}"),
            };
            return Err(format!(
                "--peer-secret-file: is required where other servers come by the network ({given}): a file with the \
                 same secret on each of them. On one machine: --peer-listen 127.0.0.1:0"
            ));
        }
        Ok(())
    }

    /// Returns the listen address for the other servers.
    pub fn peers(&self, listen: &[Listen]) -> SocketAddr {
        let beside = || {
            let first = listen.iter().find_map(Listen::address).map(|address| address.ip());
            SocketAddr::new(first.unwrap_or(Ipv4Addr::LOCALHOST.into()), 0)
        };
        self.peer_listen.unwrap_or_else(beside)
    }

    /// Returns the addresses at which clients and other servers reach this one, given its actual listen addresses.
    pub(crate) fn reached(&self, listen: &[Listen], peers: SocketAddr) -> Result<Reached, String> {
        self.check(listen)?;
        let address = self.advertise.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        let address =
            address.or_else(|| listen.first().map(ToString::to_string)).unwrap_or_default();
        let host = host_of(&address).unwrap_or_default();
        let peer = match peers.ip().is_unspecified() {
            true => format!("{host}:{}", peers.port()),
            false => peers.to_string(),
        };
        let secret = self.peer_secret_file.as_deref().map(secret).transpose()?;
        let drawn = || format!("{:032x}", u128::from_le_bytes(leasehold_base::random::bytes()));
        let (key, is_given) = match secret {
            Some(secret) => (secret, true),
            None => (drawn(), false),
        };
        let told = (!is_given).then(|| key.as_str().into());
        let peering = Peering { address: peer.into(), key: told };
        Ok(Reached { address, peering, key, is_given })
    }
}

/// The addresses of a server, as published to the cluster.
#[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "without etcd there are no others"))]
pub(crate) struct Reached {
    /// The URL for clients.
    pub(crate) address: String,
    /// The address for other servers.
    pub(crate) peering: Peering,
    /// The key that other servers must send.
    pub(crate) key: String,
    /// Whether the key is from a file that all servers share.
    pub(crate) is_given: bool,
}

/// Returns the host of `http://HOST:PORT`. IPv6 addresses keep their brackets.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if !is_host(authority.as_bytes()) {
        return None;
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(host),
        _ => Some(authority),
    }
}

fn secret(file: &Path) -> Result<String, String> {
    let wrong = |why: &dyn fmt::Display| format!("--peer-secret-file {}: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let secret = text.trim();
    if secret.len() < SECRET_BYTES_MIN || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        let least = SECRET_BYTES_MIN;
        return Err(wrong(&format!(
            "must have {least} or more letters, digits and signs, and no spaces"
        )));
    }
    Ok(secret.into())
}

/// The state of etcd as this machine sees it.
#[derive(Clone, Debug)]
pub struct EtcdHealth {
    /// Each member by its address, or why it does not respond.
    pub members: Vec<(String, Result<Member, String>)>,
    /// The number of keys under the store's prefix.
    pub n_keys: Result<i64, String>,
}

/// An etcd member that responds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its version.
    pub version: String,
    /// Whether the member knows a leader.
    pub has_leader: bool,
    /// The size of its database file.
    pub n_bytes: i64,
    /// Descriptions of its alarms.
    pub alarms: Vec<String>,
}

#[cfg(feature = "etcd")]
mod built {
    use std::fs;
    use std::sync::Arc;
    use std::time::Duration;

    use leasehold_core::Limits;

    use super::{Access, Error, EtcdHealth, Member, NodeFolder, Options, PathBuf, Reached, Roster};
    use leasehold_base::clock::Clock;
    use leasehold_base::runtime;
    use leasehold_store::Seat;
    use leasehold_store::etcd::{self, Cluster, Compact, EtcdSeat, Operator, Remote, Watching};

    /// Timeout of one attempt for work that no client waits for. Deleting a whole journal takes a while.
    const ERRAND_TRY_MAX: Duration = Duration::from_secs(2);

    /// Creates a store under an unused prefix.
    pub fn init(access: &Access) -> Result<(), Error> {
        etcd::init(&remote(access)?, &access.location.prefix)
    }

    /// Creates this server's cluster membership. Blocks, so it must not be called on a tokio thread.
    pub(crate) fn seat(
        options: Options,
        reached: &Reached,
        folder: NodeFolder,
        limits: Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<(Box<dyn Seat>, Arc<Roster>), Error> {
        let remote: Arc<dyn Cluster> = Arc::new(remote(&options.access)?);
        let Options { access, node, lead_without_memory, never_lead, compacts, quota, .. } =
            options;
        let compact = if compacts { Compact::Own } else { Compact::Never };
        let usual = etcd::Options::new(&node, &reached.address, limits);
        let peering = Some(reached.peering.clone());
        let options = etcd::Options { lead_without_memory, never_lead, compact, peering, ..usual };
        let prefix = &access.location.prefix;
        let operator = Operator::sharing(remote.clone(), prefix);
        let seat = EtcdSeat::new(remote, prefix, options, folder, clock)?;
        let seat = seat.watching_space(Watching { quota, ..Watching::default() })?;
        Ok((Box::new(seat), Roster::new(move || operator.look())))
    }

    /// Connects to etcd for work that no client waits for.
    pub fn reach(access: &Access) -> Result<Remote, Error> {
        connected(access, |options| options.try_max = ERRAND_TRY_MAX)
    }

    /// Checks every member. Blocks, so it must not be called on a tokio thread.
    pub fn health(access: &Access) -> Result<EtcdHealth, Error> {
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
            Ok(EtcdHealth { members, n_keys: n_keys.map_err(|error| error.to_string()) })
        })
    }

    fn remote(access: &Access) -> Result<Remote, Error> {
        connected(access, |_| {})
    }

    fn connected(
        access: &Access,
        adjust: impl FnOnce(&mut leasehold_etcd::Options),
    ) -> Result<Remote, Error> {
        let mut options = options(access)?;
        adjust(&mut options);
        etcd::connect(options, &access.location.prefix)
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
    use std::sync::Arc;

    use leasehold_core::Limits;

    use super::{Access, Error, EtcdHealth, NodeFolder, Options, Reached, Roster};
    use leasehold_base::clock::Clock;
    use leasehold_store::Seat;

    /// Returns the error for builds without etcd support.
    pub(super) fn not_built<T>() -> Result<T, Error> {
        Err(Error::Refused("this program was built without etcd (feature etcd)".into()))
    }

    /// Fails, because this build has no etcd support.
    pub fn init(_: &Access) -> Result<(), Error> {
        not_built()
    }

    /// Fails, because this build has no etcd support.
    pub fn health(_: &Access) -> Result<EtcdHealth, Error> {
        not_built()
    }

    pub(crate) fn seat(
        _: Options,
        _: &Reached,
        _: NodeFolder,
        _: Limits,
        _: Arc<dyn Clock>,
    ) -> Result<(Box<dyn Seat>, Arc<Roster>), Error> {
        not_built()
    }
}

#[cfg(feature = "etcd")]
pub use built::reach;
pub use built::{health, init};

/// Starts an engine that joins the cluster, and publishes the addresses of this server.
pub(crate) async fn start(
    (options, reached): (Options, Reached),
    folder: NodeFolder,
    engine: engine::Options,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<(Engine, EngineHandle, Arc<Roster>), Error> {
    let begin = move || {
        let limits = engine.limits.clone();
        let (seat, roster) = built::seat(options, &reached, folder, limits, clock.clone())?;
        let (engine, handle) = Engine::take_part(engine, seat, clock, metrics.engine.clone())?;
        Ok((engine, handle, roster))
    };
    let begun = tokio::task::spawn_blocking(leasehold_core::mutant::inherited(begin)).await;
    begun.unwrap_or_else(|_| Err(Error::Refused("the engine could not be started".into())))
}
