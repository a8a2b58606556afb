//! Tests of client certificates.

use std::path::Path;
use std::sync::Arc;

use leasehold_auth::NewKey;
use leasehold_testkit::{Ca, Issued, folder, json};
use rustls::HandshakeKind;

use crate::transport::{
    BOTH, HEALTH, PATIENCE, World, ask, config, connect, connect_shared, post, status,
};

/// Returns a `GET` request for a lock, with an API key if there is one.
fn look(key: Option<&str>) -> String {
    let header = key.map_or(String::new(), |key| format!("Authorization: Bearer {key}\r\n"));
    format!("GET /v1/locks/x HTTP/1.1\r\nHost: localhost\r\n{header}\r\n")
}

/// A server that authenticates clients by their certificates.
struct Clients {
    world: World,
    ca: Ca,
    key: NewKey,
}

fn rules(said: &str) -> String {
    format!(
        "version = 1\nkey-files = [\"keys.toml\"]\n[mtls]\nca-file = \"clients.pem\"\n{said}\n\
         [[rule]]\nname = \"all\"\nwho = [\"mtls:web-1\", \"mtls:spiffe://a/web\", \"key:ci\"]\n\
         may = [\"acquire\"]\nnamespaces = [\"*\"]\n"
    )
}

impl Clients {
    async fn new(said: &str) -> Self {
        let (ca, key) = (Ca::new("clients"), NewKey::draw());
        let write = |folder: &Path| {
            ca.write(folder, "clients.pem");
            let NewKey { id, sha256, .. } = &key;
            let keys = format!("[[key]]\nname = \"ci\"\nid = \"{id}\"\nsha256 = \"{sha256}\"\n");
            std::fs::write(folder.join("keys.toml"), keys).unwrap();
            std::fs::write(folder.join("auth.toml"), rules(said)).unwrap();
        };
        let world = World::with(|settings, folder| {
            write(folder);
            settings.auth_file = Some(folder.join("auth.toml"));
        })
        .await;
        Self { world, ca, key }
    }

    /// Sends one request with this client certificate. Returns the status, or an error if the connection fails.
    async fn ask(&self, client: Option<&Issued>, request: &str) -> Result<u16, String> {
        let config = config(&self.world.ca, BOTH, client);
        let stream = connect(self.world.https(), config).await;
        let mut stream = stream.map_err(|error| error.to_string())?;
        let answer = ask(&mut stream, request).await;
        if answer.is_empty() { Err("no answer".into()) } else { Ok(status(&answer)) }
    }
}

/// Waits until `n` clients wait for the lock `db`.
async fn n_waiting(clients: &Clients, n: u64) {
    let bearer = format!("Bearer {}", clients.key.text);
    let headers = [("authorization", bearer.as_str())];
    let is_so = async |client: &leasehold_testkit::Client| {
        let get = leasehold_testkit::Method::GET;
        let lock = client.send_with(get, "/v1/locks/db", &headers, "").await.unwrap();
        lock.get("n_waiting").as_u64().unwrap_or(0) == n
    };
    clients.world.local.until("they wait", is_so).await;
}

#[tokio::test]
async fn exactly_one_name_of_its_kind_says_who_asks() {
    for (said, names, expected) in [
        ("principal = \"dns\"", &["dns:web-1"][..], 200),
        ("principal = \"dns\"", &["dns:web-1", "uri:spiffe://a/b", "ip:10.0.0.1"], 200),
        ("principal = \"dns\"", &["dns:web-2"], 403),
        ("principal = \"dns\"", &["dns:web-1", "dns:web-2"], 401),
        ("principal = \"dns\"", &["uri:spiffe://a/web"], 401),
        ("principal = \"dns\"", &["dns:*.web-1"], 401),
        ("principal = \"dns\"", &["email:web-1@example.org"], 401),
        ("principal = \"uri\"", &["uri:spiffe://a/web"], 200),
        ("principal = \"uri\"", &["uri:spiffe://a/web", "dns:web-1"], 200),
        ("principal = \"uri\"", &["uri:spiffe://a/web", "uri:spiffe://b/web"], 401),
        ("principal = \"uri\"", &["dns:web-1"], 401),
        ("principal = \"none\"", &["dns:web-1"], 401),
    ] {
        let clients = Clients::new(said).await;
        let client = clients.ca.issue(names);
        let answered = clients.ask(Some(&client), &look(None)).await;
        assert_eq!(answered, Ok(expected), "{said} {names:?}");
        clients.world.local.stop().await;
    }
}

#[tokio::test]
async fn a_certificate_and_a_key_are_two_principals() {
    let clients = Clients::new("principal = \"dns\"").await;
    let client = clients.ca.issue(&["dns:web-1"]);
    let key = clients.key.text.clone();
    assert_eq!(clients.ask(None, &look(None)).await, Ok(401), "no certificate, no principal");
    assert_eq!(clients.ask(None, &look(Some(&key))).await, Ok(200), "a key is enough");
    assert_eq!(clients.ask(Some(&client), &look(None)).await, Ok(200));
    assert_eq!(clients.ask(Some(&client), &look(Some(&key))).await, Ok(401));
    assert_eq!(clients.ask(Some(&client), &look(Some("lh_a_b"))).await, Ok(401));
    clients.world.local.stop().await;
    let clients = Clients::new("principal = \"none\"").await;
    let (client, key) = (clients.ca.issue(&["dns:web-1"]), clients.key.text.clone());
    assert_eq!(clients.ask(Some(&client), &look(Some(&key))).await, Ok(200));
    assert_eq!(clients.ask(Some(&client), &look(None)).await, Ok(401), "it says nothing of who");
    assert!(clients.ask(None, &look(Some(&key))).await.is_err(), "there it is required");
    clients.world.local.stop().await;
    let clients = Clients::new("principal = \"dns\"\nrequired = true").await;
    assert!(clients.ask(None, HEALTH).await.is_err());
    assert_eq!(clients.ask(Some(&clients.ca.issue(&["dns:web-1"])), &look(None)).await, Ok(200));
    clients.world.local.stop().await;
}

#[tokio::test]
async fn certificates_of_another_ca_or_time_are_refused() {
    let clients = Clients::new("principal = \"dns\"").await;
    let stranger = Ca::new("others").issue(&["dns:web-1"]);
    assert!(clients.ask(Some(&stranger), HEALTH).await.is_err());
    let expired = clients.ca.issue_expired(&["dns:web-1"]);
    assert!(clients.ask(Some(&expired), HEALTH).await.is_err());
    clients.world.local.stop().await;
}

#[tokio::test]
async fn no_session_is_resumed_where_certificates_count() {
    for said in ["principal = \"dns\"", "principal = \"none\"\nrequired = false"] {
        let clients = Clients::new(said).await;
        let client = clients.ca.issue(&["dns:web-1"]);
        for versions in [&[&rustls::version::TLS12], &[&rustls::version::TLS13]] {
            let config = Arc::new(config(&clients.world.ca, versions, Some(&client)));
            for _ in 0..3 {
                let mut stream = connect_shared(clients.world.https(), &config).await.unwrap();
                assert_eq!(status(&ask(&mut stream, HEALTH).await), 200);
                assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
            }
        }
        clients.world.local.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_ca_closes_the_connections_of_the_old_one_and_ends_their_waits() {
    let clients = Clients::new("principal = \"dns\"").await;
    let Clients { world, ca, .. } = &clients;
    let client = ca.issue(&["dns:web-1"]);
    let config = config(&world.ca, BOTH, Some(&client));
    let mut holder = connect(world.https(), config.clone()).await.unwrap();
    assert_eq!(status(&ask(&mut holder, &crate::transport::acquire("db", "one", 0)).await), 200);
    let mut waiting = connect(world.https(), config.clone()).await.unwrap();
    let wait = crate::transport::acquire("db", "two", 60_000);
    let waiter = tokio::spawn(async move { ask(&mut waiting, &wait).await });
    n_waiting(&clients, 1).await;
    let other = Ca::new("new clients");
    other.write(world.folder.path(), "clients.pem");
    world.local.server.reload();
    let answer = tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap();
    assert!(status(&answer) == 401 && answer.contains("no longer trusted"), "{answer}");
    n_waiting(&clients, 0).await;
    let ended = tokio::time::timeout(PATIENCE, async {
        // The connection ends, whatever the client sends.
        while !ask(&mut holder, HEALTH).await.is_empty() {}
    });
    ended.await.expect("the old connection goes on");
    assert!(clients.ask(Some(&client), HEALTH).await.is_err());
    let renewed = other.issue(&["dns:web-1"]);
    assert_eq!(clients.ask(Some(&renewed), &look(None)).await, Ok(200));
    clients.world.local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_ca_ends_no_wait_of_those_who_showed_no_certificate() {
    let clients = Clients::new("principal = \"dns\"").await;
    let Clients { world, ca, key } = &clients;
    let header = format!("Authorization: Bearer {}\r\n", key.text);
    let with_key = |lock: &str, owner: &str, wait_ms: u64| {
        let body = json!({"owner_id": owner, "ttl_ms": 60_000, "wait_ms": wait_ms});
        post(&format!("/v1/locks/{lock}/acquire"), &header, &body)
    };
    let plain = config(&world.ca, BOTH, None);
    let mut holder = connect(world.https(), plain.clone()).await.unwrap();
    let held = ask(&mut holder, &with_key("db", "one", 0)).await;
    assert_eq!(status(&held), 200, "{held}");
    let mut waiting = connect(world.https(), plain).await.unwrap();
    let wait = with_key("db", "two", 60_000);
    let waiter = tokio::spawn(async move { ask(&mut waiting, &wait).await });
    let look = look(Some(&key.text)).replace("/x ", "/db ");
    n_waiting(&clients, 1).await;
    let old = ca.issue(&["dns:web-1"]);
    let other = Ca::new("new clients");
    other.write(world.folder.path(), "clients.pem");
    world.local.server.reload();
    world
        .local
        .until("the old CA is gone", async |_| clients.ask(Some(&old), HEALTH).await.is_err())
        .await;
    // Longer than the connections with an old certificate can stay.
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    n_waiting(&clients, 1).await;
    assert_eq!(status(&ask(&mut holder, &look).await), 200, "its connection goes on");
    let lease = held.split("\r\n\r\n").nth(1).unwrap();
    let lease: leasehold_testkit::Value = serde_json::from_str(lease).unwrap();
    let proof = json!({"owner_id": "one", "lease_id": lease["lease_id"],
        "fencing_token": lease["fencing_token"]});
    let released = ask(&mut holder, &post("/v1/locks/db/release", &header, &proof)).await;
    assert_eq!(status(&released), 200, "{released}");
    let answer = tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap();
    assert_eq!(status(&answer), 200, "{answer}");
    clients.world.local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_with_a_key_and_a_certificate_of_another_ca_is_refused() {
    let clients = Clients::new("principal = \"none\"").await;
    let Clients { world, ca, key } = &clients;
    let header = format!("Authorization: Bearer {}\r\n", key.text);
    let with_key = |owner: &str, wait_ms: u64| {
        let body = json!({"owner_id": owner, "ttl_ms": 60_000, "wait_ms": wait_ms});
        post("/v1/locks/db/acquire", &header, &body)
    };
    let config = config(&world.ca, BOTH, Some(&ca.issue(&["dns:web-1"])));
    let mut holder = connect(world.https(), config.clone()).await.unwrap();
    assert_eq!(status(&ask(&mut holder, &with_key("one", 0)).await), 200);
    let mut waiting = connect(world.https(), config).await.unwrap();
    let wait = with_key("two", 60_000);
    let waiter = tokio::spawn(async move { ask(&mut waiting, &wait).await });
    n_waiting(&clients, 1).await;
    Ca::new("new clients").write(world.folder.path(), "clients.pem");
    world.local.server.reload();
    let answer = tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap();
    assert!(status(&answer) == 401 && answer.contains("no longer trusted"), "{answer}");
    n_waiting(&clients, 0).await;
    clients.world.local.stop().await;
}

#[tokio::test]
async fn a_malformed_name_counts_and_is_logged() {
    for (said, names) in [
        ("principal = \"dns\"", &["dns:web-1", "dns:we b"][..]),
        ("principal = \"uri\"", &["uri:spiffe://a/web", "uri:a b"]),
    ] {
        let clients = Clients::new(said).await;
        let config = config(&clients.world.ca, BOTH, Some(&clients.ca.issue(names)));
        let mut stream = connect(clients.world.https(), config).await.unwrap();
        let answer = ask(&mut stream, &look(None)).await;
        assert_eq!(status(&answer), 401, "{names:?}");
        assert!(answer.contains("it has 2, 1 of them malformed"), "{answer}");
        let key = format!("Bearer {}", clients.key.text);
        let (get, headers) = (leasehold_testkit::Method::GET, [("authorization", key.as_str())]);
        let client = &clients.world.local.client;
        let metrics = client.send_with(get, "/metrics", &headers, "").await.unwrap().text;
        assert!(metrics.contains("leasehold_certificate_names_malformed_total 1"), "{metrics}");
        clients.world.local.stop().await;
    }
}

#[tokio::test]
async fn a_certificate_that_expires_is_noticed_on_the_connection_it_was_good_on() {
    let clients = Clients::new("principal = \"dns\"").await;
    let config = config(&clients.world.ca, BOTH, Some(&clients.ca.issue(&["dns:web-1"])));
    let mut stream = connect(clients.world.https(), config).await.unwrap();
    for _ in 0..2 {
        assert_eq!(status(&ask(&mut stream, &look(None)).await), 200);
    }
    // Later than the end of any certificate.
    clients.world.local.clock.set_wall_ms(253_402_300_800_000);
    let answer = ask(&mut stream, &look(None)).await;
    assert!(status(&answer) == 401 && answer.contains("certificate has expired"), "{answer}");
    clients.world.local.stop().await;
}

#[tokio::test]
async fn a_lease_belongs_to_the_name_in_the_certificate() {
    let clients = Clients::new("principal = \"dns\"").await;
    let client = clients.ca.issue(&["dns:web-1"]);
    let config = config(&clients.world.ca, BOTH, Some(&client));
    let mut stream = connect(clients.world.https(), config).await.unwrap();
    let answer = ask(&mut stream, &crate::transport::acquire("db", "one", 0)).await;
    assert_eq!(status(&answer), 200, "{answer}");
    let answer = ask(&mut stream, &look(None).replace("/x ", "/db ")).await;
    assert!(answer.contains("\"mtls:web-1\""), "{answer}");
    let session = post("/v1/sessions", "", &json!({"owner_id": "one", "ttl_ms": 60_000}));
    assert_eq!(status(&ask(&mut stream, &session).await), 201);
    clients.world.local.stop().await;
}

#[test]
fn what_mtls_says_is_checked() {
    let folder = folder();
    Ca::new("clients").write(folder.path(), "clients.pem");
    std::fs::write(folder.path().join("keys.toml"), "key = []\n").unwrap();
    std::fs::write(folder.path().join("empty.pem"), "").unwrap();
    let load = |text: String| {
        let file = folder.path().join("auth.toml");
        std::fs::write(&file, text).unwrap();
        leasehold_auth::Policy::load(&file).map(drop)
    };
    assert_eq!(load(rules("principal = \"dns\"")), Ok(()));
    for (text, why) in [
        (rules(""), "principal"),
        (
            rules("principal = \"cn\""),
            "auth.toml:5: mtls: principal: unknown \"cn\"; allowed: dns, uri, none",
        ),
        (rules("principal = \"dns\"\nca = 1"), "unknown field"),
        (
            rules("principal = \"dns\"").replace("clients.pem", "none.pem"),
            "auth.toml:4: mtls: ca-file",
        ),
        (
            rules("principal = \"dns\"").replace("clients.pem", "empty.pem"),
            "has no certificate in PEM",
        ),
    ] {
        let said = load(text).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}
