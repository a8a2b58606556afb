//! On a terminal, driven by tmux as a person would.

use std::process::Command;

use leasehold_testkit::json;

use crate::{BINARY, World};

/// Says when it is there, and repeats what it is told. What is typed before, the shell may take for its own.
const PARROT: &str = "sh -c \"echo now; exec sed -u 's/^/said: /'\"";

/// A terminal with a shell in it.
struct Screen<'a> {
    world: &'a World,
}

impl<'a> Screen<'a> {
    fn open(world: &'a World) -> Self {
        let screen = Self { world };
        let shell = format!(
            "cd {}; export LEASEHOLD_URL=http://{}; PS1='ready> ' exec bash --norc --noprofile",
            world.folder.path().display(),
            world.server.address
        );
        screen.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", &shell]);
        screen.shows("ready>");
        screen.enter(&format!("l() {{ {BINARY} run \"$@\"; }}; clear"));
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        // A server of its own for each test, in its folder.
        let socket = self.world.file("tmux");
        let output = Command::new("tmux").arg("-S").arg(&socket).args(arguments).output();
        let output = output.expect("tmux: scripts/test installs it");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn enter(&self, line: &str) {
        self.keys(&["-l", line]);
        self.keys(&["Enter"]);
    }

    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn shows(&self, text: &str) {
        let began = std::time::Instant::now();
        while !self.text().contains(text) {
            assert!(began.elapsed() < crate::PATIENCE, "never saw {text:?} on:\n{}", self.text());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        let socket = self.world.file("tmux");
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

#[test]
fn a_command_reads_and_writes_the_terminal_and_ends_with_its_input() {
    let world = World::new();
    let screen = Screen::open(&world);
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
    let screen = Screen::open(&world);
    screen.enter(&format!("l a -- {PARROT}; echo status=$?"));
    screen.shows("now\n");
    screen.enter("one");
    screen.shows("said: one");
    screen.keys(&["C-c"]);
    screen.shows("status=130");
    screen.enter("l a -n -- echo it is free");
    screen.shows("it is free\n");
}

#[test]
fn a_job_can_be_stopped_and_brought_back() {
    let world = World::new();
    let screen = Screen::open(&world);
    screen.enter(&format!("l a -- {PARROT}; echo status=$?"));
    screen.shows("now\n");
    screen.enter("one");
    screen.shows("said: one");
    screen.keys(&["C-z"]);
    screen.shows("Stopped");
    screen.enter("clear; echo the shell is back; fg");
    // What is continued is the command in the function.
    screen.shows("the shell is back\n/");
    screen.enter("two");
    screen.shows("said: two");
    screen.keys(&["C-d"]);
    screen.shows("ready>");
    screen.enter("l a -n -- echo it is free");
    screen.shows("it is free\n");
}

#[test]
fn a_job_in_the_background_stops_when_it_wants_the_terminal() {
    let world = World::new();
    let screen = Screen::open(&world);
    screen.enter(&format!("set -b; l a -- {PARROT} &"));
    screen.shows("Stopped");
    screen.enter("clear; echo the shell is here; fg");
    screen.shows("the shell is here\nl a -- ");
    screen.enter("one");
    screen.shows("said: one");
    screen.keys(&["C-d"]);
}

#[test]
fn a_pager_behind_the_command_has_the_terminal() {
    let world = World::new();
    let screen = Screen::open(&world);
    let pager = "cat > /dev/null; echo now; read line < /dev/tty; echo pager: $line";
    screen.enter(&format!("l a -- seq 200 | sh -c '{pager}'"));
    screen.shows("now\n");
    screen.enter("hello");
    screen.shows("pager: hello");
}

#[test]
fn a_command_that_was_killed_leaves_a_terminal_one_can_work_with() {
    let world = World::new();
    let screen = Screen::open(&world);
    screen
        .enter("l a --ttl 1s -- sh -c 'echo it runs; stty raw -echo; sleep 1000'; echo status=$?");
    screen.shows("it runs\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let reason = json!({"reason": "test"});
    runtime.block_on(world.server.client.post("/v1/locks/a/revoke", reason)).unwrap();
    screen.shows("a: the server says that the lease is over; the command was ended");
    screen.shows("status=75");
    screen.enter("echo one can see this");
    screen.shows("\nready> echo one can see this\none can see this\n");
}
