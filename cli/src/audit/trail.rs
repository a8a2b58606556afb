//! Reads one audit file and its rotated files entry by entry, and follows the file as it grows.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use leasehold_server::audit;
use serde_json::Value;

use super::wrong;
use crate::exit::Failure;

pub(super) struct Trail {
    path: PathBuf,
    /// The rotated files that have not been opened yet, oldest first.
    older: VecDeque<PathBuf>,
    reader: Option<BufReader<File>>,
    /// Whether the reader is at the file that the server writes to, not at a rotated one.
    is_current: bool,
    /// The next entry, already read but not yet taken by the caller.
    pub(super) entry: Option<Value>,
}

impl Trail {
    pub(super) fn new(path: PathBuf) -> Self {
        let older = audit::rotated(&path).into();
        Self { path, older, reader: None, is_current: false, entry: None }
    }

    /// Reads the next entry into `entry`, unless one is already there or there are no more.
    pub(super) fn read(&mut self) -> Result<(), Failure> {
        while self.entry.is_none() {
            let Some(reader) = &mut self.reader else {
                if self.open()? {
                    continue;
                }
                return Ok(());
            };
            self.entry = entry(reader, &self.path)?;
            if self.entry.is_some() {
                break;
            }
            if self.is_current {
                let Some(next) = replaced(&self.path, reader.get_ref())? else { return Ok(()) };
                // Lines written to the old file just before the rotation come first.
                self.entry = entry(reader, &self.path)?;
                if self.entry.is_none() {
                    self.reader = Some(BufReader::new(next));
                }
            } else {
                self.reader = None;
            }
        }
        Ok(())
    }

    /// Opens the next file. Returns `false` if it does not exist yet.
    fn open(&mut self) -> Result<bool, Failure> {
        let older = self.older.pop_front();
        self.is_current = older.is_none();
        match File::open(older.as_ref().unwrap_or(&self.path)) {
            Ok(file) => self.reader = Some(BufReader::new(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(!self.is_current),
            Err(error) => return Err(wrong(&self.path, &error)),
        }
        Ok(true)
    }
}

/// Returns the next entry, if its line is complete.
fn entry(reader: &mut BufReader<File>, path: &Path) -> Result<Option<Value>, Failure> {
    let mut line = String::new();
    loop {
        line.clear();
        let n = reader.read_line(&mut line).map_err(|error| wrong(path, &error))?;
        if !line.ends_with('\n') {
            // The server has not written the rest of the line yet.
            let back = i64::try_from(n).unwrap_or_default();
            reader.seek_relative(-back).map_err(|error| wrong(path, &error))?;
            return Ok(None);
        }
        if let Ok(entry) = serde_json::from_str(&line) {
            return Ok(Some(entry));
        }
    }
}

/// Opens the file that has this name now, if it is a different file.
fn replaced(path: &Path, file: &File) -> Result<Option<File>, Failure> {
    let next = match File::open(path) {
        Ok(next) => next,
        // The server is rotating the file at this moment.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(path, &error)),
    };
    let of = |file: &File| file.metadata().map(|facts| (facts.dev(), facts.ino()));
    let is_same = of(&next).and_then(|next| Ok(next == of(file)?));
    let is_same = is_same.map_err(|error| wrong(path, &error))?;
    Ok((!is_same).then_some(next))
}
