//! Tests of the SQLite store: the loaded state equals the appended one, however it was folded, and an unsound store is
//! refused.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

use crate::step;

use std::path::Path;
use std::time::Duration;

use leasehold_base::clock::Moment;
use leasehold_core::{
    Acquire, Change, Dialect, Limits, LockKey, Machine, Owner, Row, Secret, Span, Timestamp,
};
use leasehold_store::sqlite::{Options, Space, SqliteStore, backup, restore, verify};
use leasehold_store::{Draft, Error, Kind, Loaded, Store};
use leasehold_testkit::folder;
use proptest::prelude::*;
use rusqlite::Connection;

fn open(data: &Path) -> Result<SqliteStore, Error> {
    let (data, fold_interval) = (data.into(), Duration::from_secs(3600));
    let (history, space) = (Default::default(), Space::unwatched());
    SqliteStore::open(Options { data, fold_interval, history, space })
}

fn load(store: &mut SqliteStore) -> Result<Loaded, Error> {
    store.load(Limits::default(), 1)
}

fn append(store: &mut SqliteStore, machine: &Machine, changes: &[Change]) {
    let permit = store.reserve().expect("not busy");
    let moment = Moment { lock_time: machine.now(), ..Moment::default() };
    store.append(permit, Draft { kind: Kind::Batch, moment, changes }).expect("durable");
}

/// Returns the state without its time, which advances even if nothing happens.
fn state(machine: &Machine) -> (Row, Vec<Row>) {
    let mut rows = machine.export();
    let rest = rows.split_off(1);
    let Some(Row::Meta { next_lease, next_session, floor, maintenance, .. }) = rows.pop() else {
        panic!("no meta")
    };
    (Row::Meta { next_lease, next_session, now: Timestamp::ZERO, floor, maintenance }, rest)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Appends in batches. Some rounds end with a fold, others without, as after a crash.
    #[test]
    fn what_was_appended_is_what_is_loaded(
        rounds in proptest::collection::vec((step::sequence(1..60), any::<bool>()), 1..5),
    ) {
        let data = folder();
        let mut n_leases = 0;
        let mut expected: Option<(Row, Vec<Row>)> = None;
        for (steps, is_folded) in rounds {
            let mut store = open(data.path()).expect("ours");
            let mut machine = load(&mut store).expect("sound").machine;
            if let Some(expected) = &expected {
                prop_assert_eq!(&state(&machine), expected);
            }
            for (batch, steps) in steps.chunks(7).enumerate() {
                let mut changes = Vec::new();
                for (n, step) in steps.iter().enumerate() {
                    let (now, command) = step.resolve(batch * 7 + n, machine.now(), n_leases);
                    let applied = machine.apply(now, command);
                    let added = |change: &&Change| matches!(change, Change::LeaseAdded(_));
                    n_leases += applied.changes.iter().filter(added).count() as u64;
                    changes.extend(applied.changes);
                }
                append(&mut store, &machine, &changes);
            }
            if is_folded {
                store.finish().expect("folded");
            }
            expected = Some(state(&machine));
        }
        verify(data.path()).expect("sound");
    }
}

/// Creates a store with a few locks, some of them folded, and closes it. Returns its state.
fn some_store(data: &Path) -> (Row, Vec<Row>) {
    let mut store = open(data).expect("new");
    let mut machine = load(&mut store).expect("empty").machine;
    for n in 0..20 {
        let applied = machine.apply(machine.now(), acquire(&format!("lock-{n}")));
        append(&mut store, &machine, &applied.changes);
        if n == 9 {
            store.finish().expect("folded");
            drop(store);
            store = open(data).expect("ours");
            machine = load(&mut store).expect("sound").machine;
        }
    }
    state(&machine)
}

fn acquire(name: &str) -> Acquire {
    let lock = LockKey::new("default", name);
    let owner = Owner::new("anonymous", "a");
    Acquire {
        ttl: Some(Span::from_secs(60)),
        request_id: Some("r".into()).filter(|_| name == "lock-3"),
        ..Acquire::new(lock, owner, Dialect(0), Secret([1; 16]))
    }
}

/// Damages a store. Checks that it refuses to start with this message, and that nothing was written.
fn check_refused(damage: impl FnOnce(&Path), words: &str) {
    let data = folder();
    some_store(data.path());
    damage(data.path());
    let before = content(data.path());
    let refused = open(data.path()).and_then(|mut store| load(&mut store).map(drop));
    let Err(Error::Refused(why)) = refused else { panic!("not refused: {words}") };
    assert!(why.contains(words), "{why:?} does not say {words:?}");
    assert_eq!(content(data.path()), before, "something was written");
}

/// Returns everything in both files that can be read.
fn content(data: &Path) -> Vec<String> {
    let queries = [
        ("journal.db", "SELECT seq || hex(record) FROM journal"),
        ("journal.db", "SELECT key || value FROM meta"),
        ("tables.db", "SELECT key || hex(value) FROM meta"),
        ("tables.db", "SELECT number || phase || lock FROM leases"),
        ("tables.db", "SELECT lock || last_token FROM tokens"),
    ];
    let read = |(file, query): (&str, &str)| -> rusqlite::Result<Vec<String>> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
        let db = Connection::open_with_flags(data.join(file), flags)?;
        let mut statement = db.prepare(query)?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    queries
        .into_iter()
        .flat_map(|query| read(query).unwrap_or_else(|e| vec![e.to_string()]))
        .collect()
}

fn sql(data: &Path, file: &str, statement: &str) {
    let db = Connection::open(data.join(file)).expect("a file");
    db.execute_batch(statement).expect("damage");
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("written");
}

#[test]
fn a_damaged_journal_is_refused_and_left_alone() {
    let flip = "UPDATE journal SET record = zeroblob(length(record)) WHERE seq = 15";
    check_refused(|data| sql(data, "journal.db", flip), "journal record 15 is damaged");
    let newer =
        "UPDATE journal SET record = CAST(x'ff' || substr(record, 2) AS BLOB) WHERE seq = 15";
    check_refused(|data| sql(data, "journal.db", newer), "newer version");
    let hole = "DELETE FROM journal WHERE seq = 15";
    check_refused(|data| sql(data, "journal.db", hole), "journal record 15 is missing");
    let start = "DELETE FROM journal WHERE seq <= 11";
    check_refused(|data| sql(data, "journal.db", start), "journal record 11 is missing");
    check_refused(|data| sql(data, "journal.db", start), "Either tables.db, or tables.db-wal");
    let last = "DELETE FROM journal WHERE seq = 20";
    check_refused(|data| sql(data, "journal.db", last), "journal records 20 to 20 are missing");
    let swapped =
        "UPDATE journal SET record = (SELECT record FROM journal WHERE seq = 14) WHERE seq = 15";
    check_refused(|data| sql(data, "journal.db", swapped), "it was written as record 14");
    let garbage = |data: &Path| std::fs::write(data.join("journal.db"), [7; 8192]).unwrap();
    check_refused(garbage, "not a database");
    for n_bytes in [100, 4096, 5000] {
        let cut = |data: &Path| {
            let file = std::fs::OpenOptions::new().write(true).open(data.join("journal.db"));
            file.and_then(|file| file.set_len(n_bytes)).unwrap();
        };
        check_refused(cut, "journal.db: ");
    }
}

#[test]
fn a_file_is_no_folder() {
    let parent = folder();
    let data = parent.path().join("data");
    std::fs::write(&data, "").unwrap();
    let why = open(&data).map(drop).unwrap_err().to_string();
    assert!(why.ends_with("data is a file, not a directory"), "{why}");
}

#[test]
fn damaged_foreign_and_newer_files_are_refused_and_left_alone() {
    let layout = "PRAGMA user_version = 99";
    check_refused(|data| sql(data, "journal.db", layout), "layout 99");
    check_refused(|data| sql(data, "tables.db", layout), "layout 99");
    check_refused(
        |data| sql(data, "tables.db", "PRAGMA application_id = 7"),
        "not a Leasehold file",
    );
    let other = "UPDATE meta SET value = 'other' WHERE key = 'store_id'";
    check_refused(|data| sql(data, "tables.db", other), "belongs to another store");
    let phase = "UPDATE leases SET phase = 'sideways' WHERE number = 3";
    check_refused(|data| sql(data, "tables.db", phase), "phase");
    for row in [
        "UPDATE tokens SET last_token = last_token - 1 WHERE lock = 'lock-3'",
        "DELETE FROM tokens WHERE lock = 'lock-3'",
        "DELETE FROM requests",
        "UPDATE leases SET deadline = deadline + 1 WHERE number = 3",
        "INSERT INTO namespaces VALUES ('new', 0)",
    ] {
        check_refused(|data| sql(data, "tables.db", row), "tables.db: a row was changed");
    }
    for meta in [
        "UPDATE meta SET value = 5 WHERE key = 'next_lease'",
        "DELETE FROM meta WHERE key = 'floor'",
    ] {
        check_refused(|data| sql(data, "tables.db", meta), "tables.db: its table meta was changed");
    }
    let missing =
        |name: &'static str| move |data: &Path| std::fs::remove_file(data.join(name)).unwrap();
    check_refused(missing("tables.db"), "tables.db is missing");
    check_refused(missing("journal.db"), "journal.db is missing");
    check_refused(missing("mark"), "mark is missing");
    let emptied =
        |name: &'static str| move |data: &Path| std::fs::write(data.join(name), "").unwrap();
    check_refused(emptied("journal.db"), "journal.db is missing or empty");
    check_refused(emptied("tables.db"), "tables.db is missing or empty");
    check_refused(emptied("mark"), "mark is damaged");
    let other = |data: &Path| {
        let other = folder();
        some_store(other.path());
        std::fs::copy(other.path().join("mark"), data.join("mark")).unwrap();
    };
    check_refused(other, "mark belongs to another store");
    let foreign = |data: &Path| {
        let text = "no database at all, whatever this is";
        std::fs::write(data.join("tables.db"), text).unwrap();
    };
    check_refused(foreign, "not a database");
}

#[test]
fn verify_says_what_is_wrong_and_changes_nothing() {
    let data = folder();
    some_store(data.path());
    assert_eq!(verify(data.path()).expect("sound").counts.n_active, 20);
    sql(data.path(), "journal.db", "UPDATE journal SET record = x'00' WHERE seq = 15");
    assert!(verify(data.path()).unwrap_err().to_string().contains("journal record 15"));
    sql(data.path(), "journal.db", "DELETE FROM journal WHERE seq >= 15");
    let why = verify(data.path()).unwrap_err().to_string();
    assert!(why.contains("journal records 15 to 20 are missing, and were acknowledged"), "{why}");
    let beyond = "UPDATE tokens SET last_token = 9007199254740993 WHERE lock = 'lock-3'";
    sql(data.path(), "tables.db", beyond);
    assert!(verify(data.path()).is_err());
}

#[test]
fn other_users_cannot_read_a_new_store() {
    use std::os::unix::fs::PermissionsExt;
    let parent = folder();
    let data = parent.path().join("data");
    drop(open(&data).expect("new"));
    let mode = std::fs::metadata(&data).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_second_server_on_one_folder_is_refused() {
    let data = folder();
    let _first = open(data.path()).expect("new");
    let Err(Error::Refused(why)) = open(data.path()) else { panic!("two servers on one folder") };
    assert!(why.contains("in use by process"), "{why}");
    assert!(verify(data.path()).unwrap_err().to_string().contains("in use"));
}

/// Moves a file of a store away while it is in use. Checks that the store reports it before it acknowledges the next
/// append.
fn check_lost(name: &str) {
    let data = folder();
    let mut store = open(data.path()).expect("new");
    let mut machine = load(&mut store).expect("empty").machine;
    let applied = machine.apply(machine.now(), acquire("lock"));
    append(&mut store, &machine, &applied.changes);
    std::fs::rename(data.path().join(name), data.path().join("away")).unwrap();
    let applied = machine.apply(machine.now(), acquire("other"));
    let appended = store.reserve().and_then(|permit| {
        let moment = Moment { lock_time: machine.now(), ..Moment::default() };
        store.append(permit, Draft { kind: Kind::Batch, moment, changes: &applied.changes })
    });
    let why = appended.expect_err("the record would be lost").to_string();
    assert!(why.contains(&format!("{name} was removed or replaced")), "{why}");
}

#[test]
fn a_store_whose_files_are_removed_fails_before_any_answer() {
    check_lost("journal.db");
    check_lost("journal.db-wal");
}

#[test]
fn a_database_held_by_another_process_is_busy_and_nothing_happens() {
    let data = folder();
    let mut store = open(data.path()).expect("new");
    load(&mut store).expect("empty");
    let other = Connection::open(data.path().join("journal.db")).expect("a file");
    other.execute_batch("BEGIN IMMEDIATE").expect("held");
    assert!(matches!(store.reserve(), Err(Error::Busy)));
    other.execute_batch("ROLLBACK").expect("let go");
    let permit = store.reserve().expect("free again");
    store.confirm(permit).expect("no other process can have written");
}

#[test]
fn a_backup_restores_to_something_that_hands_out_nothing_twice() {
    let [data, copy, restored] = [folder(), folder(), folder()];
    let before = some_store(data.path());
    let mut store = open(data.path()).expect("ours");
    let mut machine = load(&mut store).expect("sound").machine;
    backup(data.path(), copy.path()).expect("a copy");
    let applied = machine.apply(machine.now(), acquire("after-the-backup"));
    append(&mut store, &machine, &applied.changes);
    assert!(verify(copy.path()).expect("sound").is_backup);
    restore(copy.path(), restored.path()).expect("restored");
    assert!(restore(copy.path(), restored.path()).is_err(), "into a folder that is not empty");
    let mut store = open(restored.path()).expect("ours");
    let Loaded { mut machine, is_restored, .. } = load(&mut store).expect("sound");
    let Row::Meta { next_lease, .. } = before.0 else { panic!("no meta") };
    assert!(is_restored);
    assert_eq!(machine.counts().n_active, 0);
    let Row::Meta { next_lease: next, .. } = machine.export()[0] else { panic!("no meta") };
    assert!(next.0 > next_lease.0 + (1 << 39));
    let applied = machine.apply(machine.now(), acquire("lock-1"));
    let Change::LeaseAdded(lease) = &applied.changes[0] else { panic!("not granted") };
    assert!(lease.token.get() > 1 << 40);
    append(&mut store, &machine, &applied.changes);
    drop(store);
    let mut store = open(restored.path()).expect("ours");
    let mut machine = load(&mut store).expect("sound").machine;
    let lock = LockKey::new("named-after-the-backup", "lock-1");
    let applied = machine.apply(machine.now(), Acquire { lock, ..acquire("lock-1") });
    let Change::LeaseAdded(lease) = &applied.changes[0] else { panic!("not granted") };
    assert!(lease.token.get() > 1 << 40, "also where the backup knew of nothing");
    drop(store);
    let mut store = open(restored.path()).expect("ours");
    let loaded = load(&mut store).expect("sound");
    assert!(!loaded.is_restored, "only the first start ends everything");
    assert_eq!(loaded.machine.counts().n_active, 1);
}

#[test]
fn folded_records_are_trimmed_a_few_with_each_commit() {
    let data = folder();
    some_store(data.path());
    let mut store = open(data.path()).expect("ours");
    let mut machine = load(&mut store).expect("sound").machine;
    store.finish().expect("folded");
    let before = store.journal().n_records;
    for n in 0..10 {
        let applied = machine.apply(machine.now(), acquire(&format!("more-{n}")));
        append(&mut store, &machine, &applied.changes);
    }
    assert!(before >= 10, "{before}");
    assert!(store.journal().n_records <= 10, "{:?}", store.journal());
}
