//! Tests that damage is never silent. If a single thing happens to the files of a store after a crash, the next start
//! either refuses and names the file, or loses nothing that was acknowledged. Every refused store can be recovered.
//!
//! `DAMAGE_SEED` repeats a run, `DAMAGE_CASES` makes it longer.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

use crate::step;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use leasehold_base::clock::Moment;
use leasehold_core::{
    Acquire, Acquired, Change, Command, Dialect, Limits, LockKey, Machine, Owner, Row, Secret, Span,
};
use leasehold_store::sqlite::{Options, Space, SqliteStore, recover, verify};
use leasehold_store::{Draft, Error, Kind, Loaded, Store};
use leasehold_testkit::{Damages, copy_store};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rusqlite::Connection;
use tempfile::TempDir;

/// A data directory as it was at a crash, and the state that was acknowledged until then.
struct Crashed {
    folder: TempDir,
    rows: Vec<Row>,
    /// The highest token of each lock.
    tokens: BTreeMap<LockKey, u64>,
}

/// Creates a temporary directory, in memory if possible: these tests do thousands of syncs, which are not their
/// subject.
fn folder() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap()
}

fn open(data: &Path, fold_interval: Duration) -> Result<(SqliteStore, Loaded), Error> {
    let mut store = SqliteStore::open(Options {
        data: data.into(),
        fold_interval,
        history: Default::default(),
        space: Space::unwatched(),
    })?;
    let loaded = store.load(Limits::default(), 1)?;
    Ok((store, loaded))
}

const NEVER: Duration = Duration::from_secs(3600);

/// Returns all rows of the state but the first, which contains the time.
fn rows(machine: &Machine) -> Vec<Row> {
    machine.export().split_off(1)
}

/// Applies random commands to the store and the machine, with three commands per record.
fn work(store: &mut SqliteStore, machine: &mut Machine, n_steps: usize, random: &mut Damages) {
    let rng = TestRng::from_seed(
        RngAlgorithm::XorShift,
        &u128::from(random.below(u64::MAX)).to_le_bytes(),
    );
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let steps = step::sequence(n_steps..n_steps + 1).new_tree(&mut runner).unwrap().current();
    for (batch, steps) in steps.chunks(3).enumerate() {
        let mut changes = Vec::new();
        for (n, step) in steps.iter().enumerate() {
            let (now, command) = step.resolve(batch * 3 + n, machine.now(), n_steps as u64);
            if matches!(command, Command::Restore(_)) {
                // Only a start applies this command, and it does not go through the journal.
                continue;
            }
            changes.extend(machine.apply(now, command).changes);
        }
        append(store, machine, &changes);
    }
}

fn append(store: &mut SqliteStore, machine: &Machine, changes: &[Change]) {
    let permit = store.reserve().expect("not busy");
    let moment = Moment { lock_time: machine.now(), ..Moment::default() };
    store.append(permit, Draft { kind: Kind::Batch, moment, changes }).expect("durable");
}

/// Returns data directories that crashed in different states: everything in the journal, most of it in the tables, or
/// some of it in write-ahead logs that were not checkpointed.
fn crashed(random: &mut Damages) -> Vec<Crashed> {
    (0..6)
        .map(|n| {
            let data = folder();
            let (mut store, Loaded { mut machine, .. }) = open(data.path(), NEVER).expect("new");
            work(&mut store, &mut machine, 90, random);
            if n % 3 != 0 {
                store.finish().expect("folded");
                drop(store);
                let interval = if n % 3 == 1 { NEVER } else { Duration::from_millis(5) };
                (store, Loaded { machine, .. }) = open(data.path(), interval).expect("ours");
                work(&mut store, &mut machine, 60, random);
                if n % 3 == 2 {
                    until_folded(data.path(), &store);
                    // Some records are now in the journal only, and some have been trimmed from it.
                    drop(store);
                    (store, Loaded { machine, .. }) = open(data.path(), NEVER).expect("ours");
                    work(&mut store, &mut machine, 30, random);
                }
            }
            let folder = folder();
            copy_store(data.path(), folder.path());
            drop(store);
            let (rows, tokens) = (rows(&machine), tokens(&machine));
            Crashed { folder, rows, tokens }
        })
        .collect()
}

/// Waits until the fold has caught up, so that no write happens while files are copied.
fn until_folded(data: &Path, store: &SqliteStore) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let folded = || -> i64 {
        let db = Connection::open(data.join("tables.db")).unwrap();
        let sql = "SELECT value FROM meta WHERE key = 'folded_through'";
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let last = {
        let db = Connection::open(data.join("journal.db")).unwrap();
        db.query_row("SELECT max(seq) FROM journal", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    while folded() < last {
        assert!(Instant::now() < deadline, "the fold does not catch up: {:?}", store.journal());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tokens(machine: &Machine) -> BTreeMap<LockKey, u64> {
    let rows = machine.export().into_iter();
    rows.filter_map(|row| match row {
        Row::Lock(lock) => Some((lock.lock, lock.last_token.get())),
        _ => None,
    })
    .collect()
}

/// Starts the store, and works with it if that succeeds. Returns the reason if the start was refused.
fn start(crashed: &Crashed, data: &Path, what: &str) -> Option<String> {
    let verdict = verify(data).map(drop).map_err(|error| error.to_string());
    let (mut store, mut machine) = match open(data, NEVER) {
        Ok((store, loaded)) => (store, loaded.machine),
        Err(Error::Refused(why)) => {
            assert!(
                ["journal.db", "tables.db", "mark"].iter().any(|file| why.contains(file)),
                "{what}: {why}"
            );
            assert!(verdict.is_err(), "{what}: refused, but sound by verify: {why}");
            return Some(why);
        }
        Err(error) => panic!("{what}: {error}"),
    };
    assert!(rows(&machine) == crashed.rows, "{what}: something acknowledged is lost");
    assert_eq!(verdict, Ok(()), "{what}: it starts");
    // Damage that this start could not see must be seen by the next one.
    work(&mut store, &mut machine, 30, &mut Damages::from(1));
    let expected = rows(&machine);
    let is_folded = store.finish().is_ok();
    drop(store);
    match open(data, NEVER) {
        Ok((_, loaded)) => assert!(rows(&loaded.machine) == expected, "{what}: lost later"),
        Err(error) => println!("{what}: refused later, folded: {is_folded}: {error}"),
    }
    None
}

/// Checks that a refused store can be recovered, and that it never grants a token twice afterwards.
fn check_recovery(crashed: &Crashed, data: &Path, what: &str) {
    let recovered = match recover(data) {
        Ok(recovered) => recovered,
        // A flipped bit can make a file look as if a newer version wrote it. Recovery must not discard such a file.
        Err(Error::Refused(why)) if why.contains("this program supports only") => return,
        Err(error) => panic!("{what}: not recovered: {error}"),
    };
    let kept = std::fs::read_dir(&recovered.damaged).unwrap().count();
    assert!(kept >= 2, "{what}: only {kept} damaged files are kept");
    verify(data).unwrap_or_else(|error| panic!("{what}: recovered, but {error}"));
    let (_store, Loaded { mut machine, is_restored, .. }) =
        open(data, NEVER).unwrap_or_else(|error| panic!("{what}: recovered, but {error}"));
    assert!(is_restored && machine.counts().n_active == 0, "{what}: a lease is alive");
    for (lock, token) in &crashed.tokens {
        let acquire = Acquire {
            ttl: Some(Span::from_secs(60)),
            ..Acquire::new(lock.clone(), Owner::new("ann", "new"), Dialect(0), Secret([1; 16]))
        };
        let applied = machine.apply(machine.now(), acquire);
        let Ok(Acquired::Granted(grant)) = applied.outcome else { panic!("{what}: {applied:?}") };
        assert!(grant.lease.token.get() > *token, "{what}: token {token} of {lock:?} twice");
    }
}

#[test]
fn no_flip_cut_or_deletion_goes_unseen_and_each_can_be_recovered_from() {
    let mut random = Damages::new(1000);
    let (seed, n_cases) = (random.seed, random.n_cases);
    let crashed = crashed(&mut random);
    for crashed in &crashed {
        let data = folder();
        copy_store(crashed.folder.path(), data.path());
        assert_eq!(start(crashed, data.path(), "nothing happens"), None);
    }
    let mut n_refused = 0;
    for case in 0..n_cases {
        let crashed = &crashed[random.below(crashed.len() as u64) as usize];
        let data = folder();
        copy_store(crashed.folder.path(), data.path());
        let what = format!("seed {seed}, case {case}: {}", random.one(data.path()));
        if start(crashed, data.path(), &what).is_some() {
            n_refused += 1;
            check_recovery(crashed, data.path(), &what);
        }
    }
    println!("{n_refused} of {n_cases} refused, and recovered");
    assert!(n_refused * 5 > n_cases, "only {n_refused} of {n_cases} were refused");
}

/// Damages rows that are read before any check of ours, so that SQLite itself finds the damage.
#[test]
fn a_flip_in_what_a_file_says_of_itself_is_refused_by_the_name_of_the_file() {
    const PAGE: usize = 4096;
    let (data, mut random) = (folder(), Damages::from(1));
    let (mut store, Loaded { mut machine, .. }) = open(data.path(), NEVER).expect("new");
    work(&mut store, &mut machine, 30, &mut random);
    store.finish().expect("folded");
    drop(store);
    let crashed = Crashed { rows: rows(&machine), tokens: tokens(&machine), folder: data };
    for file in ["journal.db", "tables.db"] {
        let sound = std::fs::read(crashed.folder.path().join(file)).unwrap();
        let mut n_refused = 0;
        // The second page contains the table `meta`, whose rows are at the end of the page.
        for (n, byte) in (2 * PAGE - 256..2 * PAGE).enumerate() {
            let data = folder();
            copy_store(crashed.folder.path(), data.path());
            let mut bytes = sound.clone();
            bytes[byte] ^= 1 << (n % 8);
            std::fs::write(data.path().join(file), bytes).unwrap();
            let what = format!("bit {} of byte {byte} of {file} is flipped", n % 8);
            n_refused += usize::from(start(&crashed, data.path(), &what).is_some());
        }
        // Some bytes between the rows might be unused.
        assert!(n_refused > 64, "{file}: only {n_refused} flips were refused");
    }
}

#[test]
fn pages_of_the_tables_that_are_not_in_order_are_refused_though_every_row_is_there() {
    let (crashed, mut random) = (folder(), Damages::from(1));
    let (mut store, Loaded { mut machine, .. }) = open(crashed.path(), NEVER).expect("new");
    work(&mut store, &mut machine, 90, &mut random);
    store.finish().expect("folded");
    drop(store);
    let path = crashed.path().join("tables.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // Changes the number of free pages in the file header. SQLite would later write into a page that is not free.
    bytes[39] += 1;
    std::fs::write(&path, bytes).unwrap();
    let verdicts = [verify(crashed.path()).map(drop), open(crashed.path(), NEVER).map(drop)];
    for verdict in verdicts {
        let why = verdict.expect_err("refused").to_string();
        assert!(why.contains("tables.db") && why.contains("reelist"), "{why}");
    }
    let tokens = tokens(&machine);
    let crashed = Crashed { folder: crashed, rows: rows(&machine), tokens };
    check_recovery(&crashed, crashed.folder.path(), "one free page too many");
}
