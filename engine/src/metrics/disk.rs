//! Metrics of the disk space of an embedded store. Other stores have none.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::{Book, NoLabels};
use leasehold_store::DiskSpace;

/// All gauges. Each is shown once it has a value.
pub(crate) struct DiskMetrics([Family<NoLabels, Gauge>; SHOWN.len()]);

/// Name and description, in the order of the gauges.
const SHOWN: [(&str, &str); 3] = [
    ("leasehold_disk_free_bytes", "Bytes free on the disk of the data directory"),
    (
        "leasehold_disk_reserve_bytes",
        "Bytes of disk space reserved for renewals, releases and expiries",
    ),
    ("leasehold_disk_low", "1 while acquires are refused because disk space is low"),
];

impl DiskMetrics {
    pub(crate) fn registered(book: &mut Book) -> Self {
        let this = Self(Default::default());
        for (gauge, (name, about)) in this.0.iter().zip(SHOWN) {
            book.add(name, about, gauge.clone());
        }
        this
    }

    pub(crate) fn observe(&self, disk: Option<DiskSpace>) {
        let Some(DiskSpace { free, reserve, is_low, .. }) = disk else { return };
        for (gauge, value) in self.0.iter().zip([free, reserve, u64::from(is_low)]) {
            gauge.get_or_create(&[]).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}
