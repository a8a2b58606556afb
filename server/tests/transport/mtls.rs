//! Client certificates.

use std::path::Path;
use std::sync::Arc;

use leasehold_server::auth::NewKey;
use leasehold_testkit::{Ca, Issued, folder, json};
use rustls::HandshakeKind;

use crate::{BOTH, HEALTH, PATIENCE, World, ask, config, connect, connect_shared, post, status};

/// `GET` of a lock, with a key if there is one.
fn look(key: Option<&str>) -> String {
    let header = key.map_or(String::new(), |key| format!("Authorization: Bearer {key}\r\n"));
    format!("GET /v1/locks/x HTTP/1.1\r\nHost: localhost\r\n{header}\r\n")
}

/// A world that knows clients by their certificates, as `said` in `[mtls]`.
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

    /// The answer to one request by whoever has this certificate; an error if they do not get as far.
    async fn ask(&self, client: Option<&Issued>, request: &str) -> Result<u16, String> {
        let config = config(&self.world.ca, BOTH, client);
        let stream = connect(self.world.https(), config).await;
        let mut stream = stream.map_err(|error| error.to_string())?;
        let answer = ask(&mut stream, request).await;
        if answer.is_empty() { Err("no answer".into()) } else { Ok(status(&answer)) }
    }
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
    assert_eq!(clients.ask(None, &look(None)).await, Ok(401), "no certificate: nobody");
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
    let Clients { world, ca, key } = &clients;
    let client = ca.issue(&["dns:web-1"]);
    let config = config(&world.ca, BOTH, Some(&client));
    let mut holder = connect(world.https(), config.clone()).await.unwrap();
    assert_eq!(status(&ask(&mut holder, &crate::acquire("db", "one", 0)).await), 200);
    let mut waiting = connect(world.https(), config.clone()).await.unwrap();
    let wait = crate::acquire("db", "two", 60_000);
    let waiter = tokio::spawn(async move { ask(&mut waiting, &wait).await });
    let bearer = format!("Bearer {}", key.text);
    let n_waiting = async |n: u64| {
        let headers = [("authorization", bearer.as_str())];
        let is_so = async |client: &leasehold_testkit::Client| {
            let get = leasehold_testkit::Method::GET;
            let lock = client.send_with(get, "/v1/locks/db", &headers, "").await.unwrap();
            lock.get("n_waiting").as_u64().unwrap_or(0) == n
        };
        world.local.until("they wait", is_so).await;
    };
    n_waiting(1).await;
    let other = Ca::new("new clients");
    other.write(world.folder.path(), "clients.pem");
    world.local.server.reload();
    let answer = tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap();
    assert!(status(&answer) == 401 && answer.contains("not trusted any more"), "{answer}");
    n_waiting(0).await;
    let ended = tokio::time::timeout(PATIENCE, async {
        // Whatever it asks, it ends.
        while !ask(&mut holder, HEALTH).await.is_empty() {}
    });
    ended.await.expect("the old connection goes on");
    assert!(clients.ask(Some(&client), HEALTH).await.is_err());
    let renewed = other.issue(&["dns:web-1"]);
    assert_eq!(clients.ask(Some(&renewed), &look(None)).await, Ok(200));
    clients.world.local.stop().await;
}

#[tokio::test]
async fn a_lease_belongs_to_the_name_in_the_certificate() {
    let clients = Clients::new("principal = \"dns\"").await;
    let client = clients.ca.issue(&["dns:web-1"]);
    let config = config(&clients.world.ca, BOTH, Some(&client));
    let mut stream = connect(clients.world.https(), config).await.unwrap();
    let answer = ask(&mut stream, &crate::acquire("db", "one", 0)).await;
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
        leasehold_server::auth::Policy::load(&file).map(drop)
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
