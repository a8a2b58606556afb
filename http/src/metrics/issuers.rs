//! Metrics of token issuers. Without issuers there are none.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use leasehold_auth::{IssuerState, KeysState};
use leasehold_engine::metrics::Book;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct IssuerLabel {
    issuer: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct FetchLabel {
    issuer: String,
    result: &'static str,
}

/// All metrics of issuers.
pub struct IssuerMetrics {
    n_keys: Family<IssuerLabel, Gauge>,
    n_tokens: Family<IssuerLabel, Gauge>,
    keys_age: Family<IssuerLabel, Gauge>,
    fetches: Family<FetchLabel, Counter>,
}

impl IssuerMetrics {
    pub(super) fn registered(book: &mut Book) -> Self {
        let metrics = Self {
            n_keys: Family::default(),
            n_tokens: Family::default(),
            keys_age: Family::default(),
            fetches: Family::default(),
        };
        let n_keys = metrics.n_keys.clone();
        book.add("leasehold_issuer_keys", "Valid keys of a token issuer", n_keys);
        let help = "Remembered tokens of a token issuer";
        book.add("leasehold_issuer_tokens", help, metrics.n_tokens.clone());
        let age = metrics.keys_age.clone();
        let help = "Time since the keys of a token issuer were last fetched";
        book.add("leasehold_issuer_keys_age_seconds", help, age);
        let help = "Fetches of the keys of a token issuer, by result";
        book.add("leasehold_issuer_fetches", help, metrics.fetches.clone());
        metrics
    }

    /// Updates the gauges from the state of all issuers, and drops issuers that are no longer in the auth file.
    pub fn observe(&self, issuers: Vec<(String, IssuerState)>) {
        self.n_keys.clear();
        self.n_tokens.clear();
        self.keys_age.clear();
        for (issuer, state) in issuers {
            let IssuerState { keys: KeysState { n_keys, age, fetches }, n_tokens } = state;
            let label = IssuerLabel { issuer: issuer.clone() };
            self.n_keys.get_or_create(&label).set(n_keys as i64);
            self.n_tokens.get_or_create(&label).set(n_tokens as i64);
            if let Some(age) = age {
                self.keys_age.get_or_create(&label).set(age.as_secs() as i64);
            }
            for (result, n) in [
                ("success", fetches.n_good),
                ("empty", fetches.n_empty),
                ("fail", fetches.n_failed),
            ] {
                let label = FetchLabel { issuer: issuer.clone(), result };
                let known = self.fetches.get_or_create(&label);
                known.inc_by(n.saturating_sub(known.get()));
            }
        }
    }
}
