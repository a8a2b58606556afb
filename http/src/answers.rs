//! Limits long responses, event streams and operations on whole folders. Each kind has a separate budget, and each
//! client has a share of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::Quota;

use super::Options;
use super::pieces::PIECE_BYTES;
use crate::metrics::Metrics;
use leasehold_auth::shares::{Client, Full, Shares, Taken};

/// Maximum memory of one long response: a piece being created, one in the queue, and what its connection has not sent
/// yet.
const LONG_BYTES: usize = 4 * PIECE_BYTES;
/// A response of this size, sent whole, is part of what every request can take.
pub const FREE_BYTES: usize = 16 * 1024;

/// The limits, shared by all threads.
pub struct Answers {
    long: Budget,
    /// Event streams of all kinds.
    streams: Budget,
    /// File downloads in all dialects.
    downloads: Budget,
    /// Operations on whole folders.
    trees: Budget,
    patience: Duration,
    metrics: Arc<Metrics>,
}

/// The limits of one kind.
struct Budget {
    taken: Arc<Shares>,
    n_max: usize,
    share_max: usize,
    what: &'static str,
    unit: &'static str,
    setting: &'static str,
    share_setting: &'static str,
}

/// A response that is being sent. Counts until it is dropped.
pub struct Sending {
    _taken: Taken,
    /// How long the client can read nothing before the response is aborted.
    pub(super) patience: Duration,
}

/// Too many responses are in progress. Nothing was done.
#[derive(Debug)]
pub struct TooMuch {
    why: String,
    /// Whether the client's own share or quota is used up, as opposed to the budget of all clients.
    pub is_own: bool,
}

impl Answers {
    /// Creates the budgets that these options set.
    pub fn new(options: &Options, metrics: Arc<Metrics>) -> Self {
        // One long answer always fits.
        let long_max = options.answers_bytes_max.max(LONG_BYTES);
        let long_share_max = options.principal_answers_bytes_max.max(LONG_BYTES);
        let long = Budget {
            what: "long answers",
            unit: " bytes",
            setting: "answers-bytes-max",
            share_setting: "principal-answers-bytes-max",
            ..Budget::new(long_max, long_share_max)
        };
        let streams = Budget {
            what: "event streams",
            setting: "event-streams-max",
            share_setting: "principal-event-streams-max",
            ..Budget::new(options.event_streams_max, options.principal_event_streams_max)
        };
        let downloads = Budget {
            what: "downloads",
            setting: "downloads-max",
            share_setting: "principal-downloads-max",
            ..Budget::new(options.downloads_max, options.principal_downloads_max)
        };
        let trees = Budget {
            what: "operations on folders",
            setting: "tree-operations-max",
            share_setting: "principal-tree-operations-max",
            ..Budget::new(options.tree_operations_max, options.principal_tree_operations_max)
        };
        Self { long, streams, downloads, trees, patience: options.answer_timeout, metrics }
    }

    /// Admits one more response that is sent in pieces.
    pub fn long(&self, client: &Client) -> Result<Sending, TooMuch> {
        let taken = self.long.taken.take_some(client, LONG_BYTES, None);
        self.begin(taken.map_err(|full| self.long.refuse(full, &self.metrics)))
    }

    /// Counts a response of this many bytes that is sent whole; `None` if it is too short to count. `is_urgent`: it is
    /// refused only if the client's own share is used up.
    pub fn whole(
        &self,
        client: &Client,
        n_bytes: usize,
        is_urgent: bool,
    ) -> Result<Option<Sending>, TooMuch> {
        if n_bytes <= FREE_BYTES {
            return Ok(None);
        }
        let Budget { taken, n_max, share_max, .. } = &self.long;
        // One response can use a budget up, but is not refused for its size.
        let n_bytes = n_bytes.min(*n_max).min(*share_max);
        let taken = match is_urgent {
            true => taken.take_beyond(client, n_bytes),
            false => taken.take_some(client, n_bytes, None),
        };
        self.begin(taken.map_err(|full| self.long.refuse(full, &self.metrics))).map(Some)
    }

    /// Admits one more event stream of this client, of any kind.
    pub fn stream(&self, client: &Client) -> Result<Sending, TooMuch> {
        let taken = self.streams.taken.take(client, client.streams);
        self.begin(taken.map_err(|full| self.streams.refuse(full, &self.metrics)))
    }

    /// Admits one more file that is sent to this client. Taken before the file is opened.
    pub fn download(&self, client: &Client) -> Result<Sending, TooMuch> {
        let taken = self.downloads.taken.take(client, None);
        self.begin(taken.map_err(|full| self.downloads.refuse(full, &self.metrics)))
    }

    /// Admits one more operation of this client on a whole folder, which uses a thread for a long time.
    pub fn tree(&self, client: &Client) -> Result<Sending, TooMuch> {
        let taken = self.trees.taken.take(client, None);
        self.begin(taken.map_err(|full| self.trees.refuse(full, &self.metrics)))
    }

    fn begin(&self, taken: Result<Taken, TooMuch>) -> Result<Sending, TooMuch> {
        Ok(Sending { _taken: taken?, patience: self.patience })
    }

    /// Returns the maximum memory of the long responses in progress.
    pub fn n_long_bytes(&self) -> usize {
        self.long.taken.n()
    }

    /// Returns the number of files being sent.
    pub fn n_downloads(&self) -> usize {
        self.downloads.taken.n()
    }

    /// Returns the number of operations on whole folders in progress.
    pub fn n_trees(&self) -> usize {
        self.trees.taken.n()
    }

    /// Returns the number of open event streams.
    pub fn n_streams(&self) -> usize {
        self.streams.taken.n()
    }
}

impl Budget {
    fn new(n_max: usize, share_max: usize) -> Self {
        let taken = Shares::new(n_max, share_max);
        let (what, unit, setting, share_setting) = ("", "", "", "");
        Self { taken, n_max, share_max, what, unit, setting, share_setting }
    }

    fn refuse(&self, full: Full, metrics: &Metrics) -> TooMuch {
        let Self { n_max, share_max, what, unit, setting, share_setting, .. } = *self;
        let own = " of one principal, or of one anonymous address";
        let quota = "quota in auth-file";
        let (whose, allowed, setting, line) = match full {
            Full::All => ("", n_max, setting, None),
            Full::Share => (own, share_max, share_setting, None),
            Full::Quota(Quota { max, line }) => {
                (" of this principal", max as usize, quota, Some(line))
            }
        };
        metrics.engine.refusals.count(setting);
        let line = line.map_or_else(String::new, |line| format!(", line {line}"));
        let why = format!(
            "too many {what}{whose}; limit: {allowed}{unit} ({setting}{line}); the request had no effect; try again \
             later"
        );
        TooMuch { why, is_own: full != Full::All }
    }
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
