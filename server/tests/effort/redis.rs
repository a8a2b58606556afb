//! Tests of the cost of Redis commands, each on its own connection.

use std::net::SocketAddr;
use std::time::Duration;

use leasehold_server::dialect::Dialect;
use leasehold_testkit::{Local, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{CPU_MAX, PATIENCE, alone, cpu};

fn command(words: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
    bytes.into_bytes()
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

/// Sends these bytes and ends the stream. Returns everything the server sends back.
async fn told(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let writing = async {
        let _ = writer.write_all(bytes).await;
        let _ = writer.shutdown().await;
    };
    let mut answer = Vec::new();
    let (_, _) =
        tokio::join!(writing, tokio::time::timeout(PATIENCE, reader.read_to_end(&mut answer)));
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn commands_cost_no_more_than_their_bytes() {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check_commands());
}

async fn check_commands() {
    let mut settings = settings(None);
    settings.dialect.redis.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let local = Local::start(settings).await;
    let address = local.server.listening(Dialect::Redis).expect("it listens");
    let x = |n: usize| "x".repeat(n);
    let set = |key: String| command(&[words("SET"), vec![key], words("v NX PX 1000")].concat());
    let many = |head: &str, n: usize| {
        command(&[words(head), (0..n).map(|n| n.to_string()).collect()].concat())
    };
    let script = "return redis.call('del', KEYS[1])";
    let evaluated = |n: usize| {
        let head = vec!["EVAL".into(), script.into(), n.to_string()];
        command(&[head, (0..n).map(|n| format!("k{n}")).collect()].concat())
    };
    let queued = |n: usize| {
        [command(&words("MULTI")), command(&words("GET k")).repeat(n), command(&words("EXEC"))]
            .concat()
    };
    let cases: [(&str, Vec<u8>, &str); 19] = [
        ("a key", set(x(512)), "+OK"),
        ("a key too long", set(x(513)), "-"),
        ("a key far too long", set(x(60_000)), "-"),
        ("keys", many("DEL", 64), ":"),
        ("too many keys", many("DEL", 65), "-"),
        ("far too many keys", many("DEL", 5_000), "-"),
        ("keys that exist", many("EXISTS", 5_000), ""),
        ("options", command(&[words("SET k v"), vec!["NX".into(); 5_000]].concat()), "-"),
        ("digits", command(&[words("SET k v NX PX"), vec!["9".repeat(50_000)]].concat()), "-"),
        ("keys of a script", evaluated(64), "-"),
        ("too many keys of a script", evaluated(5_000), "-"),
        ("a script", command(&["EVAL".into(), x(60_000), "0".into()]), "-"),
        ("a name", command(&["CLIENT".into(), "SETNAME".into(), x(60_000)]), ""),
        ("a command", command(&[x(60_000)]), "-"),
        ("words without an end", format!("*{}\r\n", "9".repeat(60_000)).into_bytes(), "-"),
        ("a word without an end", format!("*1\r\n${}\r\n", "9".repeat(60_000)).into_bytes(), "-"),
        ("a line", [&*x(60_000).into_bytes(), b"\r\n"].concat(), "-"),
        ("a transaction", queued(10), ""),
        ("a long transaction", queued(3_000), ""),
    ];
    for (what, bytes, begins) in cases {
        let mut costs = Vec::new();
        let answer = loop {
            let before = cpu();
            let answer = told(address, &bytes).await;
            costs.push(cpu() - before);
            if costs.last().is_some_and(|cost| *cost <= CPU_MAX) {
                break answer;
            }
            assert!(costs.len() < 3, "{what}: {costs:?} of CPU, {CPU_MAX:?} are allowed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let shown: String = answer.chars().take(200).collect();
        assert!(answer.starts_with(begins), "{what}: {shown}");
    }
}
