//! Settings of the files.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::duration::Lasting;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Files")]
pub(super) struct FilesArgs {
    /// Where to keep files; beside the data unless said.
    #[arg(long, env = "LEASEHOLD_FILES_FOLDER")]
    pub(super) files_folder: Option<PathBuf>,
    /// The namespace of files.
    #[arg(long, env = "LEASEHOLD_FILES_NAMESPACE", default_value = "files")]
    pub(super) files_namespace: String,
    /// How long a file stays locked.
    #[arg(long, env = "LEASEHOLD_FILES_LOCK_TTL", default_value = "30m")]
    pub(super) files_lock_ttl: Lasting,
    /// How long a session of the files lasts.
    #[arg(long, env = "LEASEHOLD_FILES_SESSION_TTL", default_value = "7d")]
    pub(super) files_session_ttl: Lasting,
    /// Largest file, in bytes.
    #[arg(long, env = "LEASEHOLD_FILES_BYTES_MAX", default_value_t = 16 << 30)]
    pub(super) files_bytes_max: u64,
    /// May anybody read files, without a session? Unless said: if only this machine can reach the server.
    #[arg(long, env = "LEASEHOLD_FILES_PUBLIC", num_args = 0..=1, default_missing_value = "true",
          require_equals = true)]
    files_public: Option<bool>,
}

impl FilesArgs {
    pub(super) fn is_public(&self, listen: SocketAddr) -> bool {
        self.files_public.unwrap_or(listen.ip().is_loopback())
    }
}
