//! How many sessions each dialect has.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::Book;
use super::DialectLabel;
use crate::dialect::{self, Dialect};

pub(super) fn sessions_of_each(book: &mut Book) -> Vec<(Dialect, Gauge)> {
    let family = Family::<DialectLabel, Gauge>::default();
    book.add("leasehold_sessions", "Sessions, by dialect", family.clone());
    let gauge = |dialect: &Dialect| {
        let label = DialectLabel { dialect: dialect.to_string() };
        (*dialect, family.get_or_create(&label).clone())
    };
    dialect::ALL.iter().map(gauge).collect()
}
