//! Starts the engine with the server's own store or with a shared one.

use std::sync::Arc;

use leasehold_base::clock::Clock;
use leasehold_engine::{self as engine, Engine, EngineHandle};

use super::{Error, Settings};
use crate::cluster::{self, roster::Roster};
use crate::metrics::Metrics;
use leasehold_store::memory::MemoryStore;
use leasehold_store::sqlite::{self, SqliteStore};
use leasehold_store::{self as store, NodeFolder, Store};

/// The data that this process locks at its start.
pub(super) enum Own {
    /// Its own store.
    Store(Box<dyn Store>),
    /// Its own folder, next to a shared store.
    Folder(NodeFolder),
}

impl Own {
    /// Locks the data; fails if another process has locked it.
    pub(super) fn take(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Self, Error> {
        let Settings { data, cluster, fold_interval, history, space, .. } = settings;
        let taken = match (data, cluster.is_some()) {
            (Some(data), true) => NodeFolder::take(data).map(Self::Folder),
            (None, true) => Err(store::Error::Refused(
                "a server with a shared store needs a data directory".into(),
            )),
            (Some(data), false) => {
                let (data, fold_interval, history) = (data.clone(), *fold_interval, *history);
                let options = sqlite::Options { data, fold_interval, history, space: *space };
                let store = SqliteStore::open(options);
                store.map(|store| Self::Store(Box::new(store.forgetting_by(clock.clone()))))
            }
            (None, false) => Ok(Self::Store(Box::new(MemoryStore::default()))),
        };
        taken.map_err(Error::Store)
    }
}

/// Starts the engine: with a shared store, after publishing this server's addresses, or with its own store.
pub(super) async fn begin(
    shared: Option<(cluster::Options, cluster::Reached)>,
    own: Own,
    options: engine::Options,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<(Engine, EngineHandle, Option<Arc<Roster>>), Error> {
    match (shared, own) {
        (Some(shared), Own::Folder(folder)) => {
            let started = cluster::start(shared, folder, options, clock, metrics).await;
            let (engine, handle, roster) = started.map_err(Error::Store)?;
            Ok((engine, handle, Some(roster)))
        }
        (None, Own::Store(store)) => {
            let started = Engine::start(options, store, clock, metrics.engine.clone());
            let (engine, handle) = started.map_err(Error::Store)?;
            Ok((engine, handle, None))
        }
        (Some(_), Own::Store(_)) | (None, Own::Folder(_)) => {
            let why = "the store is either shared or this server's own";
            Err(Error::Store(store::Error::Refused(why.into())))
        }
    }
}
