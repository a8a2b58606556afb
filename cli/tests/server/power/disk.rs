//! The content of a directory after a power failure.
//!
//! A disk keeps synced data. It can keep any part of the other data, sector by sector, in any order. A file name is
//! kept once its directory was synced. As in real kernels, data that was being written when a sync failed is lost, and
//! no later sync restores it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::power::chance::Chance;
use crate::power::trace::{Call, Event};

const SECTOR: usize = 512;

/// How much of the data that was not synced is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unsynced {
    /// None.
    Gone,
    /// Some.
    Torn,
    /// All, as if only the process had died.
    Kept,
}

#[derive(Clone, Default)]
struct File {
    /// The content that is certainly on the disk.
    bytes: Vec<u8>,
    /// Whether the name is certainly in the directory, or certainly not.
    is_named: bool,
    /// Set if the file was created (`true`) or removed (`false`) since the directory was synced.
    renamed: Option<bool>,
    /// The changes since the last sync, with the log line at which each was complete.
    unsynced: Vec<(usize, Call)>,
}

/// A directory on a disk.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    files: BTreeMap<String, File>,
}

impl Disk {
    /// Returns a disk on which all files in `folder` are synced.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut disk = Self::default();
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one")) {
            if entry.file_type().expect("a type").is_file() {
                let bytes = std::fs::read(entry.path()).expect("a file");
                let name = entry.file_name().to_str().expect("text").to_owned();
                disk.files.insert(name, File { bytes, is_named: true, ..File::default() });
            }
        }
        disk
    }

    /// Returns the disk after all calls before this line of the log.
    pub(crate) fn until(mut self, events: &[Event], line: usize) -> Self {
        let mut done: Vec<_> = events.iter().filter(|event| event.ended < line).collect();
        done.sort_by_key(|event| event.ended);
        done.into_iter().for_each(|event| self.take(event));
        let under_way = events.iter().filter(|event| event.began < line && event.ended >= line);
        for event in under_way.filter(|event| !matches!(event.call, Call::Sync { .. })) {
            self.take(event);
        }
        self
    }

    fn take(&mut self, event: &Event) {
        if event.file.is_empty() {
            if matches!(event.call, Call::Sync { failed: false }) {
                self.files.values_mut().for_each(File::name);
            }
            return;
        }
        let file = self.files.entry(event.file.clone()).or_default();
        match &event.call {
            Call::Open { may_create } => {
                let is_there = file.renamed.unwrap_or(file.is_named);
                if *may_create && !is_there {
                    *file =
                        File { renamed: Some(true), is_named: file.is_named, ..File::default() };
                }
            }
            Call::Write { .. } | Call::Resize(_) => {
                file.unsynced.push((event.ended, event.call.clone()));
            }
            Call::Sync { failed } => {
                let (covered, later): (Vec<_>, _) = std::mem::take(&mut file.unsynced)
                    .into_iter()
                    .partition(|(ended, _)| *ended < event.began);
                file.unsynced = later;
                if !failed {
                    covered.iter().for_each(|(_, call)| apply(&mut file.bytes, call, |_| true));
                }
            }
            Call::Remove => file.renamed = Some(false),
        }
    }

    /// Simulates a power failure, and writes the remaining files to `folder`.
    pub(crate) fn lose_power(&self, unsynced: Unsynced, chance: &mut Chance, folder: &Path) {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir(folder).expect("a folder");
        for (name, file) in &self.files {
            let is_lucky = match unsynced {
                Unsynced::Gone => false,
                Unsynced::Torn => chance.coin(),
                Unsynced::Kept => true,
            };
            let renamed = file.renamed.filter(|_| is_lucky);
            if !renamed.unwrap_or(file.is_named) {
                continue;
            }
            let mut bytes = file.bytes.clone();
            for (_, call) in &file.unsynced {
                apply(&mut bytes, call, |_| match unsynced {
                    Unsynced::Gone => false,
                    Unsynced::Torn => chance.coin(),
                    Unsynced::Kept => true,
                });
            }
            std::fs::write(folder.join(name), bytes).expect("a file");
        }
    }
}

impl File {
    fn name(&mut self) {
        self.is_named = self.renamed.take().unwrap_or(self.is_named);
    }
}

/// Applies a change to the sectors that are kept.
fn apply(file: &mut Vec<u8>, call: &Call, mut is_kept: impl FnMut(usize) -> bool) {
    match call {
        Call::Resize(size) => {
            if is_kept(0) {
                file.resize(*size, 0);
            }
        }
        Call::Write { at, bytes } => {
            let (mut at, mut rest) = (*at, &bytes[..]);
            while !rest.is_empty() {
                let n = (SECTOR - at % SECTOR).min(rest.len());
                if is_kept(at / SECTOR) {
                    let length = file.len().max(at + n);
                    file.resize(length, 0);
                    file[at..at + n].copy_from_slice(&rest[..n]);
                }
                (at, rest) = (at + n, &rest[n..]);
            }
        }
        Call::Open { .. } | Call::Sync { .. } | Call::Remove => {}
    }
}
