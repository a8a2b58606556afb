//! Metrics per namespace, for callers that can read all namespaces.
//!
//! Clients can create any number of namespaces, so only those with the most leases are shown separately. The others are
//! counted together.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::spelled::spelled;
use leasehold_engine::NamespaceCounts;
use leasehold_engine::metrics::Book;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct NamespaceLabel {
    namespace: String,
}

/// Names and descriptions of the metrics of a namespace.
pub(super) const SHOWN: [(&str, &str); 4] = [
    ("leasehold_namespace_locks", "Locks held or waited for, by namespace"),
    ("leasehold_namespace_leases", "Leases that hold a lock or wait for one, by namespace"),
    ("leasehold_namespaces_unlisted", "Namespaces that are not shown separately"),
    ("leasehold_namespaces_unlisted_leases", "Leases in namespaces that are not shown separately"),
];

/// Adds metrics with these counts.
pub(super) fn register(book: &mut Book, counts: &NamespaceCounts) {
    let locks = Family::<NamespaceLabel, Gauge>::default();
    let leases = Family::<NamespaceLabel, Gauge>::default();
    for namespace in &counts.listed {
        // A namespace can contain any characters, and labels can end up in a terminal.
        let label = NamespaceLabel { namespace: spelled(&namespace.name).into_owned() };
        locks.get_or_create(&label).set(namespace.n_locks as i64);
        leases.get_or_create(&label).set(i64::from(namespace.n_leases));
    }
    let (others, leases_of_others) = (Gauge::<i64>::default(), Gauge::<i64>::default());
    others.set(counts.n_others as i64);
    leases_of_others.set(counts.n_leases_of_others as i64);
    let [of_locks, of_leases, of_others, of_their_leases] = SHOWN;
    book.add(of_locks.0, of_locks.1, locks);
    book.add(of_leases.0, of_leases.1, leases);
    book.add(of_others.0, of_others.1, others);
    book.add(of_their_leases.0, of_their_leases.1, leases_of_others);
}
