//! The threads that serve connections.
//!
//! A connection stays on one thread, which does all its work except for the engine's part. So no request moves between
//! processors, and workers never wait for each other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leasehold_base::runtime;
use leasehold_engine::{EngineHandle, Mailbox};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::Options;
use super::connection;
use super::conversation;
use super::opening::{Port, Unopened};
use super::places::Place;
use super::socket::Unserved;
use super::wire::Wire;
use crate::door::{Door, Peer};
use crate::metrics::Metrics;

/// A connection that no worker serves yet.
pub(super) struct Accepted {
    pub(super) socket: Unserved,
    pub(super) peer: Peer,
    pub(super) place: Place,
    pub(super) port: Arc<Port>,
}

/// The resources of one worker.
pub(crate) struct Work {
    pub(crate) door: Door,
    pub(crate) engine: EngineHandle,
    pub(crate) mailbox: Mailbox,
    pub(crate) options: Options,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: watch::Receiver<bool>,
    /// Time limit for requests in progress when the server stops.
    pub(crate) patience: Duration,
}

/// All workers.
pub(crate) struct Workers {
    all: Vec<(mpsc::UnboundedSender<Accepted>, JoinHandle<()>)>,
    /// Number of connections handed out. The next worker is this number modulo the number of workers.
    next: AtomicUsize,
}

impl Workers {
    /// Starts one worker for each item.
    pub(crate) fn start(work: impl IntoIterator<Item = Work>) -> io::Result<Self> {
        let start = |(n, work): (usize, Work)| {
            let runtime = runtime::on_this_thread()?;
            let (sender, accepted) = mpsc::unbounded_channel();
            let serve = move || runtime.block_on(serve(work, accepted));
            let serve = leasehold_core::mutant::inherited(serve);
            let thread = thread::Builder::new().name(format!("worker-{n}")).spawn(serve)?;
            Ok((sender, thread))
        };
        let all = work.into_iter().enumerate().map(start).collect::<io::Result<_>>()?;
        Ok(Self { all, next: AtomicUsize::new(0) })
    }

    /// Hands the connection to the next worker.
    pub(super) fn hand(&self, accepted: Accepted) {
        let worker = self.next.fetch_add(1, Relaxed) % self.all.len();
        // Fails only after the worker was told to finish.
        let _ = self.all[worker].0.send(accepted);
    }

    /// Returns when all requests in progress are done or were aborted.
    pub(super) async fn finish(self) {
        let threads: Vec<_> = self.all.into_iter().map(|(_, thread)| thread).collect();
        let join = || threads.into_iter().for_each(|thread| drop(thread.join()));
        // The panic of a thread was reported already.
        let _ = tokio::task::spawn_blocking(join).await;
    }
}

async fn serve(work: Work, mut accepted: mpsc::UnboundedReceiver<Accepted>) {
    let Work { door, engine, mailbox, options, metrics, stop, patience } = work;
    tokio::spawn(mailbox.deliver());
    tokio::spawn(engine.flush());
    tokio::spawn(engine.wake_readers());
    drop(engine);
    let mut connections = JoinSet::new();
    while let Some(accepted) = accepted.recv().await {
        let (door, options, stop) = (door.clone(), options.clone(), stop.clone());
        let metrics = metrics.clone();
        connections.spawn(async move {
            metrics.connections.inc();
            serve_one(accepted, door, &options, stop, &metrics).await;
            metrics.connections.dec();
        });
        while connections.try_join_next().is_some() {}
    }
    let all_done = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(patience, all_done).await.is_err() {
        tracing::warn!("some connections did not finish in time");
    }
}

async fn serve_one(
    accepted: Accepted,
    door: Door,
    options: &Options,
    mut stop: watch::Receiver<bool>,
    metrics: &Metrics,
) {
    let Accepted { socket, peer, place, port } = accepted;
    let wire = match socket.serve() {
        Ok(socket) => Wire::new(socket),
        Err(error) => return tracing::warn!(%error, "could not serve a connection"),
    };
    wire.set_nodelay();
    if let Err(error) = wire.keep_alive(options.keepalive_timeout) {
        tracing::debug!(%error, "could not have the system look after a connection");
    }
    let opened = tokio::select! {
        biased;
        opened = port.open(wire, peer, place, options) => opened,
        _ = stop.wait_for(|stop| *stop) => return,
    };
    match opened {
        Ok((opened, place)) => {
            let certificate = opened.visitor.link.certificate.as_ref();
            let n_malformed = certificate.map_or(0, |names| names.n_malformed());
            if n_malformed > 0 {
                metrics.count_malformed_names(n_malformed);
                tracing::warn!(%peer, n_malformed, "a client certificate has names that are none");
            }
            match (port.dialect, opened.first_line.is_some()) {
                (Some(dialect), _) => {
                    conversation::serve(opened, place, door.app().clone(), dialect, stop).await;
                }
                (None, true) => {
                    conversation::serve_for_peer(opened, place, door.app().clone(), stop).await;
                }
                (None, false) => connection::serve(opened, place, door, options, stop).await,
            }
        }
        Err(why) => {
            metrics.count_unopened(why.reason());
            tracing::debug!(%peer, %why, "a connection ended before its first request");
            if let Unopened::Tls(_, Some(lingering)) = why {
                lingering.finish().await;
            }
        }
    }
}
