//! Messages between `run` and its warden: nine bytes each, over a socket.

use rustix::io::Errno;

use super::child::Exit;

/// The size of a message: one byte for its kind, eight for a number.
pub(super) const BYTES: usize = 9;

/// A message from `run` to the warden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Start the command. Its standard files come with this message.
    Start,
    /// Kill all processes of the command at this time, in nanoseconds since boot, unless a later order changes it.
    KillAt(u64),
    /// Kill no process, and exit: `run` has finished.
    Dismiss,
}

/// A message from the warden to `run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Report {
    /// The process id of the command, which leads its own group.
    Started(i32),
    /// The command could not be started.
    NotStarted(Errno),
    Ended(Exit),
    /// The signal with this number stopped the command.
    Stopped(i32),
}

impl Order {
    pub(super) fn write(self) -> [u8; BYTES] {
        match self {
            Self::Start => message(b's', 0),
            Self::KillAt(nanos) => message(b'k', nanos),
            Self::Dismiss => message(b'd', 0),
        }
    }

    pub(super) fn read(bytes: [u8; BYTES]) -> Option<Self> {
        match split(bytes) {
            (b's', _) => Some(Self::Start),
            (b'k', nanos) => Some(Self::KillAt(nanos)),
            (b'd', _) => Some(Self::Dismiss),
            _ => None,
        }
    }
}

impl Report {
    pub(super) fn write(self) -> [u8; BYTES] {
        match self {
            Self::Started(pid) => message(b'p', pid as u64),
            Self::NotStarted(error) => message(b'f', error.raw_os_error() as u64),
            Self::Ended(Exit::Code(code)) => message(b'c', code.into()),
            Self::Ended(Exit::Signal(number)) => message(b's', number as u64),
            Self::Stopped(number) => message(b't', number as u64),
        }
    }

    pub(super) fn read(bytes: [u8; BYTES]) -> Option<Self> {
        let (kind, number) = split(bytes);
        let small = i32::try_from(number).ok()?;
        match kind {
            b'p' => Some(Self::Started(small)),
            b'f' => Some(Self::NotStarted(Errno::from_raw_os_error(small))),
            b'c' => Some(Self::Ended(Exit::Code(u8::try_from(number).ok()?))),
            b's' => Some(Self::Ended(Exit::Signal(small))),
            b't' => Some(Self::Stopped(small)),
            _ => None,
        }
    }
}

fn message(kind: u8, number: u64) -> [u8; BYTES] {
    let mut bytes = [kind; BYTES];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn split(bytes: [u8; BYTES]) -> (u8, u64) {
    let [kind, number @ ..] = bytes;
    (kind, u64::from_le_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for order in [Order::Start, Order::KillAt(0), Order::KillAt(u64::MAX), Order::Dismiss] {
            assert_eq!(Order::read(order.write()), Some(order));
        }
        let reports = [
            Report::Started(4711),
            Report::NotStarted(Errno::NOENT),
            Report::Ended(Exit::Code(255)),
            Report::Ended(Exit::Signal(9)),
            Report::Stopped(20),
        ];
        for report in reports {
            assert_eq!(Report::read(report.write()), Some(report));
        }
        assert_eq!(Order::read([b'?'; BYTES]), None);
    }
}
