//! Checks the disk: the duration of a sync, which delays every response, and the free space.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use leasehold_server::serve::Settings;

use super::finding::Finding;

const CHECK: &str = "disk";
/// Number of syncs to measure.
const N_SYNCS: usize = 21;
/// The size of a typical journal record.
const RECORD_BYTES: usize = 4096;
/// The limit for a good median. Clients notice a longer sync.
const SLOW: Duration = Duration::from_millis(10);
/// The limit for a usable median. If a sync takes longer, renewals might come too late.
const TOO_SLOW: Duration = Duration::from_millis(200);
/// The space that must be free in addition to the journal, for tables and history.
const FREE_BYTES_MIN: u64 = 256 << 20;

/// Checks the disk that holds the data directory.
pub(super) fn look(folder: Option<&Path>, settings: &Settings) -> Vec<Finding> {
    let Some(folder) = folder else { return Vec::new() };
    let sync = match syncs(folder) {
        Ok(times) => latency(times),
        Err(error) => {
            let found = format!("cannot write to {}: {error}", folder.display());
            Finding::problem(
                CHECK,
                found,
                "run doctor as the server's user; check permissions and disk space",
            )
        }
    };
    let free =
        rustix::fs::statvfs(folder).map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    let room = free.ok().map(|free| room(free, settings.engine.journal_bytes_max));
    [Some(sync), room].into_iter().flatten().collect()
}

/// Measures repeatedly how long it takes to make a record durable. Writes to an unnamed file, which disappears at the
/// end.
fn syncs(folder: &Path) -> std::io::Result<Vec<Duration>> {
    let mut file = unnamed(folder)?;
    let record = [0x5a; RECORD_BYTES];
    (0..N_SYNCS)
        .map(|_| {
            file.write_all(&record)?;
            let began = Instant::now();
            file.sync_data()?;
            Ok(began.elapsed())
        })
        .collect()
}

fn unnamed(folder: &Path) -> std::io::Result<File> {
    let path = folder.join(format!(".leasehold-doctor-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn latency(mut times: Vec<Duration>) -> Finding {
    times.sort_unstable();
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    let found =
        format!("a sync takes {} (median of {}, {} at most)", ms(median), times.len(), ms(most));
    if median > TOO_SLOW {
        let advice = "use another disk: every response waits for a sync, and leases might expire before they are \
            renewed";
        return Finding::problem(CHECK, found, advice);
    }
    if median > SLOW {
        let advice = "use a local SSD, or a write cache that survives power failures: every response waits for a sync";
        return Finding::warning(CHECK, found, advice);
    }
    Finding::fine(CHECK, found)
}

fn room(free: u64, journal_bytes_max: u64) -> Finding {
    let needed = journal_bytes_max.saturating_add(FREE_BYTES_MIN);
    let mib = |n: u64| n >> 20;
    let found = format!("{} MiB are free", mib(free));
    if free < FREE_BYTES_MIN {
        return Finding::problem(
            CHECK,
            found,
            "free some space: a server refuses acquires while disk space is low (disk-free-min)",
        );
    }
    if free < needed {
        let found = format!("{found}, but the journal can grow by {} MiB", mib(journal_bytes_max));
        return Finding::warning(CHECK, found, "free disk space, or lower --journal-bytes-max");
    }
    Finding::fine(CHECK, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn a_disk_is_judged_by_its_median() {
        let of = |ms: [u64; 3]| latency(ms.map(Duration::from_millis).into()).verdict;
        assert_eq!(of([1, 2, 500]), Verdict::Fine, "one slow sync is nothing");
        assert_eq!(of([30, 11, 1]), Verdict::Warning);
        assert_eq!(of([300, 201, 1]), Verdict::Problem);
    }

    #[test]
    fn there_must_be_room_for_the_journal() {
        let of = |mib: u64| room(mib << 20, 1 << 30).verdict;
        assert_eq!(
            (of(100), of(1000), of(2000)),
            (Verdict::Problem, Verdict::Warning, Verdict::Fine)
        );
    }

    #[test]
    fn a_measurement_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("leasehold-disk-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("a folder");
        assert_eq!(syncs(&folder).expect("times").len(), N_SYNCS);
        std::fs::remove_dir(&folder).expect("it is empty");
        assert!(syncs(&folder).is_err(), "it is gone");
    }
}
