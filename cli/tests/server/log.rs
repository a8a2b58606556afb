//! The log: what it contains at each level, and that every line is JSON if JSON is configured.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use leasehold_testkit::{Method, Process, Value, folder, json, wrapped};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Starts a server whose standard error is a file.
fn server(folder: &Path, flags: &[&str]) -> (Process, PathBuf) {
    let log = folder.join("log");
    let binary = wrapped(folder, &format!("exec 2>{}\nexec", log.display()), BINARY);
    (Process::start(&binary, &folder.join("data"), flags), log)
}

/// Returns the lines, each of which must be one JSON object.
fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    let line =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    let lines: Vec<Value> = text.lines().map(line).collect();
    for line in &lines {
        for name in ["timestamp", "level", "message", "target"] {
            assert!(line[name].is_string(), "no {name}: {line}");
        }
    }
    lines
}

async fn use_it(server: &Process) {
    let taken = server.client.acquire("nightly", "worker \"1\"", 60_000, json!({})).await;
    assert_eq!(taken.status, 200);
    let traced = [("traceparent", &*format!("00-{TRACE}-00f067aa0ba902b7-01"))];
    let read = server.client.send_with(Method::GET, "/v1/locks/nightly", &traced, "").await;
    assert_eq!(read.unwrap().status, 200);
    let named = [("x-request-id", "mine")];
    let read = server.client.send_with(Method::GET, "/v1/locks", &named, "").await;
    assert_eq!(read.unwrap().status, 200);
    let proof = ["owner_id", "lease_id", "fencing_token"].map(|name| (name, taken.get(name)));
    let proof: std::collections::BTreeMap<_, _> = proof.into_iter().collect();
    let headers = [traced[0], ("content-type", "application/json")];
    let (path, body) = ("/v1/locks/nightly/release", json!(proof).to_string());
    let released = server.client.send_with(Method::POST, path, &headers, body).await;
    assert_eq!(released.unwrap().status, 200);
}

#[test]
fn the_banner_shows_the_console_and_a_command_to_try() {
    let folder = folder();
    let (server, log) = server(folder.path(), &["--log-format=text"]);
    let url = format!("http://{}", server.address);
    assert!(server.terminate().success());
    let banner = std::fs::read_to_string(log).unwrap();
    assert!(banner.contains(&format!("  console    {url}/console\n")), "{banner}");
    let body = r#"{"owner_id":"me","ttl_ms":60000}"#;
    let command = format!("  try        curl --json '{body}' {url}/v1/locks/demo/acquire\n");
    assert!(banner.contains(&command), "{banner}");
}

#[tokio::test]
async fn in_json_every_line_is_json_from_the_banner_to_the_end() {
    let folder = folder();
    let (server, log) = server(folder.path(), &["--log-format=json", "--log=debug"]);
    use_it(&server).await;
    assert!(server.terminate().success());
    let lines = lines(&log);
    let banner = &lines.iter().find(|line| line["message"] == "listening").unwrap();
    assert_eq!(banner["version"], env!("CARGO_PKG_VERSION"));
    assert!(banner["listening"][0].as_str().unwrap().starts_with("http://127.0.0.1:"), "{banner}");
    assert!(banner["dialects"].as_array().unwrap().len() > 3 && banner["auth"].is_string());
    let answered: Vec<_> = lines.iter().filter(|line| line["message"] == "answered").collect();
    let to = |route: &str| *answered.iter().find(|line| line["route"] == route).unwrap();
    let acquire = to("/v1/locks/{lock}/acquire");
    assert_eq!((&acquire["method"], &acquire["level"]), (&json!("POST"), &json!("DEBUG")));
    assert_eq!(
        (&acquire["peer"], &acquire["principal"]),
        (&json!("127.0.0.1"), &json!("anonymous"))
    );
    assert!(acquire["took_us"].is_u64() && acquire["status"].is_u64(), "{acquire}");
    assert_eq!(acquire["trace_id"], Value::Null, "it belongs to no trace");
    let read = to("/v1/locks/{lock}");
    assert_eq!((&read["trace_id"], &read["status"]), (&json!(TRACE), &json!(200)), "{read}");
    let list = to("/v1/locks");
    assert_eq!((&list["request_id"], &list["level"]), (&json!("mine"), &json!("INFO")));
    let changes: Vec<_> = lines.iter().filter(|line| line["target"] == "change").collect();
    let what: Vec<_> = changes.iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["granted", "released"]);
    let granted = changes[0];
    assert_eq!(granted["level"], "INFO");
    assert_eq!((&granted["by"], &granted["peer"]), (&json!("anonymous"), &json!("127.0.0.1")));
    assert_eq!(granted["route"], "/v1/locks/{lock}/acquire");
    assert_eq!(granted["request_id"], acquire["request_id"], "{granted}");
    assert_eq!(granted["trace_id"], Value::Null);
    assert_eq!(changes[1]["trace_id"], TRACE, "{}", changes[1]);
    assert_eq!(changes[1]["route"], "/v1/locks/{lock}/release");
    assert_eq!(
        (&granted["namespace"], &granted["lock"], &granted["owner"], &granted["token"]),
        (&json!("default"), &json!("nightly"), &json!("worker \"1\""), &json!(1))
    );
}

#[tokio::test]
async fn changes_are_logged_by_those_who_ask_for_them() {
    for (flags, n_changes) in [(&[][..], 0), (&["--log=info"], 2), (&["--log=info,change=off"], 0)]
    {
        let folder = folder();
        let (server, log) = server(folder.path(), flags);
        use_it(&server).await;
        assert!(server.terminate().success());
        // Standard error is a file, so this is JSON.
        let lines = lines(&log);
        let n = lines.iter().filter(|line| line["target"] == "change").count();
        assert_eq!(n, n_changes, "{flags:?}");
        let requests = lines.iter().filter(|line| line["message"] == "answered");
        assert_eq!(requests.count(), 1, "{flags:?}: only the one with a name");
    }
}

/// A revocation through the API and one through the console log the same line.
#[tokio::test]
async fn what_an_operator_takes_away_is_one_line_that_says_who_and_why() {
    let folder = folder();
    let (server, log) = server(folder.path(), &[]);
    let client = &server.client;
    let form = [("content-type", "application/x-www-form-urlencoded")];
    for lock in ["api", "console"] {
        assert_eq!(client.acquire(lock, "worker", 60_000, json!({})).await.status, 200);
    }
    let revoked = client.post("/v1/locks/api/revoke", json!({"reason": "it \"hangs\""})).await;
    assert_eq!(revoked.unwrap().status, 200);
    let path = "/console/lock/revoke?namespace=default&name=console";
    let body = "token=1&reason=it+%22hangs%22";
    let revoked = client.send_with(Method::POST, path, &form, body).await.unwrap();
    assert_eq!(revoked.status, 303, "{}", revoked.text);
    for _ in 0..2 {
        let opened = client.post("/v1/sessions", json!({"owner_id": "ann", "ttl_ms": 60_000}));
        let opened = opened.await.unwrap();
        assert_eq!(opened.status, 201, "{}", opened.text);
    }
    let list = client.get("/v1/admin/sessions").await;
    let number = |n: usize| list.body["sessions"][n]["number"].as_u64().unwrap();
    let path = format!("/v1/admin/sessions/{}", number(0));
    assert_eq!(client.send_with(Method::DELETE, &path, &[], "").await.unwrap().status, 204);
    let body = format!("number={}&reason=gone", number(1));
    let ended = client.send_with(Method::POST, "/console/sessions/end", &form, body).await.unwrap();
    assert_eq!(ended.status, 303, "{}", ended.text);
    let numbers = [number(0), number(1)];
    assert!(server.terminate().success());
    let lines = lines(&log);
    let said = |message: &str, names: &[&str]| -> Vec<Value> {
        let of = lines.iter().filter(|line| line["message"] == message);
        of.map(|line| names.iter().map(|name| line[*name].clone()).collect()).collect()
    };
    let why = "it \"hangs\"";
    let expected = |lock: &str| json!([format!("default/{lock}"), "anonymous", why, 1, "WARN"]);
    let revoked = said("revoked", &["lock", "by", "reason", "n", "level"]);
    assert_eq!(revoked, [expected("api"), expected("console")]);
    let ended = said("session ended by an operator", &["session", "owner", "by", "reason", "n"]);
    let [first, second] = numbers;
    let expected = [
        json!([first, "ann", "anonymous", null, 0]),
        json!([second, "ann", "anonymous", "gone", 0]),
    ];
    assert_eq!(ended, expected);
}

#[test]
fn why_a_server_ends_is_told_in_the_format_of_its_log() {
    let folder = folder();
    std::fs::write(folder.path().join("data"), "no folder").unwrap();
    let run = |flags: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--listen=127.0.0.1:0", "--data=data"]).args(flags);
        let output = command.current_dir(folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (flags, why) in
        [(&["--log-format=json"][..], "data"), (&["--grace=2h"], "--grace: 2h is longer")]
    {
        let (status, said) = run(flags);
        assert_eq!(status, Some(1));
        let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert_eq!(last["level"], "ERROR");
        assert!(last["message"].as_str().unwrap().contains(why), "{said}");
        let (status, said) = run(&[flags, &["--log-format=text", "--log=off"]].concat());
        assert_eq!(status, Some(1));
        assert!(said.starts_with("leasehold: ") && said.contains(why), "{said}");
    }
}

#[test]
fn settings_that_cannot_be_read_are_told_in_the_format_of_the_log() {
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("typo.toml", "log-format = \"json\"\nlisen = \"x\"\n");
    write("bad.toml", "ttl_max = \"abc\"\nlog_format = \"json\"\n");
    write("text.toml", "log-format = \"text\"\nlisen = \"x\"\n");
    let run = |flags: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(BINARY);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEASEHOLD_")) {
            command.env_remove(name);
        }
        command.arg("serve").args(flags).envs(variables.iter().copied());
        let output = command.current_dir(folder.path()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let json = ("LEASEHOLD_LOG_FORMAT", "json");
    for (flags, variables, status, why) in [
        (
            &["--log-format", "json", "--config", "nope.toml"][..],
            &[][..],
            1,
            "nope.toml: No such file",
        ),
        (&["--config=typo.toml"], &[], 1, "typo.toml:2: there is no setting \"lisen\""),
        (&["--config=bad.toml"], &[], 1, "bad.toml:1: invalid value 'abc'"),
        (&["--config=text.toml"], &[json], 1, "text.toml:2: there is no setting"),
        (&[], &[json, ("LEASEHOLD_TTL_MAX", "abc")], 1, "LEASEHOLD_TTL_MAX: invalid value 'abc'"),
        (&["--log-format=json", "--nonsense"], &[], 64, "unexpected argument '--nonsense'"),
    ] {
        let (code, said) = run(flags, variables);
        assert_eq!(code, status, "{flags:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{flags:?}: {said}");
        let line: Value =
            serde_json::from_str(&said).unwrap_or_else(|_| panic!("{flags:?}: {said}"));
        assert_eq!(line["level"], "ERROR");
        assert!(line["message"].as_str().unwrap().contains(why), "{flags:?}: {said}");
    }
    let (_, said) = run(&["--config=text.toml"], &[]);
    assert!(said.starts_with("leasehold: text.toml:2: there is no setting"), "{said}");
    let (_, said) = run(&["--config=typo.toml", "--log-format=text"], &[json]);
    assert!(said.starts_with("leasehold: typo.toml:2: "), "the flag counts: {said}");
}
