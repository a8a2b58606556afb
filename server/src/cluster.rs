//! A server that is part of a cluster: its shared store, and its identity in the cluster.

mod backend;
mod location;
pub(crate) mod roster;
pub mod transfer;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::http::Listen;
use crate::metrics::Metrics;
use backend::Purpose;
pub use backend::health;
use leasehold_base::clock::Clock;
use leasehold_base::host::is_host;
use leasehold_core::Limits;
use leasehold_engine::{self as engine, Engine, EngineHandle};
use leasehold_store::shared::{self, Backend, Compact, Operator, SharedSeat, Watching};
use leasehold_store::{Error, NodeFolder, Peering, Seat};
pub use location::Location;
use roster::Roster;

/// How the store is reached.
#[derive(Clone, Debug)]
pub struct Access {
    /// The address of the store.
    pub location: Location,
    /// The CA of the members' certificates, in PEM; `None` for unencrypted connections.
    pub ca_file: Option<PathBuf>,
    /// The client certificate and its key, in PEM, if members require one.
    pub identity_files: Option<(PathBuf, PathBuf)>,
    /// A user of the system that keeps the store, and a file with its password.
    pub user: Option<(String, PathBuf)>,
}

/// The cluster settings of one server.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the store is reached.
    pub access: Access,
    /// The name of this server, which must be unique in the cluster.
    pub node: String,
    /// The URL at which clients reach this server; `None` to derive it from the first listen address.
    pub advertise: Option<String>,
    /// The listen address for the other servers; `None` for a free port of the first listen address.
    pub peer_listen: Option<SocketAddr>,
    /// A file with the secret that all servers share. `None`: each server publishes its own key in the store, which
    /// is only safe if all servers are on one machine.
    pub peer_secret_file: Option<PathBuf>,
    /// Allows this server to lead even if its data directory does not remember how far the journal went.
    pub lead_without_memory: bool,
    /// Makes this server a follower that never leads.
    pub never_lead: bool,
    /// Whether the leader removes the earlier values that the store remembers.
    pub compacts: bool,
    /// The quota of a member in bytes, for members that do not report it.
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
                "--advertise is required with --listen {listen}: the URL of this server for clients and other \
                 servers, such as http://n1.example:8080"
            ));
        }
        let peers = self.peers(listen);
        if self.peer_secret_file.is_none() && !peers.ip().to_canonical().is_loopback() {
            let given = match self.peer_listen {
                Some(_) => format!("--peer-listen {peers}"),
                None => format!("next to the first --listen: {peers}"),
            };
            return Err(format!(
                "--peer-secret-file is required if other servers connect over the network ({given}): a file with the \
                 same secret on each server. On one machine, use --peer-listen 127.0.0.1:0 instead"
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

/// How others reach a server.
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
            "must have at least {least} printable characters, without spaces"
        )));
    }
    Ok(secret.into())
}

/// The state of the system that keeps the store, as seen from this machine.
#[derive(Clone, Debug)]
pub struct StoreHealth {
    /// Each member by its address; an error says why it does not answer.
    pub members: Vec<(String, Result<Member, String>)>,
    /// The number of keys under the store's prefix.
    pub n_keys: Result<i64, String>,
}

/// A member that answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The version of the system.
    pub version: String,
    /// Whether the member knows a leader.
    pub has_leader: bool,
    /// The size of its database file.
    pub n_bytes: i64,
    /// Descriptions of its alarms.
    pub alarms: Vec<String>,
}

/// Creates a store under an unused prefix.
pub fn init(access: &Access) -> Result<(), Error> {
    shared::init(&*backend::connect(access, Purpose::Serving)?)
}

/// Connects to the store for work that no client waits for.
pub fn reach(access: &Access) -> Result<Arc<dyn Backend>, Error> {
    backend::connect(access, Purpose::Errand)
}

/// Creates this server's cluster membership. Blocks, so it must not be called on a tokio thread.
fn seat(
    options: Options,
    reached: &Reached,
    folder: NodeFolder,
    limits: Limits,
    clock: Arc<dyn Clock>,
) -> Result<(Box<dyn Seat>, Arc<Roster>), Error> {
    let backend = backend::connect(&options.access, Purpose::Serving)?;
    let Options { node, lead_without_memory, never_lead, compacts, quota, .. } = options;
    let compact = if compacts { Compact::Own } else { Compact::Never };
    let usual = shared::Options::new(&node, &reached.address, limits);
    let peering = Some(reached.peering.clone());
    let options = shared::Options { lead_without_memory, never_lead, compact, peering, ..usual };
    let operator = Operator::new(backend.clone());
    let seat = SharedSeat::new(backend, options, folder, clock)?;
    let seat = seat.watching_space(Watching { quota, ..Watching::default() })?;
    Ok((Box::new(seat), Roster::new(move || operator.look())))
}

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
        let (seat, roster) = seat(options, &reached, folder, limits, clock.clone())?;
        let (engine, handle) = Engine::take_part(engine, seat, clock, metrics.engine.clone())?;
        Ok((engine, handle, roster))
    };
    let begun = tokio::task::spawn_blocking(leasehold_core::mutant::inherited(begin)).await;
    begun.unwrap_or_else(|_| Err(Error::Refused("cannot start the engine".into())))
}
