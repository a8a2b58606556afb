//! Settings of scheduled and requested backups.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use leasehold_server::backup::Options;

use crate::duration::DurationArg;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Backups")]
pub(super) struct BackupArgs {
    /// The directory for scheduled backups, and for those requested with `leasehold backup --url`.
    #[arg(long, env = "LEASEHOLD_BACKUP_DIR")]
    backup_dir: Option<PathBuf>,
    /// Interval between backups [default: only on request].
    #[arg(long, env = "LEASEHOLD_BACKUP_EVERY")]
    backup_every: Option<DurationArg>,
    /// Number of backups to keep; the oldest are removed.
    #[arg(long, env = "LEASEHOLD_BACKUP_KEEP", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..))]
    backup_keep: u32,
}

impl BackupArgs {
    /// Checks combinations of settings.
    pub(super) fn check(&self, is_ephemeral: bool) -> Result<(), String> {
        let Self { backup_dir, backup_every, .. } = self;
        if backup_dir.is_none() && backup_every.is_some() {
            return Err("--backup-every needs --backup-dir".into());
        }
        if backup_dir.is_some() && is_ephemeral {
            return Err(
                "--backup-dir cannot be combined with --ephemeral: there is nothing to back up"
                    .into(),
            );
        }
        Ok(())
    }

    /// Returns the backup interval, if backups are scheduled.
    pub(super) fn every(&self) -> Option<DurationArg> {
        self.backup_every
    }

    pub(super) fn options(&self) -> Option<Options> {
        let every = self.backup_every.map(|every| every.0);
        let n_keep = self.backup_keep as usize;
        self.backup_dir.clone().map(|dir| Options { dir, every, n_keep })
    }
}
