//! The server's reaction to signals.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, oneshot};

use super::settings::Reload;
use crate::exit;

/// Handles signals from now on. The returned future completes at the first SIGTERM or SIGINT, when the server has to
/// stop.
pub(super) fn heed(
    settings: Reload,
    reload: Arc<Notify>,
) -> std::io::Result<impl Future<Output = ()>> {
    let signals = ServerSignals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hangup: signal(SignalKind::hangup())?,
        settings,
        reload,
    };
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(signals.heed(stop));
    Ok(async move {
        // This cannot fail: the sender is dropped only after it has sent.
        let _ = stopped.await;
    })
}

struct ServerSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    settings: Reload,
    reload: Arc<Notify>,
}

impl ServerSignals {
    async fn heed(mut self, stop: oneshot::Sender<()>) {
        self.next_end().await;
        let _ = stop.send(());
        let number = self.next_end().await;
        // A second signal skips the graceful shutdown. Acknowledged writes are on disk, as after a SIGKILL.
        tracing::warn!("second signal: stopping immediately; open requests get no response");
        std::process::exit(i32::from(exit::SIGNAL) + number);
    }

    /// Reloads everything that can change while the server runs: the log filter, the auth file and the files it names.
    fn reload(&mut self) {
        self.settings.reload();
        self.reload.notify_one();
    }

    /// Returns the number of the next SIGTERM or SIGINT. Reloads the settings on SIGHUP while it waits.
    async fn next_end(&mut self) -> i32 {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return SignalKind::terminate().as_raw_value(),
                _ = self.interrupt.recv() => return SignalKind::interrupt().as_raw_value(),
                _ = self.hangup.recv() => self.reload(),
            }
        }
    }
}
