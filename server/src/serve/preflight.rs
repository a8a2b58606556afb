//! Finds out what a start would reject, by running the same checks without starting.

use std::path::{Path, PathBuf};

use leasehold_base::probe;

use super::{Settings, files_folder, keeps_content, spoken};
use leasehold_store::{self as store, NodeFolder, sqlite};

/// A file or directory that a server needs in addition to its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The audit file.
    Audit,
    /// The directory for files.
    Files,
    /// The file with the webhook's secret.
    Webhook,
    /// The backup directory. The server creates it at startup if it can; otherwise it starts, but takes no backups.
    Backups,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// What was checked.
    pub part: Part,
    /// Its path.
    pub path: PathBuf,
    /// Why it cannot be used.
    pub found: Result<(), String>,
}

/// Checks every file and directory in these settings, apart from the data directory. Creates and changes nothing.
pub fn preflight(settings: &Settings) -> Vec<Checked> {
    let Settings { audit, webhook, backup, .. } = settings;
    let is_shared = settings.cluster.is_some();
    let own_data = settings.data.clone().filter(|_| !is_shared);
    let files = files_folder(&settings.files, &own_data)
        .filter(|_| keeps_content(&spoken(&settings.dialects, is_shared)));
    let audit = audit.as_ref().map(|options| (Part::Audit, options.file.clone(), options.check()));
    let files = files.map(|folder| {
        let found = probe::folder(&folder);
        (Part::Files, folder, found)
    });
    let webhook = webhook
        .as_ref()
        .and_then(|options| Some((Part::Webhook, options.secret_file.clone()?, options.check())));
    let backups = backup.as_ref().filter(|_| own_data.is_some());
    let backups = backups.map(|options| (Part::Backups, options.dir.clone(), options.check()));
    let all = [audit, files, webhook, backups].into_iter().flatten();
    all.map(|(part, path, found)| Checked { part, path, found }).collect()
}

/// Checks a data directory that no server uses, as a start would; `None` if it contains no store yet. Creates and
/// changes nothing.
pub fn examine(data: &Path, is_shared: bool) -> Result<Option<sqlite::Report>, store::Error> {
    if is_shared { NodeFolder::check(data).map(|()| None) } else { sqlite::examine(data) }
}
