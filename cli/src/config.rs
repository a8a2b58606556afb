//! Settings of the server: flags override environment variables, which override the config file, which overrides the
//! defaults.
//!
//! `--fold-interval 5s`, `LEASEHOLD_FOLD_INTERVAL=5s` and `fold-interval = "5s"` are the same setting. Each entry of
//! the file is inserted as a flag before the flags on the command line, unless an environment variable sets it. So
//! there is one parser and one set of error messages.

mod audit;
mod auth;
mod backup;
mod bounds;
mod cluster;
mod connections;
mod dav;
mod environment;
mod explain;
mod file;
mod files;
mod lfs;
mod limits;
#[cfg(test)]
mod manual;
mod redis;
mod refusal;
mod store;
mod terraform;
mod trace;
mod transport;
mod values;
mod webhook;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use leasehold_core::RetryHint;
use leasehold_engine as engine;
use leasehold_server::dialect::{self, Dialect};
use leasehold_server::http;
use leasehold_server::http::Listen;
use leasehold_server::serve::Settings;

use crate::duration::DurationArg;
use crate::log;
use audit::AuditArgs;
use auth::AuthArgs;
use backup::BackupArgs;
use cluster::ClusterArgs;
pub(crate) use cluster::EtcdArgs;
use connections::ConnectionArgs;
use dav::DavArgs;
use environment::{joined, variable};
use explain::Sources;
pub(crate) use explain::{explain, located};
use file::Setting;
use files::FilesArgs;
use lfs::LfsArgs;
use limits::LimitArgs;
use redis::RedisArgs;
pub(crate) use refusal::{discreet, is_json_chosen, refusal};
use store::StoreArgs;
use terraform::TerraformArgs;
use trace::TraceArgs;
use transport::TransportArgs;
pub(crate) use values::values;
use webhook::WebhookArgs;

/// All settings of a server. All have defaults, so no config file is needed.
#[derive(ClapArgs, Clone, Debug)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// A TOML file with settings.
    #[arg(long, env = "LEASEHOLD_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Listen address: http://ADDRESS:PORT, https://ADDRESS:PORT or unix:PATH. Can be given several times. An address
    /// without a scheme is http. Port 0 stands for any free port.
    #[arg(long, env = "LEASEHOLD_LISTEN", default_value = "127.0.0.1:8080", value_delimiter = ',')]
    pub(crate) listen: Vec<Listen>,
    /// The server writes the port of its first listener that has a port to this file, once it listens.
    #[arg(long, env = "LEASEHOLD_PORT_FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// The data directory.
    #[arg(long, env = "LEASEHOLD_DATA", default_value = "./leasehold-data")]
    pub(crate) data: PathBuf,
    /// Keep everything in memory. The data is lost when the server stops.
    #[arg(long, env = "LEASEHOLD_EPHEMERAL", num_args = 0..=1, default_missing_value = "true",
          default_value_t = false, require_equals = true)]
    pub(crate) ephemeral: bool,
    /// The enabled protocols.
    #[arg(long, env = "LEASEHOLD_DIALECTS", value_delimiter = ',', default_values_t = dialect::ALL.iter().copied())]
    pub(crate) dialects: Vec<Dialect>,
    /// The namespace of `/v1/locks`.
    #[arg(long, env = "LEASEHOLD_LOCKS_NAMESPACE", default_value = "default")]
    pub(crate) locks_namespace: String,
    /// The namespace of `/lock`.
    #[arg(long, env = "LEASEHOLD_LOCK_NAMESPACE", default_value = "default")]
    pub(crate) lock_namespace: String,
    /// Prefix of the namespace of a tenant's locks in `/leases`. The tenant's name follows it.
    #[arg(long, env = "LEASEHOLD_LEASES_NAMESPACE_PREFIX", default_value = "")]
    pub(crate) leases_namespace_prefix: String,
    /// Minimum TTL in `/leases`, in seconds.
    #[arg(long, env = "LEASEHOLD_LEASES_TTL_SECONDS_MIN", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) leases_ttl_seconds_min: u64,
    /// Maximum TTL in `/leases`, in seconds.
    #[arg(long, env = "LEASEHOLD_LEASES_TTL_SECONDS_MAX", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) leases_ttl_seconds_max: u64,
    /// The namespace of `/v1/claims`.
    #[arg(long, env = "LEASEHOLD_CLAIMS_NAMESPACE", default_value = "default")]
    pub(crate) claims_namespace: String,
    /// Maximum time that a claim waits before it expires.
    #[arg(long, env = "LEASEHOLD_CLAIMS_WAIT_MAX", default_value = "24h")]
    pub(crate) claims_wait_max: DurationArg,
    /// How long after expiry a sticky lock stays reserved for its last holder.
    #[arg(long, env = "LEASEHOLD_GRACE", default_value = "5s")]
    pub(crate) grace: DurationArg,
    /// Time limit for a graceful stop.
    #[arg(long, env = "LEASEHOLD_SHUTDOWN_TIMEOUT", default_value = "10s")]
    pub(crate) shutdown_timeout: DurationArg,
    /// What to log: error, warn, info, debug, trace, or a filter. `info` has a line for each change of a lease, `debug`
    /// also one for each request. The default omits the changes, because a line takes about 20,000 instructions, more
    /// than the change itself.
    #[arg(long, env = "LEASEHOLD_LOG", default_value = log::FILTER)]
    pub(crate) log: String,
    /// The format of log lines.
    #[arg(long, env = "LEASEHOLD_LOG_FORMAT", value_enum, default_value_t = log::Format::Auto)]
    pub(crate) log_format: log::Format,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    auth: AuthArgs,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    backup: BackupArgs,
    #[command(flatten)]
    webhook: WebhookArgs,
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    files: FilesArgs,
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    terraform: TerraformArgs,
    #[command(flatten)]
    lfs: LfsArgs,
    #[command(flatten)]
    dav: DavArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    connections: ConnectionArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Engine")]
struct EngineArgs {
    /// Maximum requests in one journal record.
    #[arg(long, env = "LEASEHOLD_BATCH_MAX", default_value_t = 1024)]
    batch_max: usize,
    /// Maximum requests that wait for the engine; more are refused with 503.
    #[arg(long, env = "LEASEHOLD_PENDING_MAX", default_value_t = 16_384)]
    pending_max: usize,
    /// Maximum changes of one sweep before other requests get their turn.
    #[arg(long, env = "LEASEHOLD_SWEEP_CHANGES_MAX", default_value_t = 256)]
    sweep_changes_max: usize,
    /// Maximum events that the server keeps for readers that reconnect.
    #[arg(long, env = "LEASEHOLD_EVENTS_MAX", default_value_t = 10_000)]
    events_max: usize,
    /// Maximum bytes of the journal that are not folded into the tables yet; beyond that, acquires are refused.
    #[arg(long, env = "LEASEHOLD_JOURNAL_BYTES_MAX", default_value_t = 1 << 30)]
    journal_bytes_max: u64,
    /// Minimum delay that the server recommends to a refused client before it retries.
    #[arg(long, env = "LEASEHOLD_RETRY_MIN", default_value = "25ms")]
    retry_min: DurationArg,
    /// Maximum delay that the server recommends to a refused client before it retries.
    #[arg(long, env = "LEASEHOLD_RETRY_MAX", default_value = "1s")]
    retry_max: DurationArg,
}

impl Args {
    /// Returns the path of the auth file, if one is set.
    pub(crate) fn auth_file(&self) -> Option<&std::path::Path> {
        self.auth.auth_file.as_deref()
    }

    /// Returns the namespace of files, if a protocol for files is enabled.
    pub(crate) fn files_namespace(&self) -> Option<&str> {
        let speaks_files =
            self.dialects.contains(&Dialect::Files) || self.dialects.contains(&Dialect::Dav);
        speaks_files.then_some(self.files.files_namespace.as_str())
    }

    /// Returns the namespaces of the other enabled protocols that store content.
    pub(crate) fn content_namespaces(&self) -> Vec<String> {
        let all = [
            (Dialect::Terraform, &self.terraform.terraform_namespace),
            (Dialect::Lfs, &self.lfs.lfs_namespace),
        ];
        let spoken = all.into_iter().filter(|(dialect, _)| self.dialects.contains(dialect));
        spoken.map(|(_, namespace)| namespace.clone()).collect()
    }

    /// Checks combinations of settings that are valid one by one.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { grace, limits, .. } = self;
        if self.data.as_os_str().as_encoded_bytes().starts_with(b"etcd:") {
            return Err("--data: must be a directory; for a store in etcd, use --store".into());
        }
        if grace.0 > limits.grace_max.0 {
            return Err(format!(
                "--grace: {grace} is longer than --grace-max, {}",
                limits.grace_max
            ));
        }
        if self.claims_wait_max.0 > limits.wait_max.0 {
            return Err(format!(
                "--claims-wait-max is longer than --wait-max, {}",
                limits.wait_max
            ));
        }
        self.check_none_is_0()?;
        self.check_none_spins()?;
        self.check_all_end()?;
        if self.engine.retry_min.0 > self.engine.retry_max.0 {
            return Err("--retry-min is longer than --retry-max".into());
        }
        log::check(&self.log)?;
        self.auth.check(&self.listening())?;
        self.transport.check(&self.listening())?;
        self.backup.check(self.ephemeral)?;
        self.cluster.check(self.ephemeral, self.backup.options().is_some(), &self.listen)?;
        self.cluster.check_spoken(&self.dialects)?;
        self.webhook.check()?;
        self.connections.check()?;
        self.files.check(&limits.limits())?;
        self.terraform.check(&limits.limits())?;
        self.lfs.check()?;
        self.dav.check(&limits.limits())?;
        self.redis.check(limits.namespace_bytes_max, self.engine.pending_max)?;
        if self.leases_ttl_seconds_min > self.leases_ttl_seconds_max {
            return Err("--leases-ttl-seconds-min is more than --leases-ttl-seconds-max".into());
        }
        if self.leases_namespace_prefix.len() >= limits.namespace_bytes_max {
            return Err("--leases-namespace-prefix: too long; no tenant name fits".into());
        }
        let is_namespace = |name: &str| (1..=limits.namespace_bytes_max).contains(&name.len());
        let namespaces = [
            ("--locks-namespace", &self.locks_namespace),
            ("--lock-namespace", &self.lock_namespace),
            ("--claims-namespace", &self.claims_namespace),
            ("--files-namespace", &self.files.files_namespace),
            ("--terraform-namespace", &self.terraform.terraform_namespace),
            ("--lfs-namespace", &self.lfs.lfs_namespace),
        ];
        match namespaces.into_iter().find(|(_, name)| !is_namespace(name)) {
            Some((flag, _)) => Err(format!("{flag}: is empty or too long")),
            None => Ok(()),
        }
    }

    /// Returns whether Redis clients are served over TLS.
    pub(crate) fn is_redis_tls(&self) -> bool {
        self.redis.listen().is_some_and(|listen| listen.is_tls())
    }

    /// Returns every listener with the flag that configures it.
    pub(crate) fn listening(&self) -> Vec<(&'static str, Listen)> {
        let listen = self.listen.iter().map(|listen| ("--listen", listen.clone()));
        let redis = self.redis.listen().map(|listen| ("--redis-listen", listen));
        listen.chain(redis).collect()
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            listen: self.listen.clone(),
            metrics_listen: self.transport.metrics_listen.clone(),
            tls: self.transport.files(),
            data: (!self.ephemeral).then(|| self.data.clone()),
            cluster: self.cluster.options(),
            files: self.files.files_folder.clone(),
            backup: self.backup.options(),
            fold_interval: self.store.fold_interval.0,
            history: self.store.history(),
            space: self.store.space(),
            dialects: self.dialects.clone(),
            engine: engine::Options {
                limits: self.limits.limits(),
                batch_max: self.engine.batch_max,
                queue_max: self.engine.pending_max,
                sweep_changes_max: self.engine.sweep_changes_max,
                events_max: self.engine.events_max,
                event_streams_bytes_max: self.connections.event_streams_bytes_max,
                journal_bytes_max: self.engine.journal_bytes_max,
                ..engine::Options::default()
            },
            http: http::Options {
                hosts: self.auth.hosts.as_slice().into(),
                cors_origins: self.auth.cors_origins.as_slice().into(),
                ..self.transport.options(self.connections.options())
            },
            auth_file: self.auth.auth_file.clone(),
            auth: self.auth.bounds(),
            retry: RetryHint {
                min: self.engine.retry_min.span(),
                max: self.engine.retry_max.span(),
            },
            dialect: self.dialect(),
            webhook: self.webhook.options(),
            audit: self.audit.options(),
            traces: self.traces.options(),
            shutdown_timeout: self.shutdown_timeout.0,
        }
    }

    /// Returns the settings of the protocols.
    #[allow(clippy::needless_update, reason = "a build for tests has one protocol more")]
    fn dialect(&self) -> dialect::Options {
        dialect::Options {
            native: dialect::native::Options { namespace: self.locks_namespace.as_str().into() },
            leases: dialect::leases::Options {
                namespace_prefix: self.leases_namespace_prefix.as_str().into(),
                ttl_seconds_min: self.leases_ttl_seconds_min,
                ttl_seconds_max: self.leases_ttl_seconds_max,
            },
            claims: dialect::claims::Options {
                namespace: self.claims_namespace.as_str().into(),
                wait_max: self.claims_wait_max.span(),
            },
            sticky: dialect::sticky::Options {
                namespace: self.lock_namespace.as_str().into(),
                grace: self.grace.span(),
            },
            files: dialect::files::Options {
                namespace: self.files.files_namespace.as_str().into(),
                lock_ttl: self.files.lock_ttl(&self.limits.limits()),
                session_ttl: self.files.session_ttl(&self.limits.limits()),
                bytes_max: self.files.files_bytes_max,
                is_public: self.files.is_public(&self.listen),
                quota: self.files.files_quota,
                free_space_min: self.files.free_space_min,
            },
            redis: self.redis.options(),
            terraform: self.terraform.options(),
            lfs: self.lfs.options(),
            dav: self.dav.options(),
            ..dialect::Options::default()
        }
    }
}

/// The command line, with the settings from the config file and from variables of other lock servers inserted before
/// the typed flags.
#[derive(Clone)]
pub(crate) struct Given {
    typed: Vec<OsString>,
    words: Vec<OsString>,
    /// The source of each inserted setting.
    sources: Sources,
}

impl Given {
    pub(crate) fn new(typed: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let typed: Vec<_> = typed.collect();
        let mut given = Self { words: typed.clone(), typed, sources: Sources::new() };
        // Only the command itself is checked, not a word of the command line that `run` starts.
        let takes_settings = |word: &OsString| {
            ["serve", "check-config", "doctor"].iter().any(|command| word == command)
        };
        if !given.typed.get(1).is_some_and(takes_settings) {
            return Ok(given);
        }
        let mut added = Vec::new();
        if let Some(file) = config_file(&given.typed[2..]) {
            for Setting { name, flag, place } in file::read(&file)? {
                // A flag and a variable override the file, even for settings that take several values.
                if std::env::var_os(variable(&name)).is_none() && !given.is_flag(&name) {
                    added.push(flag);
                    given.sources.insert(name, place);
                }
            }
        }
        for (theirs, name) in ALIASES {
            // `LEASEHOLD_` variables override the variables of other lock servers.
            if let Some(value) = std::env::var_os(theirs)
                && std::env::var_os(variable(name)).is_none()
                && !given.is_flag(name)
            {
                added.push(joined(&format!("--{name}="), &value));
                given.sources.insert(name.into(), theirs.into());
            }
        }
        environment::check(&given)?;
        given.words.splice(2..2, added);
        Ok(given)
    }

    /// Reads the config file again, and returns the same command line with its current settings.
    pub(crate) fn again(&self) -> Result<Self, String> {
        Self::new(self.typed.iter().cloned())
    }

    /// Returns all words to parse.
    pub(crate) fn words(&self) -> impl Iterator<Item = &OsString> {
        self.words.iter()
    }

    /// Returns whether the setting is a flag on the command line.
    fn is_flag(&self, name: &str) -> bool {
        let flag = format!("--{name}");
        let is_it = |word: &str| word == flag || word.starts_with(&format!("{flag}="));
        self.typed.iter().any(|word| word.to_str().is_some_and(is_it))
    }

    fn source(&self, name: &str) -> Option<&str> {
        self.sources.get(name).map(String::as_str)
    }

    /// Returns where a setting comes from if it is not a flag: a line of the file or a variable.
    fn place(&self, name: &str) -> Option<String> {
        let variable = variable(name);
        let is_set = std::env::var_os(&variable).is_some();
        let place = self.source(name).map(str::to_owned).or(is_set.then_some(variable));
        place.filter(|_| !self.is_flag(name))
    }
}

/// Environment variables of other lock servers, with the name of our equivalent setting.
const ALIASES: [(&str, &str); 2] = [("LOCKSERVER_ADDR", "listen"), ("LOCKSERVER_DB", "data")];

fn config_file(given: &[OsString]) -> Option<PathBuf> {
    let mut words = given.iter();
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(file) = word.to_str().and_then(|word| word.strip_prefix("--config=")) {
            return Some(file.into());
        }
    }
    std::env::var_os("LEASEHOLD_CONFIG").map(PathBuf::from)
}
