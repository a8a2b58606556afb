//! Settings of the files protocol.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use leasehold_core::{Limits, Span};
use leasehold_server::http::Listen;

use crate::duration::DurationArg;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Files")]
pub(super) struct FilesArgs {
    /// The directory for files [default: the folder files in the data directory].
    #[arg(long, env = "LEASEHOLD_FILES_FOLDER")]
    pub(super) files_folder: Option<PathBuf>,
    /// The namespace of files.
    #[arg(long, env = "LEASEHOLD_FILES_NAMESPACE", default_value = "files")]
    pub(super) files_namespace: String,
    /// How long a file stays locked [default: 30m, or --ttl-max if less].
    #[arg(long, env = "LEASEHOLD_FILES_LOCK_TTL")]
    files_lock_ttl: Option<DurationArg>,
    /// How long a session of the files protocol lasts [default: 7d, or --session-ttl-max if less].
    #[arg(long, env = "LEASEHOLD_FILES_SESSION_TTL")]
    files_session_ttl: Option<DurationArg>,
    /// Maximum size of a file, in bytes.
    #[arg(long, env = "LEASEHOLD_FILES_BYTES_MAX", default_value_t = 16 << 30)]
    pub(super) files_bytes_max: u64,
    /// Maximum bytes of all files together.
    #[arg(long, env = "LEASEHOLD_FILES_QUOTA", default_value_t = 64 << 30)]
    pub(super) files_quota: u64,
    /// Bytes of the disk that uploads leave free [default: 5 % of the disk, at least 256 MiB].
    #[arg(long, env = "LEASEHOLD_FREE_SPACE_MIN")]
    pub(super) free_space_min: Option<u64>,
    /// Allow clients to read files without a session [default: if only this machine can reach the server].
    #[arg(long, env = "LEASEHOLD_FILES_PUBLIC", num_args = 0..=1, default_missing_value = "true",
          require_equals = true)]
    files_public: Option<bool>,
}

const LOCK_TTL: Span = Span::from_secs(30 * 60);
const SESSION_TTL: Span = Span::from_secs(7 * 24 * 3600);

impl FilesArgs {
    /// Checks the settings against the limits.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), String> {
        let is_longer =
            |ttl: Option<DurationArg>, max: Span| ttl.is_some_and(|ttl| ttl.span() > max);
        if is_longer(self.files_lock_ttl, limits.ttl_max) {
            return Err("--files-lock-ttl is longer than --ttl-max".into());
        }
        if is_longer(self.files_session_ttl, limits.session_ttl_max) {
            return Err("--files-session-ttl is longer than --session-ttl-max".into());
        }
        Ok(())
    }

    pub(super) fn lock_ttl(&self, limits: &Limits) -> Span {
        self.files_lock_ttl.map_or(LOCK_TTL.min(limits.ttl_max), DurationArg::span)
    }

    pub(super) fn session_ttl(&self, limits: &Limits) -> Span {
        self.files_session_ttl.map_or(SESSION_TTL.min(limits.session_ttl_max), DurationArg::span)
    }

    pub(super) fn is_public(&self, listen: &[Listen]) -> bool {
        self.files_public.unwrap_or(listen.iter().all(Listen::is_local))
    }
}
