//! `session open`, `keep`, `show`, `close`.

use crate::{BINARY, Ended, World, until};

#[test]
fn locks_of_a_session_end_with_it() {
    let world = World::new();
    let opened = world.json(&["session", "open", "--owner", "ann", "--ttl", "1m"]);
    let id = opened["session_id"].as_str().unwrap();
    world.json(&["acquire", "db", "--owner", "ann", "--session", id]);
    let shown = world.leasehold(&["session", "show", id]);
    assert!(shown.out.starts_with("owner    ann\nleft     "), "{shown:?}");
    let kept = world.json(&["session", "keep", id]);
    assert!(kept["expires_in_ms"].as_u64().unwrap() > 50_000);
    assert_eq!(world.json(&["status", "db"])["held"], true);
    assert_eq!(world.json(&["session", "close", id])["closed"], true);
    assert_eq!(world.json(&["status", "db"])["held"], false);
    for verb in ["keep", "show", "close"] {
        assert_eq!(world.leasehold(&["session", verb, id]).code, 75, "{verb}");
    }
    assert_eq!(world.leasehold(&["acquire", "db", "--owner", "ann", "--session", id]).code, 75);
}

#[test]
fn the_script_in_the_help_works_in_a_shell() {
    let world = World::new();
    let script = r#"
        session=$("$0" session open --ttl 1m --env) || exit
        eval "$session"
        "$0" acquire shard-1 && "$0" acquire shard-2 && "$0" ls --state held && "$0" session close
        "$0" ls --state held
    "#;
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, BINARY]).env("LEASEHOLD_URL", world.url());
    let ended = Ended::of(shell.output().unwrap());
    assert!(ended.out.contains("\nshard-1  held"), "{ended:?}");
    assert!(ended.out.ends_with("the session is closed\n"), "{ended:?}");
    assert_eq!(ended.err, "there are no locks\n");
}

#[test]
fn keeping_goes_on_until_the_session_is_over() {
    let world = World::new();
    let opened = world.json(&["session", "open", "--ttl", "1m"]);
    let id = opened["session_id"].as_str().unwrap();
    let mut keeper = world.command(&["session", "keep", id, "--every", "100ms"]);
    let file = world.folder.path().join("kept");
    let mut keeper = keeper.stdout(std::fs::File::create(&file).unwrap()).spawn().unwrap();
    let n_kept = || std::fs::read_to_string(&file).unwrap().lines().count();
    until("it is kept three times", || n_kept() >= 3);
    world.json(&["session", "close", id]);
    assert_eq!(keeper.wait().unwrap().code(), Some(75));
}
