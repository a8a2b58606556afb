//! Permissions of the files that this process creates.

use rustix::fs::Mode;

/// Sets the umask: by default, only the owner can access the files and directories that this process creates.
pub(crate) fn private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
