//! Tests of the console's cluster page, as served by the leader and by a follower.

use std::time::{Duration, Instant};

use leasehold_testkit::Response;

use crate::peer::world::{Node, World};

const PATIENCE: Duration = Duration::from_secs(180);

/// Returns the row of a server, once it contains `word`.
async fn row(asked: &Node, server: &str, word: &str) -> String {
    let began = Instant::now();
    loop {
        let page = asked.client.get("/console/cluster").await;
        let row = row_of(&page, server);
        if row.contains(word) {
            return row;
        }
        assert!(began.elapsed() < PATIENCE, "{server} is not {word:?}: {row} {}", page.text);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn row_of(page: &Response, server: &str) -> String {
    let rows = page.text.split("<tr data-key=\"").skip(1);
    let row = rows.filter_map(|row| row.strip_prefix(&format!("{server}\""))).next();
    row.and_then(|row| row.split("</tr>").next()).unwrap_or_default().to_owned()
}

async fn shows(asked: &Node, part: &str) {
    let began = Instant::now();
    loop {
        let page = asked.client.get("/console/cluster").await;
        if page.text.contains(part) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{part}: {}", page.text);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_shows_who_leads_who_follows_and_what_an_operator_did() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    for asked in [&leader, &follower] {
        let first = row(asked, "n1", "<span>leads</span>").await;
        let second = row(asked, "n2", "<span>follows</span>").await;
        for (row, node) in [(&first, &leader), (&second, &follower)] {
            let address = format!("<bdi class=\"name\">http://{}</bdi>", node.address);
            for part in [address.as_str(), env!("CARGO_PKG_VERSION"), "0 records, 0 s", "ago"] {
                assert!(row.contains(part), "{part}: {row}");
            }
        }
        for part in ["<dt>Epoch</dt><dd>1 ", "<dt>Store format</dt><dd>1</dd>", "Last record"] {
            shows(asked, part).await;
        }
    }
    world.etcd.ctl(&["put", "/test/drain/n2", "drain"]);
    row(&leader, "n2", "drained").await;
    world.etcd.ctl(&["put", "/test/pause", "paused"]);
    shows(&leader, "Paused: no server can become leader").await;
    world.etcd.ctl(&["del", "/test/pause"]);
    // One server reports how long ago it last read a record. The other has a version that does not report it.
    for (behind, shown) in [(r#","behind_s":65"#, "1 record, 1 min 05 s"), ("", ">1 record</td>")] {
        let other = format!(
            r#"{{"address":"http://n7","version":"0.1.9","formats":[1,2],"seq":0{behind}}}"#
        );
        world.etcd.ctl(&["put", "/test/node/n7", &other]);
        let lags = row(&leader, "n7", shown).await;
        assert!(lags.contains("0.1.9") && lags.contains("1, 2"), "{lags}");
    }
    world.etcd.ctl(&["del", "/test/node/n7"]);
    follower.server.stop().await.expect("a good end");
    let gone = row(&leader, "n2", "<span>not there</span>").await;
    assert!(!gone.contains("record"), "its progress is unknown: {gone}");
    let counted = leader.client.get("/metrics").await.text;
    let value = |metric: &str| {
        let line = counted.lines().find_map(|line| line.strip_prefix(metric));
        line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse::<u64>().ok())
    };
    assert!(value("leasehold_cluster_nodes").is_some_and(|n| n >= 1), "{counted}");
    assert!(value("leasehold_cluster_lag_seconds").is_some_and(|n| n < 10), "{counted}");
}
