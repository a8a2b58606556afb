//! Tests that data directories of earlier releases can be read, including after a crash. `scripts/fixture` creates
//! them.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::time::Duration;

use leasehold_base::clock::Moment;
use leasehold_core::{
    Command, Ending, LeaseRecord, Limits, Machine, Phase, Resume, Row, invariant,
};
use leasehold_store::sqlite::{Options, Space, SqliteStore, backup, restore, verify};
use leasehold_store::{Draft, Error, Kind, Loaded, Store};
use leasehold_testkit::folder;
use rusqlite::Connection;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn open(data: &Path) -> Result<(SqliteStore, Loaded), Error> {
    let fold_interval = Duration::from_secs(3600);
    let mut store = SqliteStore::open(Options {
        data: data.into(),
        fold_interval,
        history: Default::default(),
        space: Space::unwatched(),
    })?;
    let loaded = store.load(Limits::default(), 1)?;
    Ok((store, loaded))
}

fn append(store: &mut SqliteStore, machine: &mut Machine, command: Command) {
    let permit = store.reserve().expect("not busy");
    let applied = machine.apply(machine.now(), command);
    let moment = Moment { lock_time: machine.now(), ..Moment::default() };
    store
        .append(permit, Draft { kind: Kind::Epoch, moment, changes: &applied.changes })
        .expect("durable");
}

fn leases(machine: &Machine) -> Vec<LeaseRecord> {
    let rows = machine.export().into_iter();
    rows.filter_map(|row| if let Row::Lease(lease) = row { Some(lease) } else { None }).collect()
}

/// Checks the state that `scripts/fixture` created, before or after a restart.
fn check_content(machine: &Machine, has_restarted: bool) {
    assert_eq!(invariant::check(machine), Ok(()));
    let leases = leases(machine);
    let phase_of = |name: &str| -> Vec<Phase> {
        let of_lock = leases.iter().filter(|lease| &*lease.lock.name == name);
        of_lock.map(|lease| lease.phase).collect()
    };
    let queued = if has_restarted { Phase::Parked } else { Phase::Waiting };
    assert_eq!(phase_of("plain"), [Phase::Active, queued, queued]);
    assert_eq!(phase_of("shared"), [Phase::Active; 2]);
    assert_eq!(phase_of("counted"), [Phase::Active]);
    assert_eq!(phase_of("revoked"), [Phase::Ended(Ending::Revoked)]);
    assert_eq!(phase_of("in-session"), [Phase::Active]);
    assert_eq!(phase_of("printer"), [Phase::Active, Phase::Waiting]);
    assert_eq!(phase_of("scanner"), [Phase::Ended(Ending::Released)]);
    let counts = machine.counts();
    assert_eq!((counts.n_sessions, counts.n_requests), (1, 3));
    let lapses = machine.export().into_iter().filter_map(|row| match row {
        Row::Lock(lock) => lock.lapse,
        _ => None,
    });
    assert_eq!(lapses.count(), 1, "the grace period");
}

#[test]
fn every_folder_of_every_earlier_format_is_read_and_goes_on() {
    let mut n_folders = 0;
    for format in std::fs::read_dir(FIXTURES).unwrap() {
        for fixture in std::fs::read_dir(format.unwrap().path()).unwrap() {
            n_folders += 1;
            let fixture = fixture.unwrap().path();
            let data = folder();
            copy(&fixture, data.path());
            let (mut store, Loaded { mut machine, .. }) =
                open(data.path()).unwrap_or_else(|error| panic!("{}: {error}", fixture.display()));
            check_content(&machine, false);
            append(&mut store, &mut machine, Command::Resume(Resume::ALL));
            // A crash, then a graceful stop, then a start.
            drop(store);
            let (mut store, Loaded { machine, .. }) = open(data.path()).expect("its own format");
            check_content(&machine, true);
            store.finish().expect("folded");
            drop(store);
            check_content(&open(data.path()).expect("folded by us").1.machine, true);
            verify(data.path()).expect("sound");
            check_columns(data.path());
        }
    }
    assert!(n_folders >= 3, "{n_folders}");
}

/// Checks that a migrated table has the same columns as a new one.
fn check_columns(migrated: &Path) {
    let new = folder();
    drop(open(new.path()).expect("new"));
    let columns = |data: &Path| -> Vec<String> {
        let db = Connection::open(data.join("tables.db")).unwrap();
        let sql = "SELECT m.name || '.' || c.name || ' ' || c.type FROM sqlite_master m,
                   pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1";
        let mut statement = db.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(|row| row.unwrap()).collect()
    };
    assert_eq!(columns(migrated), columns(new.path()));
}

#[test]
fn a_backup_of_an_earlier_format_is_restored() {
    let [data, copied, restored] = [folder(), folder(), folder()];
    copy(&Path::new(FIXTURES).join("layout-1/folded"), data.path());
    backup(data.path(), copied.path()).expect("copied");
    restore(copied.path(), restored.path()).expect("restored");
    let (_store, loaded) = open(restored.path()).expect("sound");
    assert!(loaded.is_restored);
    assert_eq!(loaded.machine.counts().n_active, 0);
}
