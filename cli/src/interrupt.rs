//! Signals that interrupt a command while it waits. The command still has to send a request to the server, and then
//! to end the way a shell expects.

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Ending, interruption};

#[cfg(target_os = "linux")]
pub(crate) use crate::run::{Ending, interruption};

/// Outside Linux no signal is caught: a signal ends the process as usual.
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
