//! Looking at the files again while the server runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Gate, RELOAD_EVERY, Reloaded, enforce};
use crate::audit::{Act, Audit, By};
use crate::engine::EngineHandle;
use crate::http::tls::{Renewed, Tls};
use crate::metrics::Metrics;

/// Files that cannot be used are complained of this often.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// For ever: every two seconds, and whenever `now` is rung. First who may do what, then by which CA of that clients are
/// let in, and by which certificate the server is known.
pub(crate) async fn keep_up(
    gate: Arc<Gate>,
    tls: Option<Arc<Tls>>,
    engine: EngineHandle,
    metrics: Arc<Metrics>,
    now: Arc<Notify>,
    audit: Option<Arc<Audit>>,
) {
    let mut complained: Option<Instant> = None;
    // Whoever waited at the start was let in by files that may have changed since.
    let (mut must_look, mut n_keys) = (true, 0);
    let mut complained_of_tls: Option<Instant> = None;
    loop {
        let reading = gate.clone();
        let reloaded = tokio::task::spawn_blocking(move || reading.reload()).await;
        let Ok(reloaded) = reloaded else { return };
        gate.tend(engine.now());
        let stale_ms = gate.note(&reloaded, engine.wall_ms());
        if gate.is_on() {
            metrics.auth_stale.get_or_create(&[]).set(stale_ms / 1000);
        }
        // A key counts no more when it is taken out, and when its time is over.
        let live = gate.authority().map_or(0, |now| now.live_keys(engine.wall_ms()).len());
        must_look |= reloaded == Reloaded::New || live != n_keys;
        n_keys = live;
        if must_look {
            // If the engine cannot be asked now, it is asked next time.
            must_look = enforce::end_waits(&gate, &engine).await.is_err();
        }
        match reloaded {
            Reloaded::Same => complained = None,
            Reloaded::New => {
                complained = None;
                tracing::info!(hash = gate.hash(), "the auth file has changed and is in force");
                if let Some(audit) = &audit {
                    let act = Act::new("auth-reload", By::server()).detail("hash", gate.hash());
                    audit.acted(&act, engine.wall_ms());
                }
            }
            Reloaded::Bad(why) if complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) => {
                complained = Some(Instant::now());
                tracing::error!(why, "the auth file cannot be used; the one before stays in force");
            }
            Reloaded::Bad(_) => {}
        }
        if let Some(tls) = &tls {
            renew(tls, engine.wall_ms(), &metrics, &mut complained_of_tls).await;
        }
        tokio::select! {
            () = tokio::time::sleep(RELOAD_EVERY) => {}
            () = now.notified() => {}
        }
    }
}

async fn renew(tls: &Arc<Tls>, wall_ms: i64, metrics: &Metrics, complained: &mut Option<Instant>) {
    let reading = tls.clone();
    let Ok(renewed) = tokio::task::spawn_blocking(move || reading.renew()).await else { return };
    let stale_ms = tls.note(&renewed, wall_ms);
    metrics.tls_stale.get_or_create(&[]).set(stale_ms / 1000);
    match renewed {
        Renewed::Same => *complained = None,
        Renewed::New => {
            *complained = None;
            tracing::info!("the TLS certificate or the CA of clients has changed and is in force");
        }
        Renewed::Bad(why) if complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) => {
            *complained = Some(Instant::now());
            tracing::error!(why, "the TLS files cannot be used; those before stay in force");
        }
        Renewed::Bad(_) => {}
    }
}
