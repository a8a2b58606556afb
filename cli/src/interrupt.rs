//! A signal while a command waits: there is still something to tell the server, and then to end as a shell expects.

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Ending, interruption};

#[cfg(target_os = "linux")]
pub(crate) use crate::run::{Ending, interruption};

/// Nothing is taken there: a signal ends the process as it always does.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::process::ExitCode;

    pub(crate) enum Ending {}

    impl Ending {
        pub(crate) fn end(self) -> ExitCode {
            match self {}
        }
    }

    pub(crate) fn interruption() -> std::io::Result<impl Future<Output = Ending>> {
        Ok(std::future::pending())
    }
}
