//! Counts what clients do that lasts long: transfers of files, operations on whole folders, connections that linger.

use leasehold_engine::metrics::Book;
use prometheus_client::metrics::gauge::Gauge;

/// The long-running operations in progress.
#[derive(Default)]
pub struct Tasks {
    /// Files that are being written.
    pub uploads: Gauge,
    /// Files that are being sent.
    pub downloads: Gauge,
    /// Operations on whole folders that are running.
    pub tree_operations: Gauge,
    /// Connections that are read for a while after their last response.
    pub lingering: Gauge,
}

impl Tasks {
    pub(super) fn register(book: &mut Book) -> Self {
        let tasks = Self::default();
        let Self { uploads, downloads, tree_operations, lingering } = &tasks;
        book.add("leasehold_uploads", "Files that are being written", uploads.clone());
        book.add("leasehold_downloads", "Files that are being sent", downloads.clone());
        let help = "Copies, and moves and removals of folders, that are running";
        book.add("leasehold_tree_operations", help, tree_operations.clone());
        let help = "Connections that stay open for a while after their last response";
        book.add("leasehold_lingering", help, lingering.clone());
        tasks
    }
}
