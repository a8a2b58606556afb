//! What is left of a folder when the power fails.
//!
//! A disk keeps what was synced. Of the rest it may keep anything, sector by sector, in any order. A name in a
//! folder is kept once the folder was synced. What was under way when a sync failed is gone, and no later sync
//! brings it back: that is what kernels do.

use std::collections::BTreeMap;
use std::path::Path;

use crate::power::chance::Chance;
use crate::power::trace::{Call, Event};

const SECTOR: usize = 512;

/// What becomes of what was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unsynced {
    /// None of it is kept.
    Gone,
    /// Some of it.
    Torn,
    /// All of it, as if only the process had died.
    Kept,
}

#[derive(Clone, Default)]
struct File {
    /// Surely on the disk.
    bytes: Vec<u8>,
    /// Surely in the folder, or surely not.
    is_named: bool,
    /// Made or removed since the folder was synced.
    renamed: Option<bool>,
    /// Since the last sync, with when each was complete.
    unsynced: Vec<(usize, Call)>,
}

/// A folder on a disk.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    files: BTreeMap<String, File>,
}

impl Disk {
    /// All that is in `folder` is on the disk.
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

    /// Everything that happened before this line of the log.
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

    /// The power fails, and this is what is found in `folder` afterwards.
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

/// Writes the sectors that are kept.
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
