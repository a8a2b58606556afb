//! Distributes lines to the files, and tracks the journal position of the last line.

use std::io;

use leasehold_base::probe;
use leasehold_store::Cursor;

use super::Options;
use super::file;
use super::flood::Flood;
use super::outlet::Outlet;
use super::part::Part;

pub(super) struct Sink {
    outlets: [Outlet; Part::ALL.len()],
    /// The journal position of the last line.
    last: Option<Cursor>,
    /// The refusals counted in this second.
    pub(super) flood: Flood,
}

impl Sink {
    /// Returns the journal position of the last line, if the files can be opened. Creates nothing.
    pub(super) fn check(options: &Options) -> Result<Option<Cursor>, String> {
        super::files(&options.file).iter().try_for_each(|path| probe::file(path))?;
        file::last(options).map_err(|error| format!("{}: {error}", options.file.display()))
    }

    pub(super) fn open(options: &Options) -> Result<Self, String> {
        let last = Self::check(options)?;
        let open = |part| Outlet::open(part, options);
        let outlets =
            [open(Part::Access)?, open(Part::Admin)?, open(Part::Refusals)?, open(Part::Unknown)?];
        Ok(Self { outlets, last, flood: Flood::default() })
    }

    /// Returns the journal position of the last line.
    pub(super) fn last(&self) -> Option<Cursor> {
        self.last
    }

    pub(super) fn is_at(&mut self, last: Cursor) {
        self.last = Some(last);
    }

    /// Returns that position as text, for lines about acts that are not in the journal.
    pub(super) fn place(&self) -> String {
        self.last.map_or_else(String::new, |last| last.to_string())
    }

    pub(super) fn add(&mut self, part: Part, line: &str) {
        self.outlets[part as usize].add(line);
    }

    /// Closes the files; the next lines open them again.
    pub(super) fn close(&mut self) {
        self.outlets.iter_mut().for_each(Outlet::close);
    }

    /// Writes all lines to every file that can be written. Lines about leases come first, because other lines refer to
    /// their positions.
    pub(super) fn flush(&mut self, options: &Options) -> io::Result<()> {
        let flushed = self.outlets.each_mut().map(|outlet| outlet.flush(options));
        flushed.into_iter().collect()
    }

    pub(super) fn take_lost(&mut self) -> u64 {
        self.outlets.iter_mut().map(Outlet::take_lost).sum()
    }
}
