//! Lines on their way to the file: as they come, and if the file cannot be written, kept until it can.

use std::collections::VecDeque;
use std::io;

use super::Options;
use super::file::{self, Appending};
use crate::engine::Cursor;
use crate::probe;

/// So many bytes of lines are kept while the file cannot be written; more are lost, the oldest first.
const UNWRITTEN_BYTES_MAX: usize = 16 << 20;
const SECOND_MS: i64 = 1000;

pub(super) struct Sink {
    file: Option<Appending>,
    /// What is not written yet.
    lines: VecDeque<String>,
    n_bytes: usize,
    n_lost: u64,
    /// How far what was told goes.
    last: Option<Cursor>,
    /// The second that refusals are counted in, how many were in it, and how many were left out since one was written.
    refusals: (i64, u32, u64),
}

impl Sink {
    /// How far a file goes that could be opened. Nothing is made.
    pub(super) fn check(options: &Options) -> Result<Option<Cursor>, String> {
        probe::file(&options.file)?;
        file::last(options).map_err(|error| format!("{}: {error}", options.file.display()))
    }

    pub(super) fn open(options: &Options) -> Result<Self, String> {
        let why = |error: io::Error| format!("{}: {error}", options.file.display());
        let last = Self::check(options)?;
        let file = Some(Appending::open(options).map_err(why)?);
        let (lines, n_bytes, n_lost) = (VecDeque::new(), 0, 0);
        Ok(Self { file, lines, n_bytes, n_lost, last, refusals: (0, 0, 0) })
    }

    /// The last that was told.
    pub(super) fn last(&self) -> Option<Cursor> {
        self.last
    }

    pub(super) fn is_at(&mut self, last: Cursor) {
        self.last = Some(last);
    }

    /// The same for lines that are in no journal.
    pub(super) fn place(&self) -> String {
        self.last.map_or_else(String::new, |last| last.to_string())
    }

    pub(super) fn add(&mut self, line: &str) {
        self.n_bytes += line.len();
        self.lines.push_back(line.into());
    }

    /// Whether one more refusal is to be written, and then how many were not since the last.
    pub(super) fn take_refusal(&mut self, wall_ms: i64, n_max: u32) -> Option<u64> {
        let (second, n, n_left_out) = &mut self.refusals;
        let now = wall_ms.div_euclid(SECOND_MS);
        if *second != now {
            (*second, *n) = (now, 0);
        }
        *n = n.saturating_add(1);
        if *n <= n_max {
            return Some(std::mem::take(n_left_out));
        }
        *n_left_out += 1;
        None
    }

    /// The next line opens the file anew.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Writes everything there is. What could not be written stays, as much as there is room for.
    pub(super) fn flush(&mut self, options: &Options) -> io::Result<()> {
        let written = self.write(options);
        if written.is_err() {
            // Whatever is wrong with this one, another try begins anew.
            self.file = None;
            while self.n_bytes > UNWRITTEN_BYTES_MAX
                && let Some(line) = self.lines.pop_front()
            {
                self.n_bytes -= line.len();
                self.n_lost += 1;
            }
        }
        written
    }

    fn write(&mut self, options: &Options) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(Appending::open(options)?),
        };
        while !self.lines.is_empty() {
            let n = file.fits(&self.lines, options.bytes_max);
            if n == 0 {
                file.rotate(options)?;
                continue;
            }
            let whole: String = self.lines.iter().take(n).map(String::as_str).collect();
            file.append(&whole)?;
            self.lines.drain(..n);
            self.n_bytes -= whole.len();
        }
        Ok(())
    }

    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.n_lost)
    }
}
