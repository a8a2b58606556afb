//! Leader election: one leader at a time, which all clients can look up.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use leasehold::{Client, Leader};
use leasehold_testkit::{Local, json};

fn client(local: &Local, owner: &str) -> Client {
    Client::builder(&format!("http://{}", local.address)).owner(owner).build().unwrap()
}

#[tokio::test]
async fn the_first_candidate_leads_until_it_resigns() {
    let local = Local::ephemeral().await;
    let [ann, ben] = ["ann", "ben"].map(|owner| client(&local, owner).election("scheduler"));
    let mut seen = client(&local, "watcher").election("scheduler").observe();
    assert_eq!(seen.next().await.unwrap(), None);

    let leads = ann.campaign("10.0.0.1:80").await.unwrap();
    let expected = Leader { owner: "ann".into(), token: 1, value: json!("10.0.0.1:80") };
    assert_eq!(seen.next().await.unwrap(), Some(expected.clone()));
    assert_eq!(ben.leader().await.unwrap(), Some(expected));
    assert_eq!((leads.fencing_token(), leads.check()), (1, Ok(())));

    let waits = tokio::spawn(async move { ben.campaign(json!({"port": 81})).await });
    local
        .until("it waits", async |client| {
            client.get("/v1/locks/scheduler").await.get("n_waiting") == 1
        })
        .await;
    leads.resign().await.unwrap();
    let leads = waits.await.unwrap().unwrap();
    let expected = Leader { owner: "ben".into(), token: 2, value: json!({"port": 81}) };
    assert_eq!(seen.next().await.unwrap(), Some(expected));
    drop(leads);
    assert_eq!(seen.next().await.unwrap(), None);
    // A lock whose name only starts with that of the election does not affect it.
    local.client.acquire("scheduler-2", "cem", 60_000, json!({})).await;
    let more = tokio::time::timeout(Duration::from_millis(100), seen.next()).await;
    assert!(more.is_err(), "{more:?}");
}
