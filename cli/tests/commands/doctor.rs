//! `leasehold doctor` reports a problem wherever `leasehold serve` refuses to start.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leasehold_testkit::{Process, Value, folder};

use crate::{BINARY, Ended, World, command};

/// Returns the verdicts and findings of one check, in the order of the output.
fn found<'a>(looked: &'a Value, check: &str) -> Vec<(&'a str, &'a str)> {
    let all = looked["findings"].as_array().unwrap().iter().filter(|found| found["check"] == check);
    all.map(|found| (found["verdict"].as_str().unwrap(), found["found"].as_str().unwrap()))
        .collect()
}

fn doctor(here: &Path, flags: &[&str]) -> (Ended, Value) {
    let mut doctor = command(&[&["doctor", "--json"], flags].concat());
    let ended = Ended::of(doctor.current_dir(here).output().unwrap());
    let looked = ended.json();
    (ended, looked)
}

fn serve(here: &Path, flags: &[&str]) -> Ended {
    let mut serve = command(&[&["serve"], flags].concat());
    Ended::of(serve.current_dir(here).output().unwrap())
}

/// Creates damaged copies of a store, and returns the setting for each.
fn damaged(here: &Path) -> [String; 4] {
    drop(Process::start(BINARY, &here.join("store"), &[]));
    let damaged = |name: &str, file: &str, damage: &dyn Fn(&Path)| {
        let copied = command(&["backup", name, "--data", "store"]).current_dir(here).output();
        assert!(copied.unwrap().status.success());
        drop(Process::start(BINARY, &here.join(name), &[]));
        damage(&here.join(name).join(file));
        format!("--data={name}")
    };
    let scribble = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes.iter_mut().skip(100).for_each(|byte| *byte ^= 0x55);
        fs::write(path, bytes).unwrap();
    };
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    [
        damaged("journal", "journal.db", &scribble),
        damaged("tables", "tables.db", &scribble),
        damaged("markless", "mark", &remove),
        damaged("half", "journal.db", &remove),
    ]
}

#[test]
fn what_serve_refuses_is_a_problem() {
    let folder = folder();
    let here = folder.path();
    fs::write(here.join("plain"), "").unwrap();
    fs::create_dir(here.join("shared")).unwrap();
    fs::set_permissions(here.join("shared"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(here.join("shared/notes"), "").unwrap();
    fs::create_dir(here.join("begun")).unwrap();
    fs::set_permissions(here.join("begun"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(here.join("begun/INCOMPLETE"), "").unwrap();
    let [journal, tables, markless, half] = damaged(here);
    let data = "--data=new";
    let webhook = "--webhook-url=http://127.0.0.1:1/";
    for (flags, check) in [
        (&["--data=shared"][..], "data"),
        (&["--data=begun"], "data"),
        (&["--data=plain"], "data"),
        (&[&journal], "data"),
        (&[&tables], "data"),
        (&[&markless], "data"),
        (&[&half], "data"),
        (&[data, "--audit-file=none/a.log"], "audit"),
        (&[data, "--files-folder=plain"], "files-folder"),
        (&[data, "--port-file=none/port"], "port-file"),
        (&[data, webhook, "--webhook-secret-file=none"], "webhook"),
        (&[data, "--listen=unix:none/a.sock"], "listen"),
    ] {
        let flags = [&["--listen=127.0.0.1:0"], flags].concat();
        let (looked, said) = doctor(here, &flags);
        let found = found(&said, check);
        let problem = found.iter().find(|(verdict, _)| *verdict == "problem");
        let (_, why) = problem.unwrap_or_else(|| panic!("{flags:?}: {looked:?}"));
        assert_eq!(looked.code, 1, "{flags:?}");
        assert!(!here.join("new").exists(), "{flags:?}: nothing is made");
        let refused = serve(here, &flags);
        assert_eq!(refused.code, 1, "{flags:?}: {refused:?}");
        let last: Value = serde_json::from_str(refused.err.lines().last().unwrap()).unwrap();
        // A server names its data directory by the absolute path.
        let said = last["message"].as_str().unwrap().replace(&format!("{}/", here.display()), "");
        // If the store was not closed cleanly, doctor reads a copy of it, so the path in the message differs.
        let tail = why.rsplit(": ").next().unwrap();
        let part = if matches!(check, "data" | "listen") { tail } else { why };
        assert!(said.contains(part), "{flags:?}: {why}: {said}");
        let _ = fs::remove_dir_all(here.join("new"));
    }
    // A server starts with this setting, but never takes a backup.
    let (_, said) = doctor(here, &["--listen=127.0.0.1:0", data, "--backup-dir=plain"]);
    assert_eq!(found(&said, "backup"), [("problem", "plain is a file, not a directory")]);
    let (_, said) = doctor(here, &["--listen=127.0.0.1:0", "--data=store", "--backup-dir=."]);
    assert!(
        found(&said, "data")[0].1.contains("is an intact store that no server uses now"),
        "{said}"
    );
    let backups = found(&said, "backup");
    assert!(backups[0].1.starts_with("the latest backup is "), "copies made by hand count: {said}");
}

#[test]
fn a_port_is_the_servers_only_if_it_has_it() {
    let world = World::with(&[]);
    let data = format!("--data={}", world.folder.path().join("data").display());
    let listen = |address: &dyn std::fmt::Display| {
        let listen = format!("--listen={address}");
        let (_, said) = doctor(world.folder.path(), &[&data, &listen]);
        let found = found(&said, "listen")[0];
        (found.0.to_owned(), found.1.to_owned())
    };
    let (verdict, said) = listen(&world.server.address);
    assert_eq!(verdict, "ok", "{said}");
    assert!(said.ends_with("is in use by the running server"), "{said}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let (verdict, said) = listen(&other.local_addr().unwrap());
    assert_eq!(verdict, "problem", "{said}");
    let another = World::with(&[]);
    let (verdict, said) = listen(&another.server.address);
    assert_eq!(verdict, "problem", "another Leasehold: {said}");
}

#[test]
fn redis_clients_are_told_where_as_they_write_it() {
    let folder = folder();
    let flags = ["--data=d", "--listen=127.0.0.1:0", "--redis-listen=127.0.0.1:0"];
    let (_, said) = doctor(folder.path(), &flags);
    let listeners = found(&said, "listen");
    assert_eq!(listeners[1], ("ok", "--redis-listen redis://127.0.0.1:0 is free"), "{said}");
}
