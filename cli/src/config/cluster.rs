//! Settings of a server in a cluster.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use leasehold_server::cluster::{Access, Location, Options};
use leasehold_server::dialect::Dialect;
use leasehold_server::http::Listen;

/// The connection to etcd: the same settings for `serve` and `init`.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct EtcdArgs {
    /// PEM file with the CA of the etcd members' certificates. Without it, connections to etcd are not encrypted.
    #[arg(long, env = "LEASEHOLD_ETCD_CA_FILE")]
    etcd_ca_file: Option<PathBuf>,
    /// PEM file with the client certificate for etcd.
    #[arg(
        long,
        env = "LEASEHOLD_ETCD_CERT_FILE",
        requires = "etcd_key_file",
        requires = "etcd_ca_file"
    )]
    etcd_cert_file: Option<PathBuf>,
    /// PEM file with the private key of that certificate.
    #[arg(long, env = "LEASEHOLD_ETCD_KEY_FILE", requires = "etcd_cert_file")]
    etcd_key_file: Option<PathBuf>,
    /// The etcd user.
    #[arg(long, env = "LEASEHOLD_ETCD_USER", requires = "etcd_password_file")]
    etcd_user: Option<String>,
    /// A file with the password of the etcd user.
    #[arg(long, env = "LEASEHOLD_ETCD_PASSWORD_FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

impl EtcdArgs {
    pub(crate) fn access(&self, location: Location) -> Access {
        let Self { etcd_ca_file, etcd_cert_file, etcd_key_file, etcd_user, etcd_password_file } =
            self.clone();
        Access {
            location,
            ca_file: etcd_ca_file,
            identity_files: etcd_cert_file.zip(etcd_key_file),
            user: etcd_user.zip(etcd_password_file),
        }
    }
}

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterArgs {
    /// The shared store of the cluster: etcd://HOST:PORT,HOST:PORT/PREFIX. `leasehold init` creates it. With a store,
    /// --data contains only this server's own state.
    #[arg(long, env = "LEASEHOLD_STORE", hide_env_values = true)]
    store: Option<Location>,
    /// The name of this server, unique in the cluster [default: the host name].
    #[arg(long, env = "LEASEHOLD_NODE_NAME", requires = "store")]
    node_name: Option<String>,
    /// URL of this server for clients and other servers: http://HOST:PORT or https://HOST:PORT [default: the first
    /// --listen].
    #[arg(long, env = "LEASEHOLD_ADVERTISE", requires = "store", value_name = "URL")]
    advertise: Option<String>,
    /// Listen address for the other servers. While this server leads, they forward requests to it here [default: a free
    /// port on the address of the first --listen].
    #[arg(long, env = "LEASEHOLD_PEER_LISTEN", requires = "store", value_name = "ADDRESS:PORT")]
    peer_listen: Option<SocketAddr>,
    /// A file with the secret by which the servers authenticate each other, the same on all of them. Required unless
    /// all of them run on this machine.
    #[arg(long, env = "LEASEHOLD_PEER_SECRET_FILE", requires = "store")]
    peer_secret_file: Option<PathBuf>,
    /// Lead although --data does not record how far the journal went. Use it only if etcd was not restored from a
    /// snapshot.
    #[arg(long, env = "LEASEHOLD_LEAD_WITHOUT_MEMORY", num_args = 0..=1, default_missing_value = "true",
          default_value_t = false, require_equals = true)]
    lead_without_memory: bool,
    /// Follow only: this server never becomes the leader, even if there is no other server.
    #[arg(long, env = "LEASEHOLD_NEVER_LEAD", num_args = 0..=1, default_missing_value = "true",
          default_value_t = false, require_equals = true)]
    never_lead: bool,
    /// Who compacts the history of keys in etcd. With `own`, the leader does every minute, but only while no other
    /// application has keys in etcd. With `never`, you configure compaction in etcd.
    #[arg(long, env = "LEASEHOLD_ETCD_COMPACT", value_enum, default_value_t = Compact::Own)]
    etcd_compact: Compact,
    /// Maximum bytes that each etcd member can use: its --quota-backend-bytes. etcd 3.6 and later reports this value.
    /// The server grants no locks while 80 % of the quota is in use, or while the file has 90 % of it.
    #[arg(long, env = "LEASEHOLD_ETCD_QUOTA", default_value_t = 2 << 30,
          value_parser = clap::value_parser!(u64).range(1..))]
    etcd_quota: u64,
    #[command(flatten)]
    etcd: EtcdArgs,
}

/// Which process compacts etcd.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Compact {
    Own,
    Never,
}

impl fmt::Display for Compact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Never => "never",
        })
    }
}

impl super::Args {
    /// Returns how to connect to etcd, if the store is in etcd.
    pub(crate) fn etcd(&self) -> Option<Access> {
        self.cluster.options().map(|options| options.access)
    }

    /// Returns the location of the shared store, if there is one.
    pub(crate) fn store(&self) -> Option<&Location> {
        self.cluster.store()
    }
}

const NAME_BYTES_MAX: usize = 64;

impl ClusterArgs {
    /// Returns the location of the shared store, if there is one.
    pub(super) fn store(&self) -> Option<&Location> {
        self.store.as_ref()
    }

    /// Rejects settings of a cluster in which no enabled protocol would be served.
    pub(super) fn check_spoken(&self, dialects: &[Dialect]) -> Result<(), String> {
        if self.store().is_none() || dialects.iter().any(|dialect| !dialect.keeps_content()) {
            return Ok(());
        }
        let named: Vec<_> = dialects.iter().map(ToString::to_string).collect();
        Err(format!(
            "--dialects {}: with --store, the protocols that store content are off, so nothing would be served; add \
             another protocol",
            named.join(", ")
        ))
    }

    /// Checks combinations of settings.
    pub(super) fn check(
        &self,
        is_ephemeral: bool,
        has_backups: bool,
        listen: &[Listen],
    ) -> Result<(), String> {
        let Some(store) = &self.store else { return Ok(()) };
        if is_ephemeral {
            return Err(format!("--ephemeral cannot be combined with --store {store}"));
        }
        if has_backups {
            return Err(format!(
                "--backup-dir cannot be combined with --store {store}; use leasehold backup TARGET --store"
            ));
        }
        let name = self.node();
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_good) {
            return Err(format!(
                "--node-name: must be 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' or '.', got {name:?}"
            ));
        }
        self.options().map_or(Ok(()), |options| options.check(listen))
    }

    pub(super) fn options(&self) -> Option<Options> {
        let location = self.store.clone()?;
        Some(Options {
            access: self.etcd.access(location),
            node: self.node(),
            advertise: self.advertise.clone(),
            peer_listen: self.peer_listen,
            peer_secret_file: self.peer_secret_file.clone(),
            lead_without_memory: self.lead_without_memory,
            never_lead: self.never_lead,
            compacts: self.etcd_compact == Compact::Own,
            quota: self.etcd_quota,
        })
    }

    fn node(&self) -> String {
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.node_name.clone().unwrap_or_else(host)
    }
}
