//! Output on a terminal, driven by tmux as by a user.

use leasehold_testkit::Terminal;

use crate::{BINARY, World};

/// Opens a terminal in which `l` runs `leasehold`.
fn open(world: &World, width: u32, variables: &[(&str, &str)]) -> Terminal {
    let url = world.url();
    let variables = [&[("LEASEHOLD_URL", url.as_str())], variables].concat();
    let terminal = Terminal::open(world.folder.path(), width, &variables);
    terminal.enter(&format!("l() {{ '{BINARY}' \"$@\"; }}; clear"));
    terminal
}

#[test]
fn ls_and_status_fit_the_terminal_and_have_bold_heads() {
    let world = World::new();
    let (lock, owner) = ("deploy/".repeat(12), "ann-".repeat(12));
    world.json(&["acquire", &lock, "--owner", &owner, "--ttl", "10m"]);
    let terminal = open(&world, 72, &[]);
    terminal.enter("l ls; l status $(printf 'deploy/%.0s' {1..12}); echo status=$?");
    terminal.shows("status=0");
    let text = terminal.text();
    let lines: Vec<_> = text.lines().collect();
    let head = lines.iter().position(|line| line.starts_with("LOCK")).expect(&text);
    assert!(lines[head].ends_with("WAITING"), "no column is lost:\n{text}");
    // A line that is too wide would continue on the next one.
    assert!(lines[head + 1].starts_with("deploy/deploy/"), "{text}");
    assert!(lines[head + 1].contains('…') && lines[head + 1].ends_with('-'), "{text}");
    assert!(lines[head + 2].starts_with(&lock[..70]), "{text}");
    assert!(text.contains("\nHOLDER"), "{text}");
    let coloured = terminal.coloured_text();
    assert!(coloured.contains("\x1b[1mLOCK"), "{coloured:?}");
}

#[test]
fn who_wants_no_colours_gets_none() {
    let world = World::new();
    world.json(&["acquire", "db"]);
    let terminal = open(&world, 100, &[("NO_COLOR", "1")]);
    terminal.enter("l ls; echo status=$?");
    terminal.shows("status=0");
    let coloured = terminal.coloured_text();
    assert!(coloured.contains("LOCK") && !coloured.contains("\x1b[1m"), "{coloured:?}");
}

#[test]
fn load_shows_how_far_it_is_and_then_a_table() {
    let world = World::new();
    let terminal = open(&world, 100, &[]);
    terminal.enter("l load --clients 4 --duration 4s --failrate 0; echo status=$?");
    terminal.shows("s left, ");
    terminal.shows("#-");
    terminal.shows("status=0");
    let text = terminal.text();
    assert!(text.contains("4 clients, 1 lock, 4.") && text.contains("s\n\nCALL     N "), "{text}");
    assert!(text.contains("\nstale writes      0 injected, 0 rejected\n"), "{text}");
    assert!(text.contains("\nOK: one holder at a time"), "{text}");
    assert!(!text.contains("s left, "), "the bar is gone:\n{text}");
    assert!(terminal.coloured_text().contains("\x1b[32mOK"));
}

#[test]
fn an_interrupt_ends_load_with_its_report() {
    let world = World::new();
    let terminal = open(&world, 100, &[]);
    terminal.enter("l load --clients 4 --duration 1h; echo status=$?");
    terminal.shows("s left, ");
    terminal.keys(&["C-c"]);
    terminal.shows("\nOK: ");
    terminal.shows("status=0");
}
