//! Room inside the databases: free pages, which a database reuses before it grows.
//!
//! On a full disk, other programs take any space that the server frees. They cannot take pages inside a file. So while
//! there is enough disk space, each database is kept larger than its contents. Renewals, releases and expiries then
//! need no new disk space, however long the disk is full.

use rusqlite::Connection;

use super::disk::Disk;

/// This share of the reserve's size is kept free inside the journal, in addition to the reserve.
const JOURNAL_SHARE: u64 = 4;
/// The share of the used pages that is kept free inside the tables.
const TABLES_SHARE: u64 = 8;
/// Room is added in pieces of this size, so that the write-ahead log stays short.
const PIECE: u64 = 1 << 20;
/// In addition, this share of the used pages is kept free inside the tables. If all rows grow a little, SQLite splits
/// three full pages into four.
const GROWTH_SHARE: u64 = 3;

/// The pages of a database, in bytes.
struct Pages {
    all: u64,
    free: u64,
}

impl Pages {
    fn of(db: &Connection) -> rusqlite::Result<Self> {
        // Without `main`, SQLite also opens its temporary database.
        let number = |name| {
            let n = db.pragma_query_value(Some("main"), name, |row| row.get::<_, i64>(0));
            n.map(|n| n as u64)
        };
        let page = number("page_size")?;
        Ok(Self { all: number("page_count")? * page, free: number("freelist_count")? * page })
    }
}

/// Adds room to the journal, as far as the disk has space.
pub(super) fn keep_in_journal(journal: &Connection, disk: &Disk) {
    keep(journal, disk, |_| disk.reserve_wanted() / JOURNAL_SHARE);
}

/// Adds room to the tables. Their room grows with them.
pub(super) fn keep_in_tables(tables: &Connection, disk: &Disk) {
    keep(tables, disk, |pages| {
        disk.reserve_wanted() / TABLES_SHARE + (pages.all - pages.free) / GROWTH_SHARE
    });
}

fn keep(db: &Connection, disk: &Disk, wanted: impl Fn(&Pages) -> u64) {
    if !disk.has_reserve() {
        return;
    }
    // A failure is harmless: the server uses its reserve instead.
    if let Err(error) = try_keep(db, disk, wanted) {
        tracing::debug!(%error, "cannot add free pages to a database");
    }
}

fn try_keep(db: &Connection, disk: &Disk, wanted: impl Fn(&Pages) -> u64) -> rusqlite::Result<()> {
    let pages = Pages::of(db)?;
    let wanted = wanted(&pages);
    // Adding room uses the free pages too, so it is added only once half of it is used.
    if pages.free >= wanted / 2 || !disk.has_space_for(wanted) {
        return Ok(());
    }
    // A crash can leave this table behind. The next time, it is dropped with its rows.
    db.execute_batch("CREATE TABLE IF NOT EXISTS main.room (bytes BLOB)")?;
    for _ in 0..wanted.div_ceil(PIECE) {
        let sql = "INSERT INTO main.room (bytes) VALUES (zeroblob(?1))";
        db.prepare_cached(sql)?.execute([PIECE as i64])?;
    }
    db.execute_batch("DROP TABLE main.room")?;
    put_in_file(db)
}

/// Writes the log into the database, which then has the blocks for all its pages.
pub(super) fn put_in_file(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA main.wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Returns whether a database has pages that are only in its log. Its file cannot take them on a full disk.
pub(super) fn is_beyond_file(db: &Connection) -> bool {
    let file = db.path().and_then(|path| std::fs::metadata(path).ok());
    let pages = Pages::of(db).ok();
    file.zip(pages).is_some_and(|(file, pages)| file.len() < pages.all)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::sqlite::Space;

    const MIB: u64 = 1 << 20;

    fn disk(folder: &Path, free_min: u64) -> Disk {
        let space = Space { reserve: 8 * MIB, free_min, ..Space::default() };
        let disk = Disk::open(folder, space, Arc::default()).expect("a disk");
        disk.look();
        disk
    }

    fn database(path: &Path) -> Connection {
        let db = Connection::open(path).expect("a database");
        let made = db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
             CREATE TABLE rows (n INTEGER PRIMARY KEY, value BLOB);",
        );
        made.map(|()| db).expect("made")
    }

    fn fill(db: &Connection, n_rows: u32) {
        let sql = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < ?1)
                   INSERT INTO rows (value) SELECT zeroblob(1000) FROM t";
        db.execute(sql, [n_rows]).expect("filled");
    }

    #[test]
    fn rows_fit_into_the_room_and_the_file_has_the_blocks_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, disk) = (folder.path().join("a.db"), disk(folder.path(), 1));
        let db = database(&path);
        keep_in_journal(&db, &disk);
        let made = path.metadata().expect("a file");
        assert!(made.len() >= 2 * MIB && made.blocks() * 512 >= made.len(), "{made:?}");
        assert!(!is_beyond_file(&db));
        fill(&db, 1200);
        put_in_file(&db).expect("written");
        assert_eq!(path.metadata().expect("a file").len(), made.len(), "it does not grow");
        let checked: String =
            db.query_row("PRAGMA main.integrity_check", [], |row| row.get(0)).expect("checked");
        assert_eq!(checked, "ok");
        keep_in_journal(&db, &disk);
        let pages = Pages::of(&db).expect("pages");
        assert!(pages.free >= 2 * MIB && !is_beyond_file(&db), "again after most of it is used");
    }

    #[test]
    fn the_room_of_the_tables_grows_with_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = disk(folder.path(), 1);
        let db = database(&folder.path().join("a.db"));
        fill(&db, 9000);
        keep_in_tables(&db, &disk);
        let Pages { all, free } = Pages::of(&db).expect("pages");
        let used = all - free;
        assert!(used > 8 * MIB && free >= MIB + used / 3, "{free} bytes beside {used}");
    }

    #[test]
    fn no_room_is_made_while_space_is_low() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = disk(folder.path(), u64::MAX / 4);
        let db = database(&folder.path().join("a.db"));
        fill(&db, 10);
        keep_in_journal(&db, &disk);
        assert_eq!(Pages::of(&db).expect("pages").free, 0);
        assert!(is_beyond_file(&db), "the rows are only in the log");
        put_in_file(&db).expect("written");
        assert!(!is_beyond_file(&db));
    }
}
