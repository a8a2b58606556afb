//! Writes lines to one file, and keeps them while the file cannot be written.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use super::Options;
use super::file::Appending;
use super::part::Part;

pub(super) struct Outlet {
    part: Part,
    path: PathBuf,
    file: Option<Appending>,
    /// Lines not written yet.
    lines: VecDeque<String>,
    n_bytes: usize,
    n_lost: u64,
}

impl Outlet {
    pub(super) fn open(part: Part, options: &Options) -> Result<Self, String> {
        let path = part.file(&options.file);
        let why = |error: io::Error| format!("{}: {error}", path.display());
        let file = Some(Appending::open(&path).map_err(why)?);
        Ok(Self { part, path, file, lines: VecDeque::new(), n_bytes: 0, n_lost: 0 })
    }

    pub(super) fn add(&mut self, line: &str) {
        self.n_bytes += line.len();
        self.lines.push_back(line.into());
    }

    /// Closes the file; the next line opens it again.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Writes all lines. Lines that cannot be written stay, up to the limit.
    pub(super) fn flush(&mut self, options: &Options) -> io::Result<()> {
        let written = self.write(options);
        if written.is_err() {
            // The next try opens the file again.
            self.file = None;
            while self.n_bytes > self.part.unwritten_bytes_max()
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
            None => self.file.insert(Appending::open(&self.path)?),
        };
        while !self.lines.is_empty() {
            let n = file.fits(&self.lines, options.bytes_max);
            if n == 0 {
                file.rotate(&self.path, options.keep)?;
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
