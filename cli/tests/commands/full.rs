//! Commands whose output cannot be written.

use std::fs::File;

use crate::{Ended, World};

/// Runs a command whose standard output is a full disk.
fn into_full(world: &World, arguments: &[&str]) -> Ended {
    let full = File::options().write(true).open("/dev/full").unwrap();
    Ended::of(world.command(arguments).stdout(full).output().unwrap())
}

#[test]
fn a_lock_whose_result_could_not_be_written_is_released() {
    let world = World::new();
    for format in [&[][..], &["--json"], &["--env"]] {
        let ended = into_full(&world, &[&["acquire", "db"], format].concat());
        assert_eq!(ended.code, 71, "{ended:?}");
        assert!(ended.err.contains("so db was released"), "{ended:?}");
        assert_eq!(world.json(&["status", "db"])["held"], false, "{format:?}");
    }
    let ended = into_full(&world, &["run", "db", "--hold"]);
    assert_eq!(ended.code, 71, "{ended:?}");
    assert_eq!(world.json(&["status", "db"])["held"], false);
}

#[test]
fn a_session_whose_answer_could_not_be_written_is_closed() {
    let world = World::new();
    let ended = into_full(&world, &["session", "open", "--env"]);
    assert_eq!(ended.code, 71, "{ended:?}");
    assert!(ended.err.contains("so the session was closed"), "{ended:?}");
}

#[test]
fn a_failure_that_could_not_be_written_is_still_that_failure() {
    let world = World::new();
    world.json(&["acquire", "db", "--owner", "ann"]);
    let ended = into_full(&world, &["acquire", "db", "--owner", "ben", "--json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("the lock is held (by ann)"), "{ended:?}");
}

#[test]
fn a_key_that_could_not_be_printed_is_reported() {
    let world = World::new();
    let file = world.folder.path().join("auth.toml").display().to_string();
    let ended = into_full(&world, &["auth", "init", "--auth-file", &file]);
    assert_eq!(ended.code, 71, "{ended:?}");
    assert!(!std::path::Path::new(&file).exists(), "the next try finds nothing in its way");
    assert_eq!(world.leasehold(&["auth", "init", "--auth-file", &file]).code, 0);
    let create = ["key", "create", "--name", "ci", "--auth-file", &file];
    let ended = into_full(&world, &create);
    assert!(ended.code == 71 && ended.err.contains("leasehold key revoke --id "), "{ended:?}");
}
