//! An audit file: append, rotate, and find its last line at startup.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use leasehold_store::Cursor;
use serde::Deserialize;

use super::Options;

const LINE_BYTES_MAX: u64 = 512 * 1024;

/// A file open for appending.
pub(super) struct Appending {
    file: File,
    n_bytes: u64,
}

impl Appending {
    /// Opens or creates the file. Cuts off an incomplete line that a crash left; that line is written again.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)?;
        let n_bytes = whole(&file)?;
        if n_bytes < file.metadata()?.size() {
            file.set_len(n_bytes)?;
        }
        Ok(Self { file, n_bytes })
    }

    /// Returns how many of these lines fit into the file. An empty file takes at least one.
    pub(super) fn fits(&self, lines: &VecDeque<String>, bytes_max: u64) -> usize {
        let mut n_bytes = self.n_bytes;
        let fit = lines.iter().take_while(|line| {
            let is_first = n_bytes == 0;
            n_bytes += line.len() as u64;
            is_first || n_bytes <= bytes_max
        });
        fit.count()
    }

    /// Appends complete lines. If the write fails, cuts off the part that was written.
    pub(super) fn append(&mut self, lines: &str) -> io::Result<()> {
        if let Err(error) = self.file.write_all(lines.as_bytes()) {
            let _ = self.file.set_len(self.n_bytes);
            return Err(error);
        }
        self.n_bytes += lines.len() as u64;
        Ok(())
    }

    /// Rotates the file and starts a new one. The oldest file is deleted.
    pub(super) fn rotate(&mut self, path: &Path, keep: usize) -> io::Result<()> {
        self.file.sync_data()?;
        for n in (1..=keep).rev() {
            let older = aside(path, n);
            match n {
                1 => fs::rename(path, older)?,
                _ => missing_is_fine(fs::rename(aside(path, n - 1), older))?,
            }
        }
        if keep == 0 {
            fs::remove_file(path)?;
        }
        *self = Self::open(path)?;
        Ok(())
    }
}

fn missing_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Returns the name of the `n`th rotated file: `audit.log.1` is the one before `audit.log`.
fn aside(file: &Path, n: usize) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{n}"));
    file.with_file_name(name)
}

/// Returns the rotated files that exist, oldest first.
pub fn rotated(file: &Path) -> Vec<PathBuf> {
    let older = (1..).map(|n| aside(file, n)).take_while(|older| older.exists());
    let mut older: Vec<_> = older.collect();
    older.reverse();
    older
}

/// Returns the number of bytes up to the end of the last complete line.
fn whole(file: &File) -> io::Result<u64> {
    let size = file.metadata()?.size();
    let tail = tail(file, size)?;
    let end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Ok(size - (tail.len() - end) as u64)
}

fn tail(mut file: &File, size: u64) -> io::Result<Vec<u8>> {
    let n_bytes = size.min(2 * LINE_BYTES_MAX);
    file.seek(SeekFrom::Start(size - n_bytes))?;
    let mut tail = Vec::new();
    file.take(n_bytes).read_to_end(&mut tail)?;
    Ok(tail)
}

/// The journal position in an audit line.
#[derive(Deserialize)]
struct LinePosition {
    id: Option<String>,
    after: Option<String>,
}

/// Returns the journal position of the last complete line, in this file or the previous one.
pub(super) fn last(options: &Options) -> io::Result<Option<Cursor>> {
    for path in [options.file.clone(), aside(&options.file, 1)] {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let size = file.metadata()?.size();
        let tail = tail(&file, size)?;
        let end = tail.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let lines = tail[..end].rsplit(|byte| *byte == b'\n');
        let place = |line: &[u8]| {
            let LinePosition { id, after } = serde_json::from_slice(line).ok()?;
            id.or(after)?.parse().ok()
        };
        if let Some(last) = lines.filter_map(place).next() {
            return Ok(Some(last));
        }
    }
    Ok(None)
}
