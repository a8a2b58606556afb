//! Settings of authentication and authorization, and of the hosts and origins that are allowed.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use leasehold_auth as auth;
use leasehold_server::http::Listen;

use crate::duration::DurationArg;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Security")]
pub(super) struct AuthArgs {
    /// The file with keys and rules. Without it, the server authenticates no client and serves only local clients.
    #[arg(long, env = "LEASEHOLD_AUTH_FILE")]
    pub(super) auth_file: Option<PathBuf>,
    /// Maximum wrong credentials from one address per minute; more get 429.
    #[arg(long, env = "LEASEHOLD_AUTH_FAILURES_PER_MINUTE", default_value_t = BOUNDS.failures_per_minute,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) auth_failures_per_minute: u32,
    /// Maximum requests to token issuers that one address can cause per minute: new signing keys, opaque tokens,
    /// sign-ins.
    #[arg(long, env = "LEASEHOLD_AUTH_LOOKUPS_PER_MINUTE", default_value_t = BOUNDS.lookups_per_minute,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) auth_lookups_per_minute: u32,
    /// Maximum tokens that the server remembers, for each issuer and kind; further ones are checked each time.
    #[arg(long, env = "LEASEHOLD_AUTH_TOKENS_MAX", default_value_t = BOUNDS.tokens_max as u32,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) auth_tokens_max: u32,
    /// Maximum browsers that are signed in.
    #[arg(long, env = "LEASEHOLD_AUTH_SIGN_INS_MAX", default_value_t = BOUNDS.sign_ins_max as u32,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) auth_sign_ins_max: u32,
    /// How long the keys of a token issuer stay valid while they cannot be fetched again; at least 10m.
    #[arg(long, env = "LEASEHOLD_AUTH_KEYS_AGE_MAX", default_value = "1d")]
    pub(super) auth_keys_age_max: DurationArg,
    /// Accept remote connections without authentication. Any client that can reach the port has full access.
    #[arg(long, env = "LEASEHOLD_INSECURE_NO_AUTH", num_args = 0..=1, default_missing_value = "true",
          default_value_t = false, require_equals = true)]
    pub(super) insecure_no_auth: bool,
    /// The host names in the URLs of clients. IP addresses and localhost need no entry.
    #[arg(long, env = "LEASEHOLD_HOSTS", value_delimiter = ',')]
    pub(super) hosts: Vec<String>,
    /// The origins whose web pages can send requests to this server, such as https://app.example.org.
    #[arg(long, env = "LEASEHOLD_CORS_ORIGINS", value_delimiter = ',', value_parser = origin)]
    pub(super) cors_origins: Vec<String>,
}

/// The default limits of authentication.
const BOUNDS: auth::Bounds = auth::Bounds::DEFAULT;

fn origin(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_origin = rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'));
    is_origin
        .then(|| text.to_owned())
        .ok_or_else(|| "is not an origin such as https://host:port".into())
}

impl super::Args {
    /// Describes for people whether clients have to authenticate.
    pub(crate) fn authentication(&self) -> String {
        self.auth.shown()
    }
}

impl AuthArgs {
    pub(super) fn bounds(&self) -> auth::Bounds {
        auth::Bounds {
            failures_per_minute: self.auth_failures_per_minute,
            lookups_per_minute: self.auth_lookups_per_minute,
            tokens_max: self.auth_tokens_max as usize,
            sign_ins_max: self.auth_sign_ins_max as usize,
            keys_age_max: self.auth_keys_age_max.0,
        }
    }

    /// Checks the auth file, and rejects settings that would give remote clients access without authentication.
    pub(super) fn check(&self, listening: &[(&str, Listen)]) -> Result<(), String> {
        if let Some(file) = &self.auth_file {
            auth::Policy::load(file)?;
        }
        let open = listening.iter().find(|(_, listen)| !listen.is_local());
        if let Some((flag, listen)) = open
            && self.auth_file.is_none()
            && !self.insecure_no_auth
        {
            return Err(format!(
                "{flag} {listen} accepts remote connections without authentication; create an auth file (leasehold \
                 auth init --auth-file auth.toml) and pass it with --auth-file, or give every client full \
                 access with --insecure-no-auth"
            ));
        }
        Ok(())
    }

    /// Describes the mode of authentication for the startup banner.
    pub(super) fn shown(&self) -> String {
        match &self.auth_file {
            Some(file) => format!("by {}", file.display()),
            None if self.insecure_no_auth => {
                "off: any client that can reach the port has full access".into()
            }
            None => "off: any user of this machine has full access".into(),
        }
    }
}
