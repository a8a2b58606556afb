//! What `run` shows while it waits, and when there is no server.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::terminal::open;
use crate::{BINARY, World};

#[test]
fn on_a_terminal_a_line_says_whom_we_wait_for_and_is_gone_afterwards() {
    let world = World::new();
    let holder =
        world.run(&["a", "--owner", "ann"], "touch held; while [ ! -e go ]; do sleep 0.01; done");
    world.until("it is held", || world.file("held").exists());
    let screen = open(&world);
    screen.enter("l -w 60 a echo it is ours");
    screen.shows("waiting for a: held by ann for ");
    screen.shows(" left, place 1 of 1, giving up in ");
    std::fs::write(world.file("go"), "").unwrap();
    screen.shows("\nit is ours\n");
    assert!(!screen.text().contains("waiting"), "{}", screen.text());
    assert_eq!(holder.code(), Some(0));
}

#[test]
fn in_a_pipe_nothing_is_said_while_waiting() {
    let world = World::new();
    let _holder = world.run(&["a"], "touch held; sleep 1000");
    world.until("it is held", || world.file("held").exists());
    let (code, out, err) = world.ran(&["-w", "1", "a", "true"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn a_server_that_is_not_there_is_noticed_within_the_connect_timeout() {
    let world = World::new();
    // A port without a listener, a listener that sends nothing, and one that speaks another protocol.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = format!("http://{}", leasehold_testkit::nowhere());
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let foreign_url = format!("http://{}", foreign.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in foreign.incoming().flatten() {
            // What was not read would reset the connection before the client has read the line.
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.9\r\n");
        }
    });
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    for (url, timeout, why) in [
        (&refused, "20", "connection refused"),
        (&silent_url, "1", "no response within 1s"),
        (&foreign_url, "20", "not an HTTP response"),
    ] {
        for words in [
            &["run", "a", "touch", "wrong"][..],
            &["acquire", "a", "-w", "60"],
            &["status", "a"],
            &["ls"],
        ] {
            let words =
                [&words[..1], &["--url", url, "--connect-timeout", timeout], &words[1..]].concat();
            let mut command = std::process::Command::new(BINARY);
            let began = Instant::now();
            let output = command.args(&words).current_dir(world.folder.path()).output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(68), "{words:?}: {err}");
            assert!(
                began.elapsed() < Duration::from_secs(50),
                "{words:?} took {:?}",
                began.elapsed()
            );
            assert!(err.contains(&format!("cannot connect to {url}: {why}")), "{words:?}: {err}");
            assert!(err.contains("LEASEHOLD_URL"), "{err}");
        }
    }
    assert!(!world.file("wrong").exists());
}
