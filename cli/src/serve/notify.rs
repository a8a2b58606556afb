//! Sends service notifications (`sd_notify`) to systemd or another supervisor.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Startup is complete, and requests are served.
pub(super) const READY: &str = "READY=1";
/// The server is stopping, and accepts no more requests.
pub(super) const STOPPING: &str = "STOPPING=1";
/// The engine is still making progress.
const WATCHDOG: &str = "WATCHDOG=1";

/// The socket of the supervisor that started the server.
pub(super) struct Notifier {
    socket: UnixDatagram,
    to: SocketAddr,
    /// The watchdog time: without a notification for this long, the supervisor restarts the server.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Reads `NOTIFY_SOCKET` and the watchdog variables. Returns `None` if no supervisor expects notifications.
    pub(super) fn from_environment() -> Option<Self> {
        let address = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty())?;
        let variable = |name| std::env::var(name).ok();
        let watchdog = watchdog(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
        match Self::to(&address, watchdog) {
            Ok(notifier) => Some(notifier),
            Err(error) => {
                tracing::warn!(%error, ?address, "cannot use NOTIFY_SOCKET");
                None
            }
        }
    }

    fn to(address: &OsStr, watchdog: Option<Duration>) -> std::io::Result<Self> {
        let to = match address.as_bytes() {
            #[cfg(target_os = "linux")]
            [b'@', name @ ..] => {
                <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)?
            }
            _ => SocketAddr::from_pathname(address)?,
        };
        Ok(Self { socket: UnixDatagram::unbound()?, to, watchdog })
    }

    /// Sends a notification. A failure is only logged: the server keeps running without a supervisor.
    pub(super) fn tell(&self, words: &str) {
        if let Err(error) = self.socket.send_to_addr(words.as_bytes(), &self.to) {
            tracing::debug!(%error, words, "cannot send a notification to systemd");
        }
    }

    /// Sends watchdog notifications while `is_alive` returns true. If the engine is stuck, they stop, and the
    /// supervisor restarts the server.
    pub(super) async fn watch(&self, is_alive: impl Fn() -> bool) {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        // Two notifications per watchdog time, so that one can be late.
        let mut ticks = tokio::time::interval(watchdog / 2);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut was_alive = true;
        loop {
            ticks.tick().await;
            let alive = is_alive();
            if alive {
                self.tell(WATCHDOG);
            } else if was_alive {
                tracing::error!("engine is stuck; not notifying the systemd watchdog");
            }
            was_alive = alive;
        }
    }
}

/// Returns the watchdog time, if a watchdog supervises this process.
fn watchdog(micros: Option<String>, process: Option<String>) -> Option<Duration> {
    let is_ours = process.is_none_or(|id| id == std::process::id().to_string());
    let micros = micros.filter(|_| is_ours)?.parse().ok().filter(|micros| *micros > 1)?;
    Some(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn heard(socket: &UnixDatagram) -> Option<String> {
        socket.set_nonblocking(true).expect("a socket");
        let mut bytes = [0; 64];
        let n = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..n]).into_owned())
    }

    #[test]
    fn a_socket_may_be_a_file_or_a_name() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("leasehold-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixDatagram::bind(&path).expect("a socket");
        Notifier::to(path.as_os_str(), None).expect("a notifier").tell(READY);
        assert_eq!(heard(&listener).as_deref(), Some(READY));
        std::fs::remove_file(&path).expect("ours");
        let name = format!("leasehold-test-{}", std::process::id());
        let address = <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name);
        let listener = UnixDatagram::bind_addr(&address.expect("a name")).expect("a socket");
        let at = format!("@{name}");
        Notifier::to(OsStr::new(&at), None).expect("a notifier").tell(STOPPING);
        assert_eq!(heard(&listener).as_deref(), Some(STOPPING));
    }

    #[test]
    fn a_watchdog_is_another_process_s_unless_it_names_us() {
        let second = || Some("1000000".to_owned());
        let us = || Some(std::process::id().to_string());
        assert_eq!(watchdog(second(), None), Some(Duration::from_secs(1)));
        assert_eq!(watchdog(second(), us()), Some(Duration::from_secs(1)));
        assert_eq!(watchdog(second(), Some("1".into())), None);
        for wrong in ["", "0", "1", "-5", "soon"] {
            assert_eq!(watchdog(Some(wrong.into()), us()), None, "{wrong}");
        }
        assert_eq!(watchdog(None, us()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_stuck_does_not_say_that_it_is_alive() {
        let name = format!("leasehold-watch-{}", std::process::id());
        let address = <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name);
        let listener = UnixDatagram::bind_addr(&address.expect("a name")).expect("a socket");
        let watchdog = Some(Duration::from_secs(10));
        let notifier = Notifier::to(OsStr::new(&format!("@{name}")), watchdog).expect("one");
        let n_looks = Cell::new(0);
        let is_alive = || {
            n_looks.set(n_looks.get() + 1);
            n_looks.get() <= 3
        };
        let watch = notifier.watch(is_alive);
        let _ = tokio::time::timeout(Duration::from_secs(31), watch).await;
        assert_eq!(n_looks.get(), 7, "twice in ten seconds, and once at the start");
        let n_told =
            std::iter::from_fn(|| heard(&listener)).filter(|told| told == WATCHDOG).count();
        assert_eq!(n_told, 3);
    }
}
