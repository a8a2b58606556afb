//! Names that other clients chose do not control the terminal of the user who reads them.

use crate::{Ended, World};

/// A name with control characters that would clear the screen, forge a line and reverse the writing direction.
const NASTY: &str = "n\u{1b}[2J\u{9b}2J\nforged\u{202e}\u{7f}";

fn check(ended: &Ended) {
    let is_obeyed = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{202a}'..='\u{202e}'));
    for text in [&ended.out, &ended.err] {
        assert!(!text.contains(is_obeyed), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
    }
}

#[test]
fn no_command_shows_what_a_terminal_would_obey() {
    let world = World::new();
    let leasehold = |arguments: &[&str]| {
        let ended = world.leasehold(arguments);
        check(&ended);
        ended
    };
    let metadata = serde_json::json!({"a": NASTY}).to_string();
    let acquire = ["acquire", NASTY, "--owner", NASTY, "--metadata", &metadata];
    assert_eq!(leasehold(&acquire).code, 0);
    leasehold(&acquire);
    leasehold(&[&acquire[..], &["--json"]].concat());
    for json in [&[][..], &["--json"]] {
        leasehold(&[&["acquire", NASTY, "--owner", "other"], json].concat());
        assert_eq!(leasehold(&[&["status", NASTY], json].concat()).code, 0);
        assert_eq!(leasehold(&[&["ls"], json].concat()).code, 0);
        let proof = ["renew", NASTY, "--owner", NASTY, "--lease-id", "1.0", "--token", "1"];
        leasehold(&[&proof[..], json].concat());
        let proof = ["release", NASTY, "--owner", NASTY, "--lease-id", "1.0", "--token", "1"];
        leasehold(&[&proof[..], json].concat());
    }
    leasehold(&["run", "-n", NASTY, "--owner", "other", "--", "true"]);
    let revoked = leasehold(&["revoke", NASTY, "--reason", NASTY, "--json"]);
    assert_eq!(revoked.json()["revoked"][0]["owner_id"], NASTY, "JSON says the same");
    let opened = leasehold(&["session", "open", "--owner", NASTY]);
    assert_eq!(opened.code, 0, "{opened:?}");
}
