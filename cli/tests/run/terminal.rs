//! `run` on a terminal, driven by tmux as by a user.

use leasehold_testkit::{Terminal, json};

use crate::{QUOTED, World};

/// Prints a line when it starts, and repeats its input. The shell might consume input that is typed earlier.
const PARROT: &str = "sh -c \"echo now; exec sed -u 's/^/said: /'\"";

/// Opens a terminal in which `l` runs `leasehold run`.
pub(crate) fn open(world: &World) -> Terminal {
    let url = format!("http://{}", world.server.address);
    let terminal = Terminal::open(world.folder.path(), 100, &[("LEASEHOLD_URL", &url)]);
    terminal.enter(&format!("l() {{ {QUOTED} run \"$@\"; }}; clear; echo open"));
    terminal.until("an open terminal", |shown| shown.starts_with("open\n"));
    terminal
}

#[test]
fn a_command_reads_and_writes_the_terminal_and_ends_with_its_input() {
    let world = World::new();
    let screen = open(&world);
    screen.enter(&format!("l a -- {PARROT}; echo status=$?"));
    screen.shows("now\n");
    screen.enter("hello");
    screen.shows("said: hello");
    screen.keys(&["C-d"]);
    screen.shows("status=0");
}

#[test]
fn an_interrupt_ends_the_command_and_gives_the_lock_back() {
    let world = World::new();
    let screen = open(&world);
    screen.enter(&format!("l a -- {PARROT}; echo status=$?"));
    screen.shows("now\n");
    screen.enter("one");
    screen.shows("said: one");
    screen.keys(&["C-c"]);
    screen.shows("^C\nready>");
    screen.enter("echo status=$?");
    screen.shows("status=130");
    screen.enter("l a -n -- echo it is 'free'");
    screen.shows("it is free\n");
}

#[test]
fn a_job_can_be_stopped_and_brought_back() {
    let world = World::new();
    let screen = open(&world);
    screen.enter(&format!("l a -- {PARROT}; echo status=$?"));
    screen.shows("now\n");
    screen.enter("one");
    screen.shows("said: one");
    screen.keys(&["C-z"]);
    screen.shows("Stopped");
    screen.enter("clear; echo the shell is back; fg");
    // `fg` shows the command in the function.
    screen.shows("the shell is back\n'/");
    screen.enter("two");
    screen.shows("said: two");
    screen.keys(&["C-d"]);
    screen.shows("ready>");
    screen.enter("l a -n -- echo it is 'free'");
    screen.shows("it is free\n");
}

#[test]
fn a_job_in_the_background_stops_when_it_wants_the_terminal() {
    let world = World::new();
    let screen = open(&world);
    screen.enter(&format!("set -b; l a -- {PARROT} &"));
    screen.shows("Stopped");
    screen.enter("clear; echo the shell is here; fg");
    screen.shows("the shell is here\nl a -- ");
    screen.enter("one");
    screen.shows("said: one");
    screen.keys(&["C-d"]);
}

#[test]
fn a_held_lock_can_be_put_into_the_background() {
    let world = World::new();
    let screen = open(&world);
    screen.enter(&format!("{QUOTED} run a --hold"));
    screen.shows("holding a, token 1\n");
    screen.keys(&["C-z"]);
    screen.shows("Stopped");
    screen.enter("clear; bg; sleep 0.5; jobs; l a -n true; echo status=$?");
    screen.shows("status=1");
    screen.shows("Running");
    assert!(!screen.text().contains("Stopped"), "{}", screen.text());
    // Typed input goes to the shell, and to the command again once the job is in the foreground.
    screen.enter("clear; echo again; fg");
    screen.shows("again\n'/");
    screen.keys(&["C-d"]);
    screen.shows("ready>");
    screen.enter("l a -n -- echo it is 'free'");
    screen.shows("it is free\n");
}

#[test]
fn a_pager_behind_the_command_has_the_terminal() {
    let world = World::new();
    let screen = open(&world);
    let pager = "cat > /dev/null; echo now; read line < /dev/tty; echo pager: $line";
    screen.enter(&format!("l a -- seq 200 | sh -c '{pager}'"));
    screen.shows("now\n");
    screen.enter("hello");
    screen.shows("pager: hello");
}

#[test]
fn a_command_that_was_killed_leaves_a_terminal_one_can_work_with() {
    let world = World::new();
    let screen = open(&world);
    screen
        .enter("l a --ttl 30s -- sh -c 'echo it runs; stty raw -echo; sleep 1000'; echo status=$?");
    screen.shows("it runs\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let reason = json!({"reason": "test"});
    runtime.block_on(world.server.client.post("/v1/locks/a/revoke", reason)).unwrap();
    screen.shows("a: the lease was revoked: test; the command was ended");
    screen.shows("status=75");
    screen.enter("echo one can see this");
    screen.shows("\nready> echo one can see this\none can see this\n");
}
