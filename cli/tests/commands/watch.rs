//! `watch`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use leasehold_testkit::{Process, Value, folder};

use crate::{BINARY, PATIENCE, World, command, until};

/// A running `leasehold watch`, killed when dropped.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let mut command = world.command(&[&["watch"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        // A separate thread reads the output, so that a missing line makes the test fail instead of hang.
        let (send, lines) = channel();
        std::thread::spawn(move || out.lines().try_for_each(|line| send.send(line.unwrap())));
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the id of the first event seen. A watch since this event shows all later ones.
fn first_id(world: &World) -> String {
    let watching = Watching::start(world, &["--json", "--prefix", "first"]);
    let mut seen = None;
    let mut n = 0;
    until("an event is seen", || {
        n += 1;
        world.json(&["acquire", &format!("first-{n}")]);
        seen = watching.lines.try_recv().ok();
        seen.is_some()
    });
    let event: Value = serde_json::from_str(&seen.unwrap()).unwrap();
    event["id"].as_str().unwrap().into()
}

#[test]
fn events_are_lines_of_the_lock_that_was_named() {
    let world = World::new();
    let id = first_id(&world);
    world.json(&["acquire", "db", "--owner", "ann"]);
    world.json(&["acquire", "db-2", "--owner", "ann"]);
    world.json(&["revoke", "db", "--reason", "host is gone"]);
    let ended = world.leasehold(&["watch", "db", "--since", &id, "-n", "2"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let lines: Vec<_> = ended.out.lines().map(|line| line.split_once("Z  ").unwrap().1).collect();
    assert_eq!(lines[0], "granted       db  ann  token 1");
    assert!(lines[1].starts_with("revoked       db  ann  token 1  ("), "{ended:?}");
    assert!(lines[1].contains("host is gone"), "{ended:?}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn json_is_a_line_each_and_its_id_is_where_to_go_on() {
    let world = World::new();
    let id = first_id(&world);
    for lock in ["a/1", "b", "a/2"] {
        world.json(&["acquire", lock]);
    }
    let watching = Watching::start(&world, &["--json", "--prefix", "a/", "--since", &id]);
    let first = watching.json();
    assert_eq!((&first["kind"], &first["lock_name"]), (&"granted".into(), &"a/1".into()));
    assert_eq!(watching.json()["lock_name"], "a/2");
    let id = first["id"].as_str().unwrap();
    let again = Watching::start(&world, &["--json", "--prefix", "a/", "--since", id]);
    assert_eq!(again.json()["lock_name"], "a/2");
}

#[test]
fn a_gap_is_told() {
    let world = World::new();
    let id = first_id(&world);
    let (store, _) = id.split_once('-').unwrap();
    let from_nowhere = format!("{store}-9000000000000000-0");
    let watching = Watching::start(&world, &["--since", &from_nowhere]);
    assert!(watching.line().starts_with("gap: events might be missing here: "));
    let watching = Watching::start(&world, &["--json", "--since", &from_nowhere]);
    assert_eq!(watching.json()["kind"], "gap");
}

#[test]
fn it_goes_on_over_a_restart_of_the_server() {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Process::start(BINARY, &data, &[]);
    let listen = format!("--listen={}", server.address);
    let mut world = World { server, folder };
    let id = first_id(&world);
    let watching = Watching::start(&world, &["--json", "--prefix", "x", "--since", &id]);
    world.json(&["acquire", "x-1"]);
    assert_eq!(watching.json()["lock_name"], "x-1");
    world.server.signal(rustix::process::Signal::KILL);
    world.server.wait();
    world.server = Process::start(BINARY, &data, &[&listen]);
    world.json(&["acquire", "x-2"]);
    assert_eq!(watching.json()["lock_name"], "x-2", "without a gap");
}

#[test]
fn without_a_server_there_is_nothing_to_watch() {
    let ended = command(&["watch", "--url", "http://127.0.0.1:1"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(68));
}

#[test]
fn history_tells_what_happened_newest_first() {
    let world = World::new();
    world.json(&["acquire", "db", "--owner", "a"]);
    world.json(&["acquire", "other", "--owner", "b"]);
    let told = world.leasehold(&["history", "db"]).out;
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("granted") && told.contains("db  a  token 1"), "{told}");
    let of_b = world.json(&["history", "--owner", "b", "--since", "1h"]);
    assert_eq!((&of_b["lock_name"], &of_b["kind"]), (&"other".into(), &"granted".into()));
}
