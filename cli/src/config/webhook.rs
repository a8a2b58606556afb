//! Settings of the webhook, which receives warnings about leases that are held or wait too long.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use leasehold_server::webhook::{Options, Target};

use crate::duration::DurationArg;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Webhook")]
pub(super) struct WebhookArgs {
    /// URL to POST each warning to: --held-warn, --wait-warn and suspected deadlocks. Must be https://, or http:// on
    /// this machine.
    #[arg(long, env = "LEASEHOLD_WEBHOOK_URL")]
    webhook_url: Option<Target>,
    /// Allow a --webhook-url with http:// on another machine. Systems on the network path can read and change the
    /// warnings.
    #[arg(long, env = "LEASEHOLD_WEBHOOK_INSECURE_HTTP", num_args = 0..=1, default_missing_value = "true",
          default_value_t = false, require_equals = true)]
    webhook_insecure_http: bool,
    /// A file with the secret that signs the warnings, at least 16 bytes [default: unsigned].
    #[arg(long, env = "LEASEHOLD_WEBHOOK_SECRET_FILE")]
    webhook_secret_file: Option<PathBuf>,
    /// Maximum warnings that wait to be sent; more are dropped.
    #[arg(long, env = "LEASEHOLD_WEBHOOK_QUEUE_MAX", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..))]
    webhook_queue_max: u32,
    /// Time limit for a response of the webhook.
    #[arg(long, env = "LEASEHOLD_WEBHOOK_TIMEOUT", default_value = "10s")]
    webhook_timeout: DurationArg,
    /// Maximum attempts to send one warning.
    #[arg(long, env = "LEASEHOLD_WEBHOOK_ATTEMPTS_MAX", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..))]
    webhook_attempts_max: u32,
    /// Pause before the second attempt. It doubles with each attempt.
    #[arg(long, env = "LEASEHOLD_WEBHOOK_RETRY_MIN", default_value = "1s")]
    webhook_retry_min: DurationArg,
    /// Maximum pause between two attempts.
    #[arg(long, env = "LEASEHOLD_WEBHOOK_RETRY_MAX", default_value = "1m")]
    webhook_retry_max: DurationArg,
}

impl WebhookArgs {
    /// Checks combinations of settings.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.webhook_url.is_none() && self.webhook_secret_file.is_some() {
            return Err("--webhook-secret-file needs --webhook-url".into());
        }
        if let Some(url) = &self.webhook_url
            && !self.webhook_insecure_http
        {
            url.check_private().map_err(|why| format!("--webhook-url: {why}"))?;
        }
        if self.webhook_timeout.0.is_zero() {
            return Err("--webhook-timeout: must be longer than 0s".into());
        }
        Ok(())
    }

    pub(super) fn options(&self) -> Option<Options> {
        Some(Options {
            target: self.webhook_url.clone()?,
            secret_file: self.webhook_secret_file.clone(),
            queue_max: self.webhook_queue_max as usize,
            timeout: self.webhook_timeout.0,
            attempts_max: self.webhook_attempts_max,
            retry_min: self.webhook_retry_min.0,
            retry_max: self.webhook_retry_max.0.max(self.webhook_retry_min.0),
        })
    }
}
