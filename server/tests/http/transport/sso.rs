//! Tests of an authenticating proxy that the server recognizes by its Unix socket or its certificate. Also tests
//! cookies over TLS.

use leasehold_auth::NewKey;
use leasehold_server::http::Listen;
use leasehold_testkit::Ca;
use tokio::net::UnixStream;

use crate::transport::{BOTH, World, ask, config, connect, status};

fn rules(more: &str) -> String {
    format!(
        "version = 1\nkey-files = [\"keys.toml\"]\n{more}\n\
         [[rule]]\nname = \"bob\"\nwho = [\"proxy:bob\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\n\
         [[rule]]\nname = \"ci\"\nwho = [\"key:ci\", \"mtls:proxy-1\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\n"
    )
}

/// Starts a server with this auth file, an API key of `ci` and a CA for clients.
async fn world(more: impl Fn(&std::path::Path) -> String) -> (World, Ca, NewKey) {
    let (ca, key) = (Ca::new("clients"), NewKey::draw());
    let world = World::with(|settings, folder| {
        ca.write(folder, "clients.pem");
        let NewKey { id, sha256, .. } = &key;
        let keys = format!("[[key]]\nname = \"ci\"\nid = \"{id}\"\nsha256 = \"{sha256}\"\n");
        std::fs::write(folder.join("keys.toml"), keys).unwrap();
        std::fs::write(folder.join("auth.toml"), rules(&more(folder))).unwrap();
        settings.auth_file = Some(folder.join("auth.toml"));
        settings.listen.push(Listen::Unix(folder.join("sso.sock")));
        settings.listen.push(Listen::Unix(folder.join("other.sock")));
    })
    .await;
    (world, ca, key)
}

fn look(headers: &str) -> String {
    format!("GET /v1/locks/x HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

#[tokio::test]
async fn a_proxy_is_known_by_its_unix_socket_and_by_no_other() {
    let (world, _, key) = world(|folder| {
        let path = folder.join("sso.sock");
        format!("[proxy]\nuser-header = \"X-Remote-User\"\nfrom = [\"unix:{}\"]", path.display())
    })
    .await;
    let by = async |socket: &str, headers: &str| {
        let mut stream = UnixStream::connect(world.folder.path().join(socket)).await.unwrap();
        status(&ask(&mut stream, &look(headers)).await)
    };
    let bearer = format!("Authorization: Bearer {}\r\n", key.text);
    for (socket, headers, expected) in [
        ("sso.sock", "X-Remote-User: bob\r\n", 200),
        ("sso.sock", "X-Remote-User: carol\r\n", 403),
        ("sso.sock", "X-Remote-User: bob\r\nX-Remote-User: bob\r\n", 401),
        ("sso.sock", "", 401),
        ("other.sock", "X-Remote-User: bob\r\n", 401),
    ] {
        assert_eq!(by(socket, headers).await, expected, "{socket} {headers}");
    }
    let both = format!("X-Remote-User: bob\r\n{bearer}");
    assert_eq!(by("sso.sock", &both).await, 401, "two principals");
    assert_eq!(by("other.sock", &both).await, 200, "the header is only a header");
    let mut tcp = tokio::net::TcpStream::connect(world.local.address).await.unwrap();
    assert_eq!(status(&ask(&mut tcp, &look("X-Remote-User: bob\r\n")).await), 401);
    world.local.stop().await;
}

#[tokio::test]
async fn a_proxy_is_known_by_its_certificate_which_then_says_nothing_of_who_asks() {
    let (world, ca, _) = world(|_| {
        "[mtls]\nca-file = \"clients.pem\"\nprincipal = \"dns\"\n\
         [proxy]\nuser-header = \"X-Remote-User\"\nfrom = [\"mtls:proxy-1\"]"
            .into()
    })
    .await;
    let by = async |names: Option<&str>, headers: &str| {
        let client = names.map(|name| ca.issue(&[name]));
        let config = config(&world.ca, BOTH, client.as_ref());
        let mut stream = connect(world.https(), config).await.unwrap();
        let answer = ask(&mut stream, &look(headers)).await;
        (status(&answer), answer)
    };
    let bob = "X-Remote-User: bob\r\n";
    for (name, headers, expected) in [
        (Some("dns:proxy-1"), bob, 200),
        (Some("dns:proxy-1"), "X-Remote-User: carol\r\n", 403),
        (Some("dns:proxy-1"), "", 200),
        (Some("dns:proxy-1"), "X-Remote-User: (null)\r\n", 401),
        (Some("dns:proxy-2"), bob, 403),
        (None, bob, 401),
    ] {
        let (status, answer) = by(name, headers).await;
        assert_eq!(status, expected, "{name:?} {headers}: {answer}");
    }
    let (_, carol) = by(Some("dns:proxy-1"), "X-Remote-User: carol\r\n").await;
    assert!(carol.contains("proxy:carol may not"), "{carol}");
    let (_, other) = by(Some("dns:proxy-2"), bob).await;
    assert!(other.contains("mtls:proxy-2 may not"), "{other}");
    world.local.stop().await;
}

#[tokio::test]
async fn a_user_signs_in_over_tls_and_the_cookie_counts_there() {
    let (world, _, key) = world(|_| "public-url = \"https://locks.example.org\"".into()).await;
    let form = format!("key={}", key.text);
    let sign_in = format!(
        "POST /console/sign-in HTTP/1.1\r\nHost: locks.example.org\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    // By its public name and without TLS, a listener on the network could read the key and the cookie.
    let mut tcp = tokio::net::TcpStream::connect(world.local.address).await.unwrap();
    assert_eq!(status(&ask(&mut tcp, &sign_in).await), 400);
    let mut tls = world.connect().await;
    let answer = ask(&mut tls, &sign_in).await;
    assert_eq!(status(&answer), 303, "{answer}");
    let cookie =
        answer.split("set-cookie: ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    let look =
        format!("GET /v1/locks/x HTTP/1.1\r\nHost: locks.example.org\r\nCookie: {cookie}\r\n\r\n");
    assert_eq!(status(&ask(&mut tls, &look).await), 200);
    let mut tcp = tokio::net::TcpStream::connect(world.local.address).await.unwrap();
    assert_eq!(status(&ask(&mut tcp, &look).await), 401, "in the clear it is refused");
    world.local.stop().await;
}

#[tokio::test]
async fn an_address_claimed_by_an_untrusted_peer_is_not_a_proxys() {
    let proxy = "[proxy]\nuser-header = \"X-Remote-User\"\nfrom = [\"127.0.0.0/8\"]\n\
                 secret-header = \"X-Proxy-Secret\"\nsecret-file = \"secret\"";
    let world = World::with(|settings, folder| {
        std::fs::write(folder.join("secret"), "hush-hush-hush-hush").unwrap();
        std::fs::write(folder.join("keys.toml"), "key = []\n").unwrap();
        std::fs::write(folder.join("auth.toml"), rules(proxy)).unwrap();
        settings.auth_file = Some(folder.join("auth.toml"));
        let relay = leasehold_server::http::parse_network("127.0.0.7").unwrap();
        settings.http.proxy_protocol_from = [relay].into();
    })
    .await;
    let request = look("X-Remote-User: bob\r\nX-Proxy-Secret: hush-hush-hush-hush\r\n");
    let from = async |source: [u8; 4], header: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        let mut stream = socket.connect(world.local.address).await.unwrap();
        status(&ask(&mut stream, &format!("{header}{request}")).await)
    };
    assert_eq!(from([127, 0, 0, 5], "").await, 200, "the proxy itself");
    let header = "PROXY TCP4 127.0.0.5 127.0.0.1 1 2\r\n";
    assert_eq!(from([127, 0, 0, 7], header).await, 401, "its address in a header");
    world.local.stop().await;
}
