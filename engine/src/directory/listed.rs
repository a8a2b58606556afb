//! The locks of a page, each as it durably is.

use leasehold_core::{Detail, LockKey, Settle};

use crate::batch::Batch;
use crate::read::{Filter, LOCK_BYTES_MAX, LockPage, Look, PAGE_BYTES, SCAN_MAX, matches};
use crate::writer::Writer;

/// Some of the locks with these names, as many as fit a page.
#[derive(Clone, Debug)]
pub struct ListNames {
    pub(crate) filter: Filter,
    pub(crate) names: Vec<Box<str>>,
    /// Where to go on if all of them were looked at.
    pub(crate) next: Option<Box<str>>,
}

impl Look for ListNames {
    type Found = LockPage;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> LockPage {
        let Self { filter, names, next } = self;
        let mut page = LockPage::default();
        let detail = Detail { n_queue_max: SCAN_MAX, n_bytes_max: LOCK_BYTES_MAX };
        let mut before = filter.after.clone();
        for name in names {
            if page.locks.len() == filter.n_max || page.n_bytes >= PAGE_BYTES {
                page.next = before;
                return page;
            }
            let key = LockKey::new(&*filter.namespace, name.clone());
            before = Some(name);
            // Nothing is shown as over that is not durably over.
            let _ = writer.apply(Settle(key.clone()), batch);
            let view = writer.machine.lock_in_part(&key, detail);
            if matches(&key.name, &view, &filter) {
                page.n_bytes += view.n_bytes();
                page.locks.push((key, view));
            }
        }
        page.next = next;
        page
    }
}
