//! Reloads the settings on SIGHUP, and applies those that can change while the server runs.

use std::collections::BTreeMap;

use crate::config::{self, Given};
use crate::log::Filter;

/// The only setting of `serve` that is applied immediately. All others need a restart.
const LOG: &str = "log";

/// The settings that were last applied, and the log filter, which can be changed.
pub(super) struct Reload {
    given: Given,
    settings: BTreeMap<String, String>,
    filter: Filter,
}

impl Reload {
    pub(super) fn new(given: &Given, filter: Filter) -> Self {
        Self { given: given.clone(), settings: config::values(given), filter }
    }

    /// Reads the settings again. If they are invalid, logs the error and changes nothing.
    pub(super) fn reload(&mut self) {
        match self.read() {
            Err(why) => {
                tracing::error!(%why, "SIGHUP: settings are invalid; keeping the previous ones")
            }
            Ok((log, others)) if others.is_empty() => {
                tracing::info!(log, "SIGHUP: reread the settings");
            }
            Ok((log, others)) => tracing::warn!(
                log,
                "SIGHUP: reread the settings. Only the log filter can change while the server runs; restart it to \
                 change {}",
                others.join(", ")
            ),
        }
    }

    /// Applies the new log filter. Returns it with the names of the other settings that differ from those in use.
    fn read(&mut self) -> Result<(String, Vec<String>), String> {
        let read = config::values(&self.given.again()?);
        let log = read.get(LOG).cloned().unwrap_or_default();
        self.filter.set(&log)?;
        self.settings.insert(LOG.into(), log.clone());
        let names: std::collections::BTreeSet<_> =
            read.keys().chain(self.settings.keys()).collect();
        let others = names.into_iter().filter(|name| read.get(*name) != self.settings.get(*name));
        Ok((log, others.cloned().collect()))
    }
}
