//! Which store a server begins with: one of its own, or one that several share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Error;
use crate::clock::Clock;
use crate::cluster::{self, roster::Roster};
use crate::engine::{self, Engine, EngineHandle};
use crate::metrics::Metrics;
use crate::store::memory::MemoryStore;
use crate::store::sqlite::{self, SqliteStore};
use crate::store::{self, Store};

/// Starts the engine with a store that several servers share, and says who they are, or with one of its own.
pub(super) async fn begin(
    shared: Option<(cluster::Options, cluster::Reached)>,
    own: impl FnOnce() -> Result<Box<dyn Store>, Error>,
    data: Option<&Path>,
    options: engine::Options,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<(Engine, EngineHandle, Option<Arc<Roster>>), Error> {
    match shared {
        Some(shared) => {
            let started = cluster::start(shared, data, options, clock, metrics).await;
            let (engine, handle, roster) = started.map_err(Error::Store)?;
            Ok((engine, handle, Some(roster)))
        }
        None => {
            let started = Engine::start(options, own()?, clock, metrics);
            let (engine, handle) = started.map_err(Error::Store)?;
            Ok((engine, handle, None))
        }
    }
}

/// A store of its own: in this folder, or in memory.
pub(super) fn open_store(
    data: Option<PathBuf>,
    fold_interval: Duration,
    history: store::history::Bounds,
) -> Result<Box<dyn Store>, Error> {
    let Some(data) = data else { return Ok(Box::new(MemoryStore::default())) };
    let options = sqlite::Options { data, fold_interval, history };
    Ok(Box::new(SqliteStore::open(options).map_err(Error::Store)?))
}
