//! `leasehold state`, and Terraform states on a real server process.

use std::process::{Command, Output};

use leasehold_testkit::{Method, Process, folder};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

fn state(process: &Process, words: &[&str]) -> Output {
    let url = format!("http://{}", process.address);
    Command::new(BINARY)
        .arg("state")
        .args(words)
        .args(["--url", &url])
        .output()
        .expect("the binary")
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

async fn send(process: &Process, line: &str, body: &str) -> u16 {
    let (method, path) = line.split_once(' ').expect("a method");
    let method: Method = method.parse().expect("a method");
    process.client.send(method, path, None, body.to_owned()).await.expect("an answer").status
}

#[tokio::test]
async fn states_are_listed_read_and_rolled_back() {
    let data = folder();
    let process = Process::start(BINARY, &data.path().join("data"), &[]);
    for body in ["{\"serial\":1}\n", "{\"serial\":2}\n"] {
        assert_eq!(send(&process, "POST /terraform/team%2Fapp", body).await, 200);
    }
    let listed = said(&state(&process, &["ls"]));
    let row: Vec<_> = listed.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row[..3], ["team/app", "2", "13"], "{listed}");
    let listed = said(&state(&process, &["ls", "team/app"]));
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let listed = said(&state(&process, &["ls", "team/app", "--json"]));
    assert!(
        listed.starts_with("{\"state\":\"team/app\",\"versions\":[{\"version\":2,"),
        "{listed}"
    );
    let read = state(&process, &["get", "team/app"]);
    assert_eq!(String::from_utf8_lossy(&read.stdout), "{\"serial\":2}\n");
    let read = state(&process, &["get", "team/app", "--version", "1"]);
    assert_eq!(String::from_utf8_lossy(&read.stdout), "{\"serial\":1}\n");
    let back = said(&state(&process, &["rollback", "team/app", "1"]));
    assert_eq!(back, "rolled team/app back to version 1, as version 3\n");
    let read = state(&process, &["get", "team/app"]);
    assert_eq!(String::from_utf8_lossy(&read.stdout), "{\"serial\":1}\n");
    // While another client holds the lock, a rollback is refused.
    let info = r#"{"ID":"x","Who":"ann@laptop"}"#;
    assert_eq!(send(&process, "LOCK /terraform/team%2Fapp", info).await, 200);
    let refused = state(&process, &["rollback", "team/app", "2"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(said(&refused).contains("the state is locked: ... (held by ann@laptop"), "{refused:?}");
    // A holder with long lock information is shortened in the message.
    assert_eq!(send(&process, "UNLOCK /terraform/team%2Fapp", "").await, 200);
    let info =
        format!(r#"{{"ID":"0123456789abcdef","Who":"ann@laptop","Info":"{}"}}"#, "x".repeat(2000));
    assert_eq!(send(&process, "LOCK /terraform/team%2Fapp", &info).await, 200);
    let refused = state(&process, &["rollback", "team/app", "2"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(said(&refused).contains("locked: 01234567... (held by ann@laptop"), "{refused:?}");
    let missing = state(&process, &["get", "nothing"]);
    assert_eq!(missing.status.code(), Some(76), "{missing:?}");
    process.kill();
    let process = Process::start(BINARY, &data.path().join("data"), &[]);
    let read = state(&process, &["get", "team/app"]);
    assert_eq!(String::from_utf8_lossy(&read.stdout), "{\"serial\":1}\n");
    assert_eq!(send(&process, "LOCK /terraform/team%2Fapp", r#"{"ID":"y"}"#).await, 423);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (flags, why) in [
        (&["--terraform-lock-ttl=2h", "--ttl-max=1h"][..], "is longer than --ttl-max"),
        (&["--terraform-lock-ttl=0s"], "--terraform-lock-ttl: must be more than 0"),
        (&["--terraform-namespace="], "--terraform-namespace: is empty or too long"),
        (&["--terraform-versions=0"], "--terraform-versions"),
        (&["--terraform-state-bytes-max=0"], "--terraform-state-bytes-max"),
        (&["--lfs-namespace="], "--lfs-namespace: is empty or too long"),
        (&["--lfs-object-bytes-max=0"], "--lfs-object-bytes-max"),
        (&["--lfs-transfer-ttl=9s"], "--lfs-transfer-ttl: must be at least 10s"),
    ] {
        let output = Command::new(BINARY).arg("check-config").args(flags).output();
        let said = said(&output.expect("the binary"));
        assert!(said.contains(why), "{flags:?}: {said}");
    }
}
