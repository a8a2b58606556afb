//! Who may read what we make.

use rustix::fs::Mode;

/// From here on only the owner may read files and folders this process makes, unless it says otherwise itself.
pub(crate) fn private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
