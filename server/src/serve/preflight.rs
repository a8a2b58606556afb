//! What a start would refuse, found out without one: by the checks of those that would refuse it.

use std::path::{Path, PathBuf};

use leasehold_base::probe;

use super::{Settings, files_folder, keeps_content, spoken};
use leasehold_store::{self as store, NodeFolder, sqlite};

/// What a server needs beside its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The file in which it is written who did what.
    Audit,
    /// The folder of files.
    Files,
    /// The secret that signs notes.
    Webhook,
    /// The backup directory. The server creates it at startup if it can; otherwise it starts, but takes no backups.
    Backups,
}

/// What came of looking at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// What was looked at.
    pub part: Part,
    /// Where it is.
    pub path: PathBuf,
    /// Why it cannot be used.
    pub found: Result<(), String>,
}

/// Looks at every file and folder beside the data that these settings name. Nothing is made or changed.
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

/// Judges a data folder that no server uses as a start would; `None`: there is no store of its own in it yet.
/// Nothing is made or changed.
pub fn examine(data: &Path, is_shared: bool) -> Result<Option<sqlite::Report>, store::Error> {
    if is_shared { NodeFolder::check(data).map(|()| None) } else { sqlite::examine(data) }
}
