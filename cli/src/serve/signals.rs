//! What a server does when it gets a signal.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, oneshot};

use super::settings::Reload;
use crate::exit;

/// Heeds signals from now on. What it returns ends with the first SIGTERM or SIGINT: it is time to stop.
pub(super) fn heed(
    settings: Reload,
    reload: Arc<Notify>,
) -> std::io::Result<impl Future<Output = ()>> {
    let signals = Signals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hangup: signal(SignalKind::hangup())?,
        settings,
        reload,
    };
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(signals.heed(stop));
    Ok(async move {
        // The sender goes only after it has sent.
        let _ = stopped.await;
    })
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    settings: Reload,
    reload: Arc<Notify>,
}

impl Signals {
    async fn heed(mut self, stop: oneshot::Sender<()>) {
        self.next_end().await;
        let _ = stop.send(());
        let number = self.next_end().await;
        // Whoever asks twice does not want to wait. What was acknowledged is on disk, as after a kill.
        tracing::warn!("a second signal: stopping at once, with requests unanswered");
        std::process::exit(i32::from(exit::SIGNAL) + number);
    }

    /// The one place for what can change while the server runs: the log filter, the auth file and those it names.
    fn reload(&mut self) {
        self.settings.reload();
        self.reload.notify_one();
    }

    /// The number of the next signal that is to end us. Others are seen to meanwhile.
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
