//! `status` and `ls`.

use leasehold_testkit::json;

use crate::{Ended, World, until};

#[test]
fn status_shows_who_since_when_how_long_and_who_waits() {
    let world = World::new();
    world.json(&["acquire", "db", "--owner", "ann", "--ttl", "10m", "--metadata", "[1]"]);
    let mut waiter = world.command(&["acquire", "db", "--owner", "ben", "--wait", "60"]);
    let mut waiter = waiter.spawn().unwrap();
    until("ben waits", || world.json(&["status", "db"])["n_waiting"] == 1);
    let status = world.leasehold(&["status", "db"]);
    let _ = waiter.kill();
    let _ = waiter.wait();
    let lines: Vec<_> = status.out.lines().collect();
    assert_eq!(lines[0], "db: held, last token 1");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[2]), ["HOLDER", "MODE", "TOKEN", "SINCE", "LEFT", "METADATA"]);
    let holder = words(lines[3]);
    assert_eq!(holder[..3], ["ann", "exclusive", "1"]);
    assert!(holder[4] == "ago" && holder[5].starts_with("9m5") && holder[6] == "[1]", "{holder:?}");
    assert_eq!(words(lines[5]), ["#", "WAITING", "SINCE", "CONNECTION"]);
    let waiting = words(lines[6]);
    assert_eq!((waiting[0].as_str(), waiting[1].as_str()), ("1", "ben"));
    assert_eq!((waiting[3].as_str(), waiting[4].as_str()), ("ago", "there"));
}

#[test]
fn status_can_be_asked_by_a_script() {
    let world = World::new();
    assert_eq!(world.leasehold(&["status", "db", "--exit-code"]).code, 0);
    world.json(&["acquire", "db"]);
    assert_eq!(world.leasehold(&["status", "db", "--exit-code"]).code, 1);
    assert_eq!(world.leasehold(&["status", "db"]).code, 0);
}

#[test]
fn a_reserved_lock_names_who_can_take_it_back() {
    let world = World::new();
    world.json(&["acquire", "db", "--owner", "ann", "--ttl", "10ms", "--grace", "10m"]);
    until("it is over", || world.json(&["status", "db"])["held"] == false);
    let status = world.leasehold(&["status", "db", "--exit-code"]);
    assert_eq!(status.code, 1);
    assert!(status.out.contains("only ann can acquire it, for 9m5"), "{status:?}");
    let ls = world.leasehold(&["ls"]);
    assert_eq!(ls.rows()[0][..5], ["db", "reserved", "ann", "1", "-"]);
}

#[test]
fn ls_has_a_line_for_each_holder_in_order_and_filters() {
    let world = World::new();
    let none = world.leasehold(&["ls"]);
    assert_eq!(
        (none.code, none.out.as_str(), none.err.as_str()),
        (0, "", "no lock is held (--all shows every lock)\n")
    );
    world.json(&["acquire", "pool", "--owner", "ben", "--limit", "3"]);
    world.json(&["acquire", "pool", "--owner", "ann", "--limit", "3"]);
    world.json(&["acquire", "deploy/web", "--owner", "ann", "--ttl", "10m"]);
    world.json(&["acquire", "gone", "--owner", "cem"]);
    world.json(&["revoke", "gone", "--reason", "x"]);
    let ls = world.leasehold(&["ls", "--all"]);
    assert!(ls.out.starts_with("LOCK        STATE   OWNER  TOKEN  SINCE"), "{ls:?}");
    let rows = ls.rows();
    assert_eq!(rows[0][..4], ["deploy/web", "held", "ann", "1"]);
    assert!(rows[0][6].starts_with("9m5") && rows[0][7] == "-", "{rows:?}");
    assert_eq!(rows[1], ["gone", "free", "-", "1", "-", "-", "-"]);
    assert_eq!(rows[2][..4], ["pool", "2", "of", "3"]);
    assert_eq!(rows[3][..4], ["pool", "2", "of", "3"]);
    let names = |arguments: &[&str]| {
        let ls = world.leasehold(&[&["ls"], arguments].concat());
        ls.rows().iter().map(|row| row[0].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["deploy/"]), ["deploy/web"]);
    assert_eq!(names(&["--state", "free"]), ["gone"]);
    assert_eq!(names(&["--owner", "ann"]), ["deploy/web", "pool", "pool"]);
    assert_eq!(names(&["--owner", "ann", "--state", "waiting"]), [""; 0]);
}

#[test]
fn ls_shows_who_waits_behind() {
    let world = World::new();
    world.json(&["acquire", "db", "--owner", "ann", "--ttl", "10m"]);
    let mut waiters = Vec::new();
    for (n, owner) in ["b", "c", "d", "e"].into_iter().enumerate() {
        let mut waiter = world.command(&["acquire", "db", "--owner", owner, "--wait", "60"]);
        waiters.push(waiter.spawn().unwrap());
        until("it waits", || world.json(&["status", "db"])["n_waiting"] == n + 1);
    }
    let ls = world.leasehold(&["ls"]);
    for mut waiter in waiters {
        let _ = waiter.kill();
        let _ = waiter.wait();
    }
    assert!(ls.out.trim_end().ends_with("4: b, c, d, …"), "{ls:?}");
}

#[tokio::test]
async fn ls_goes_through_all_pages() {
    let world = World::new();
    for n in 0..1005 {
        let lock = format!("lock-{n:04}");
        assert_eq!(world.server.client.acquire(&lock, "ann", 60_000, json!({})).await.status, 200);
    }
    let ls = world.leasehold(&["ls"]);
    let names: Vec<_> = ls.rows().iter().map(|row| row[0]).collect();
    assert_eq!(names, (0..1005).map(|n| format!("lock-{n:04}")).collect::<Vec<_>>());
    let lines = world.leasehold(&["ls", "--json"]);
    assert_eq!(lines.out.lines().count(), 1005);
    assert_eq!(lines.json()["held"], true);
}

#[test]
fn a_name_cannot_play_with_the_terminal() {
    let world = World::new();
    let name = "\x1b[2J\u{202e}x\n";
    world.json(&["acquire", name, "--owner", name]);
    let refused = world.leasehold(&["acquire", name]);
    for ended in [world.leasehold(&["ls"]), world.leasehold(&["status", name]), refused] {
        let said = format!("{}{}", ended.out, ended.err);
        assert!(!said.contains(['\x1b', '\u{202e}']), "{ended:?}");
        assert!(said.contains(r"\u{1b}[2J\u{202e}x\n"), "{ended:?}");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let world = World::new();
    world.json(&["acquire", "db"]);
    let mut shell = std::process::Command::new("bash");
    let script = r#"set -o pipefail; "$0" ls --json | true; echo "${PIPESTATUS[0]}""#;
    shell.args(["-c", script, crate::BINARY]).env("LEASEHOLD_URL", world.url());
    let ended = Ended::of(shell.output().unwrap());
    assert_eq!(ended.err, "");
    // The status is 141 if `true` ended before the line was written.
    assert!(["0\n", "141\n"].contains(&ended.out.as_str()), "{ended:?}");
}

#[test]
fn ls_shows_what_is_held_or_waited_for_and_all_only_if_asked() {
    let world = World::new();
    world.json(&["acquire", "free", "--owner", "ann"]);
    world.json(&["revoke", "free", "--reason", "x"]);
    let none = world.leasehold(&["ls"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("--all shows every lock"), "{none:?}");
    world.json(&["acquire", "held", "--owner", "ann"]);
    let names = |arguments: &[&str]| {
        let ls = world.leasehold(&[&["ls"], arguments].concat());
        ls.rows().iter().map(|row| row[0].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["held"]);
    assert_eq!(names(&["--all"]), ["free", "held"]);
    assert_eq!(world.leasehold(&["ls", "--json"]).out.lines().count(), 1);
    assert_eq!(world.leasehold(&["ls", "--all", "--names"]).out, "free\nheld\n");
}

#[test]
fn ls_sorts_as_requested_and_prints_full_names() {
    let world = World::new();
    for (lock, owner, ttl) in [("a", "zoe", "30m"), ("b", "ann", "10m"), ("c", "moe", "20m")] {
        world.json(&["acquire", lock, "--owner", owner, "--ttl", ttl]);
    }
    let names = |sort: &str| {
        let ls = world.leasehold(&["ls", "--sort", sort]);
        ls.rows().iter().map(|row| row[0].to_owned()).collect::<String>()
    };
    assert_eq!(names("name"), "abc");
    assert_eq!(names("owner"), "bca");
    assert_eq!(names("left"), "bca");
    assert_eq!(names("since"), "abc");
    let mut waiters = Vec::new();
    for (n, owner) in ["b", "c", "d", "e"].into_iter().enumerate() {
        waiters.push(
            world.command(&["acquire", "c", "--owner", owner, "--wait", "60"]).spawn().unwrap(),
        );
        until("it waits", || world.json(&["status", "c"])["n_waiting"] == n + 1);
    }
    let (sorted, full) = (names("waiting"), world.leasehold(&["ls", "--full"]));
    for mut waiter in waiters {
        let _ = waiter.kill();
        let _ = waiter.wait();
    }
    assert_eq!(sorted, "cab");
    assert!(full.out.trim_end().ends_with("4: b, c, d, e"), "{full:?}");
}

#[test]
fn ls_watches_until_it_is_stopped() {
    let world = World::new();
    world.json(&["acquire", "db", "--owner", "ann"]);
    let file = world.folder.path().join("seen");
    let mut watch = world.command(&["ls", "--watch", "0.1"]);
    let mut watch = watch.stdout(std::fs::File::create(&file).unwrap()).spawn().unwrap();
    let seen = || std::fs::read_to_string(&file).unwrap();
    until("it looked twice", || seen().matches("LOCK  STATE").count() >= 2);
    world.json(&["acquire", "new", "--owner", "ann"]);
    until("it sees the new one", || seen().contains("\nnew "));
    watch.kill().unwrap();
    watch.wait().unwrap();
}
