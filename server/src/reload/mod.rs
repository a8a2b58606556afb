//! Reloads the auth and TLS files while the server runs.

mod enforce;

use std::sync::Arc;
use std::time::Duration;

use leasehold_auth::{By, Gate, RELOAD_EVERY, Reloaded};
use leasehold_engine::EngineHandle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::audit::{Act, Audit, Part};
use crate::http::tls::{Renewed, Tls};
use crate::metrics::Metrics;

/// How often the same problem with an invalid file is logged.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Re-reads the files every two seconds and whenever `now` is notified. Runs until the process ends.
///
/// Each round first reloads the auth files, then the CA for client certificates and the server's own certificate.
pub(crate) async fn keep_up(
    gate: Arc<Gate>,
    tls: Option<Arc<Tls>>,
    engine: EngineHandle,
    metrics: Arc<Metrics>,
    now: Arc<Notify>,
    audit: Option<Arc<Audit>>,
) {
    let mut changes = gate.changes();
    // The files may have changed since the waits that already existed at startup were permitted.
    let (mut must_look, mut n_keys, mut is_asked) = (true, 0, false);
    let (mut policy, mut certificate) = (Complaint::default(), Complaint::default());
    loop {
        let reading = gate.clone();
        let reloaded = tokio::task::spawn_blocking(move || reading.reload()).await;
        let Ok(reloaded) = reloaded else { return };
        gate.tend(engine.now());
        let stale_ms = gate.note(&reloaded, engine.wall_ms());
        if gate.is_on() {
            metrics.auth_stale.get_or_create(&[]).set(stale_ms / 1000);
        }
        // A wait can lose its credential because a key was removed or expired, or because a user signed out.
        let live = gate.authority().map_or(0, |now| now.live_keys(engine.wall_ms()).len());
        let has_changed = changes.as_mut().is_some_and(|changes| {
            let has_changed = changes.has_changed().unwrap_or(false);
            changes.mark_unchanged();
            has_changed
        });
        must_look |= has_changed || live != n_keys || gate.has_many_waits();
        n_keys = live;
        if must_look {
            // If the engine is unavailable now, the next round tries again.
            must_look = enforce::end_waits(&gate, &engine).await.is_err();
        }
        if gate.is_on() {
            tell(&reloaded, &gate, is_asked, &mut policy);
            if let (Reloaded::New, Some(audit)) = (&reloaded, &audit) {
                let act = Act::new("auth-reload", By::server()).detail("hash", gate.hash());
                audit.acted(Part::Admin, &act, engine.wall_ms());
            }
        }
        if let Some(tls) = &tls {
            renew(tls, engine.wall_ms(), &metrics, is_asked, &mut certificate).await;
        }
        is_asked = tokio::select! {
            () = tokio::time::sleep(RELOAD_EVERY) => false,
            () = now.notified() => true,
            () = changed(&mut changes) => false,
        };
    }
}

/// Returns when the policy changes or a user signs out. The change stays marked as unseen for the caller.
async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return changes.mark_changed();
    }
    std::future::pending().await
}

/// The last logged problem, and when it was logged.
#[derive(Default)]
struct Complaint(Option<(Instant, String)>);

impl Complaint {
    /// Returns whether to log this problem now: always if the reload was requested or the problem is a new one.
    fn is_due(&mut self, why: &str, is_asked: bool) -> bool {
        let said = self.0.as_ref().filter(|(_, said)| said == why);
        let is_due = is_asked || said.is_none_or(|(at, _)| at.elapsed() >= COMPLAIN_EVERY);
        if is_due {
            self.0 = Some((Instant::now(), why.into()));
        }
        is_due
    }

    /// Clears the problem. Returns whether there was one.
    fn is_over(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// Logs the result of a reload of the auth file. A reload requested by a signal is always logged.
fn tell(reloaded: &Reloaded, gate: &Gate, is_asked: bool, complaint: &mut Complaint) {
    match reloaded {
        Reloaded::Same if complaint.is_over() || is_asked => {
            tracing::info!(hash = gate.hash(), "auth file is valid and unchanged");
        }
        Reloaded::Same => {}
        Reloaded::New => {
            complaint.is_over();
            tracing::info!(hash = gate.hash(), "auth file changed and is now active");
        }
        Reloaded::Bad(why) if complaint.is_due(why, is_asked) => {
            tracing::error!(why, "auth file is invalid; keeping the previous one");
        }
        Reloaded::Bad(_) => {}
    }
}

async fn renew(
    tls: &Arc<Tls>,
    wall_ms: i64,
    metrics: &Metrics,
    is_asked: bool,
    complaint: &mut Complaint,
) {
    let reading = tls.clone();
    let Ok(renewed) = tokio::task::spawn_blocking(move || reading.renew()).await else { return };
    let stale_ms = tls.note(&renewed, wall_ms);
    metrics.tls_stale.get_or_create(&[]).set(stale_ms / 1000);
    match renewed {
        Renewed::Same if complaint.is_over() || is_asked => {
            tracing::info!("TLS files are valid and unchanged");
        }
        Renewed::Same => {}
        Renewed::New => {
            complaint.is_over();
            tracing::info!("TLS certificate or client CA changed and is now active");
        }
        Renewed::Bad(why) if complaint.is_due(&why, is_asked) => {
            tracing::error!(why, "TLS files are invalid; keeping the previous ones");
        }
        Renewed::Bad(_) => {}
    }
}
