//! Damage is never silent: whatever single thing happens to the files of a store after a crash, the next start refuses,
//! naming the file, or has lost nothing that was acknowledged. And there is a way on from every refusal.
//!
//! `DAMAGE_SEED` repeats a run, `DAMAGE_CASES` makes it longer.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

#[allow(dead_code, reason = "shared with the core's tests, which use all of it")]
#[path = "../../core/tests/model/step.rs"]
mod step;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leasehold_core::{
    Acquire, Acquired, Change, Command, Dialect, Limits, LockKey, Machine, Owner, Row, Secret, Span,
};
use leasehold_server::clock::Moment;
use leasehold_server::store::sqlite::{Options, SqliteStore, recover, verify};
use leasehold_server::store::{Error, Kind, Loaded, Store};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rusqlite::Connection;
use tempfile::TempDir;

/// The files of a store that a crash leaves.
const FILES: [&str; 5] = ["journal.db", "journal.db-wal", "tables.db", "tables.db-wal", "mark"];

/// A folder as it was at a crash, and what was acknowledged until then.
struct Crashed {
    folder: TempDir,
    rows: Vec<Row>,
    /// The highest token of each lock.
    tokens: BTreeMap<LockKey, u64>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }
}

/// In memory, if the system has such a place: thousands of syncs are not what is tested here.
fn folder() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap()
}

fn copy(from: &Path, to: &Path) {
    for name in FILES {
        if from.join(name).is_file() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

fn open(data: &Path, fold_interval: Duration) -> Result<(SqliteStore, Loaded), Error> {
    let mut store = SqliteStore::open(Options {
        data: data.into(),
        fold_interval,
        history: Default::default(),
    })?;
    let loaded = store.load(Limits::default(), 1)?;
    Ok((store, loaded))
}

const NEVER: Duration = Duration::from_secs(3600);

/// All but the time.
fn rows(machine: &Machine) -> Vec<Row> {
    machine.export().split_off(1)
}

/// Applies some random commands, a record for a few of them.
fn work(store: &mut SqliteStore, machine: &mut Machine, n_steps: usize, random: &mut Random) {
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
                // Only a start does that, and it does not go through the journal.
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
    store.append(permit, Kind::Batch, moment, changes).expect("durable");
}

/// Folders that crashed after different lives: all in the journal, most in the tables, some of each in hot logs.
fn crashed(random: &mut Random) -> Vec<Crashed> {
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
                    // Some that are in the journal only, and some that are trimmed.
                    drop(store);
                    (store, Loaded { machine, .. }) = open(data.path(), NEVER).expect("ours");
                    work(&mut store, &mut machine, 30, random);
                }
            }
            let folder = folder();
            copy(data.path(), folder.path());
            drop(store);
            let (rows, tokens) = (rows(&machine), tokens(&machine));
            Crashed { folder, rows, tokens }
        })
        .collect()
}

/// Waits until the fold has caught up, so that nobody writes while files are copied.
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

/// One thing that happens to one file, in words.
fn damage(data: &Path, random: &mut Random) -> String {
    let there: Vec<PathBuf> =
        FILES.iter().map(|name| data.join(name)).filter(|path| path.is_file()).collect();
    let path = &there[random.below(there.len() as u64) as usize];
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut bytes = std::fs::read(path).unwrap();
    match random.below(10) {
        0 => {
            std::fs::remove_file(path).unwrap();
            format!("{name} is deleted")
        }
        1 | 2 => {
            let n = random.below(bytes.len() as u64) as usize;
            bytes.truncate(n);
            std::fs::write(path, bytes).unwrap();
            format!("{name} is cut to {n} bytes")
        }
        _ => {
            let bit = random.below(bytes.len() as u64 * 8) as usize;
            bytes.get_mut(bit / 8).into_iter().for_each(|byte| *byte ^= 1 << (bit % 8));
            std::fs::write(path, bytes).unwrap();
            format!("bit {} of byte {} of {name} is flipped", bit % 8, bit / 8)
        }
    }
}

/// A start, and a little work if it succeeds. `Some`: why it was refused.
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
    // What no start can see must be seen by the next one.
    work(&mut store, &mut machine, 30, &mut Random(7));
    let expected = rows(&machine);
    let is_folded = store.finish().is_ok();
    drop(store);
    match open(data, NEVER) {
        Ok((_, loaded)) => assert!(rows(&loaded.machine) == expected, "{what}: lost later"),
        Err(error) => println!("{what}: refused later, folded: {is_folded}: {error}"),
    }
    None
}

/// What was refused can be recovered, and then hands out nothing twice.
fn check_recovery(crashed: &Crashed, data: &Path, what: &str) {
    let recovered = match recover(data) {
        Ok(recovered) => recovered,
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
    let from_env =
        |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seed = from_env("DAMAGE_SEED").unwrap_or_else(|| {
        Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id())
    });
    let n_cases = from_env("DAMAGE_CASES").unwrap_or(1000);
    println!("DAMAGE_SEED={seed}");
    let mut random = Random(seed);
    let crashed = crashed(&mut random);
    for crashed in &crashed {
        let data = folder();
        copy(crashed.folder.path(), data.path());
        assert_eq!(start(crashed, data.path(), "nothing happens"), None);
    }
    let mut n_refused = 0;
    for case in 0..n_cases {
        let crashed = &crashed[random.below(crashed.len() as u64) as usize];
        let data = folder();
        copy(crashed.folder.path(), data.path());
        let what = format!("seed {seed}, case {case}: {}", damage(data.path(), &mut random));
        if start(crashed, data.path(), &what).is_some() {
            n_refused += 1;
            check_recovery(crashed, data.path(), &what);
        }
    }
    println!("{n_refused} of {n_cases} refused, and recovered");
    assert!(n_refused * 5 > n_cases, "only {n_refused} of {n_cases} were refused");
}
