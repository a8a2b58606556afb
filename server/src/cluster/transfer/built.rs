//! The operations on whole stores.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::clock::{Clock, SystemClock};

use super::Home;
use crate::cluster::{Access, reach};
use leasehold_store::shared::{self, Checked, Site};
use leasehold_store::{Error, history, sqlite};

/// Copies a shared store into a new or empty directory, even while servers use it. Checks the store first.
pub fn backup(access: &Access, target: &Path) -> Result<sqlite::Copied, Error> {
    let Checked { whole, .. } = check(access)?;
    sqlite::Arrival::backup(target, &whole)?.complete()
}

/// Reads a whole shared store and checks it.
pub fn verify(access: &Access) -> Result<sqlite::Report, Error> {
    let Checked { whole, n_records, is_rewound, moved_to } = check(access)?;
    let (seq, counts) = (whole.place.seq, whole.machine.counts());
    Ok(sqlite::Report { n_records, seq, counts, is_backup: false, moved_to, is_rewound })
}

/// Replaces a shared store that no server leads by a backup, or creates the store from it.
pub fn restore(backup: &Path, access: &Access) -> Result<(), Error> {
    let whole = sqlite::read_backup(backup)?;
    shared::restore(&*reach(access)?, whole)
}

/// Moves a store. Its leases stay valid, and no server can start from the old location.
pub fn migrate(from: &Home, to: &Home) -> Result<(), Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    match (from, to) {
        (Home::Folder(from), Home::Shared(to)) => {
            let backend = reach(to)?;
            let site = Site::new(&*backend);
            let mut arrival = site.arrive()?;
            let (departure, mut whole) = sqlite::Departure::open(options(from), clock)?;
            arrival.write(&whole)?;
            departure.close(&to.location.to_string(), &mut whole)?;
            arrival.commit(&whole)
        }
        (Home::Shared(from), Home::Folder(to)) => {
            let backend = reach(from)?;
            let site = Site::new(&*backend);
            let (departure, whole) = site.depart(clock)?;
            let arrival = sqlite::Arrival::moved(to, &whole)?;
            departure.close(&absolute(to))?;
            arrival.complete().map(drop)
        }
        (Home::Shared(from), Home::Shared(to)) => {
            let (here, there) = (reach(from)?, reach(to)?);
            let new_site = Site::new(&*there);
            let mut arrival = new_site.arrive()?;
            let site = Site::new(&*here);
            let (departure, whole) = site.depart(clock)?;
            arrival.write(&whole)?;
            departure.close(&to.location.to_string())?;
            arrival.commit(&whole)
        }
        (Home::Folder(from), Home::Folder(_)) => Err(Error::Refused(format!(
            "to move a data directory, stop its server and rename {}",
            from.display()
        ))),
    }
}

/// Undoes a migration away from this store.
pub fn reopen(home: &Home) -> Result<(), Error> {
    match home {
        Home::Folder(data) => sqlite::reopen(options(data)),
        Home::Shared(access) => Site::new(&*reach(access)?).reopen(),
    }
}

fn check(access: &Access) -> Result<Checked, Error> {
    shared::check(&*reach(access)?, &SystemClock::new())
}

/// Options that keep the whole history, because a migration must not lose any.
fn options(data: &Path) -> sqlite::Options {
    let history = history::Bounds { age_max: Duration::MAX, bytes_max: u64::MAX };
    let (fold_interval, space) = (Duration::from_secs(1), sqlite::Space::unwatched());
    sqlite::Options { data: data.into(), fold_interval, history, space }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.into()).display().to_string()
}
