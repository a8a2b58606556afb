//! `revoke` of everything that an owner, a session or a principal holds.

use leasehold_testkit::Value;

use crate::World;

fn owners(world: &World) -> Vec<String> {
    let ls = world.leasehold(&["ls", "--json"]);
    let text = |lock: &Value| lock["owner_id"].as_str().unwrap_or_default().to_owned();
    let locks = ls.out.lines().map(|line| line.parse::<Value>().unwrap());
    locks.map(|lock| text(&lock)).collect()
}

#[test]
fn what_an_owner_has_is_shown_first_and_then_revoked() {
    let world = World::new();
    world.json(&["acquire", "a", "--owner", "host-7"]);
    world.json(&["acquire", "b", "--owner", "host-7"]);
    world.json(&["acquire", "c", "--owner", "other"]);
    let all = ["revoke", "--owner", "host-7", "--reason", "it died"];
    let would = world.leasehold(&[&all[..], &["--dry-run"]].concat());
    assert_eq!(would.code, 0, "{would:?}");
    let lines: Vec<_> = would.out.lines().collect();
    let expected = ["would revoke default/a from host-7", "would revoke default/b from host-7"];
    assert_eq!(lines, [&expected[..], &["2 leases"]].concat());
    assert_eq!(owners(&world), ["host-7", "host-7", "other"], "nothing was done");
    let done = world.leasehold(&all);
    assert!(done.out.contains("revoked default/a from host-7"), "{done:?}");
    assert_eq!(owners(&world), ["other"]);
    let again = world.leasehold(&all);
    assert_eq!((again.code, again.out.as_str()), (0, "0 leases\n"), "{again:?}");
}

#[test]
fn a_session_is_named_by_its_number_and_a_principal_by_its_name() {
    let world = World::new();
    let session = world.json(&["session", "open", "--owner", "ann", "--ttl", "10m"]);
    let id = session["session_id"].as_str().unwrap();
    world.json(&["acquire", "a", "--owner", "ann", "--session", id]);
    world.json(&["acquire", "b", "--owner", "ann"]);
    let number = "1";
    let why = ["--reason", "gone", "--json"];
    let by_session = world.leasehold(&[&["revoke", "--session", number], &why[..]].concat());
    let revoked: Value = by_session.out.parse().unwrap();
    assert_eq!(revoked["n_revoked"], 1, "{revoked}");
    assert_eq!(revoked["revoked"][0]["lock_name"], "a");
    let by_name = world.leasehold(&[&["revoke", "--principal", "anonymous"], &why[..]].concat());
    let revoked: Value = by_name.out.parse().unwrap();
    assert_eq!(revoked["n_revoked"], 1, "{revoked}");
    assert_eq!(revoked["revoked"][0]["lock_name"], "b");
}

#[test]
fn whose_leases_is_said_exactly_once() {
    let world = World::new();
    for wrong in [
        &["revoke", "--reason", "x"][..],
        &["revoke", "a", "--owner", "b", "--reason", "x"],
        &["revoke", "--owner", "b", "--session", "1", "--reason", "x"],
        &["revoke", "a", "--dry-run", "--reason", "x"],
        &["revoke", "--owner", "b"],
        &["revoke", "--owner", "b", "--namespace", "c", "--reason", "x"],
    ] {
        assert_eq!(world.leasehold(wrong).code, 64, "{wrong:?}");
    }
}
