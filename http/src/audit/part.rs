//! Which audit file a line goes to. Each file is rotated separately, so that a flood of one kind of lines does
//! not push out the others.

use std::path::{Path, PathBuf};

/// One of the audit files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// Acts of clients on leases, sessions and content. The file named in the settings.
    Access,
    /// Acts of the server, acts and sign-ins of operators, and revocations of other principals' leases.
    Admin,
    /// Refused requests of known principals.
    Refusals,
    /// Refused requests of clients without a valid credential.
    Unknown,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Access, Self::Admin, Self::Refusals, Self::Unknown];

    /// Maximum bytes of lines kept in memory while the file cannot be written: 16 MiB for all files together.
    pub(super) fn unwritten_bytes_max(self) -> usize {
        match self {
            Self::Access => 10 << 20,
            Self::Admin | Self::Refusals | Self::Unknown => 2 << 20,
        }
    }

    /// The path of its file, next to the file named in the settings.
    pub(super) fn file(self, base: &Path) -> PathBuf {
        let suffix = match self {
            Self::Access => return base.into(),
            Self::Admin => ".admin",
            Self::Refusals => ".refusals",
            Self::Unknown => ".unknown",
        };
        let mut name = base.file_name().unwrap_or_default().to_owned();
        name.push(suffix);
        base.with_file_name(name)
    }
}

/// All audit files of a server with this file in its settings; that file comes first.
pub fn files(base: &Path) -> [PathBuf; 4] {
    Part::ALL.map(|part| part.file(base))
}
