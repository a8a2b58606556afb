//! Settings of the listener for Redis clients.

use std::net::SocketAddr;

use clap::Args as ClapArgs;
use leasehold_server::dialect::redis;
use leasehold_server::http::Listen;

use crate::duration::DurationArg;

/// The minimum for the largest command. A lock script has some hundred bytes, and so has a key; clients cannot work
/// with less.
const COMMAND_BYTES_MIN: usize = 1024;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Redis clients")]
pub(super) struct RedisArgs {
    /// Listen address for Redis clients, such as 127.0.0.1:6379 [default: off].
    #[arg(long, env = "LEASEHOLD_REDIS_LISTEN")]
    redis_listen: Option<SocketAddr>,
    /// Use TLS for --redis-listen, with the certificate of --tls-cert-file.
    #[arg(long, env = "LEASEHOLD_REDIS_TLS", num_args = 0..=1, default_missing_value = "true",
          default_value_t = false, require_equals = true)]
    redis_tls: bool,
    /// The namespace of database 0. The namespace of database 3 is the same, followed by -3.
    #[arg(long, env = "LEASEHOLD_REDIS_NAMESPACE", default_value = "redis")]
    redis_namespace: String,
    /// Number of databases.
    #[arg(long, env = "LEASEHOLD_REDIS_DATABASES", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    redis_databases: u32,
    /// Maximum size of a command, in bytes.
    #[arg(long, env = "LEASEHOLD_REDIS_COMMAND_BYTES_MAX", default_value_t = 65_536)]
    redis_command_bytes_max: usize,
    /// Maximum commands of one connection that the server runs at the same time; more wait until these have responses.
    #[arg(long, env = "LEASEHOLD_REDIS_PIPELINE_MAX", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..))]
    redis_pipeline_max: u32,
    /// Time limit for a client to authenticate with AUTH or HELLO, if authentication is required.
    #[arg(long, env = "LEASEHOLD_REDIS_AUTH_TIMEOUT", default_value = "10s")]
    pub(super) redis_auth_timeout: DurationArg,
    /// Maximum time without a command from a client, after which it is disconnected. 0: no limit.
    #[arg(long, env = "LEASEHOLD_REDIS_IDLE_TIMEOUT", default_value = "0s")]
    redis_idle_timeout: DurationArg,
}

impl RedisArgs {
    /// Checks the settings.
    pub(super) fn check(
        &self,
        namespace_bytes_max: usize,
        pending_max: usize,
    ) -> Result<(), String> {
        if self.redis_tls && self.redis_listen.is_none() {
            return Err("--redis-tls needs --redis-listen".into());
        }
        let longest = format!("{}-{}", self.redis_namespace, self.redis_databases).len();
        if self.redis_namespace.is_empty() || longest > namespace_bytes_max {
            return Err("--redis-namespace: is empty or too long".into());
        }
        if self.redis_command_bytes_max < COMMAND_BYTES_MIN {
            let n = self.redis_command_bytes_max;
            return Err(format!(
                "--redis-command-bytes-max: must be at least {COMMAND_BYTES_MIN}, got {n}"
            ));
        }
        if self.redis_pipeline_max as usize > pending_max {
            return Err(format!("--redis-pipeline-max is more than --pending-max, {pending_max}"));
        }
        Ok(())
    }

    /// Returns the listen address for Redis clients, if there is one.
    pub(super) fn listen(&self) -> Option<Listen> {
        let listen = if self.redis_tls { Listen::Https } else { Listen::Http };
        self.redis_listen.map(listen)
    }

    pub(super) fn options(&self) -> redis::Options {
        let idle_timeout = self.redis_idle_timeout.0;
        redis::Options {
            listen: self.redis_listen,
            tls: self.redis_tls,
            namespace: self.redis_namespace.as_str().into(),
            databases: self.redis_databases,
            command_bytes_max: self.redis_command_bytes_max,
            pipeline_max: self.redis_pipeline_max as usize,
            auth_timeout: self.redis_auth_timeout.0,
            idle_timeout: (!idle_timeout.is_zero()).then_some(idle_timeout),
        }
    }
}
