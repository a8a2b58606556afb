//! Tests of an authenticating proxy. Its user header is trusted because of the peer address and the shared secret,
//! never on its own.

use leasehold_testkit::Value;

use crate::auth::{RULES, Scene, acquire};

const LOOK: &str = "GET /v1/locks/x";
const SECRET: &str = "proxy-secret-of-32-characters-00";

fn rules(from: &str) -> String {
    format!(
        "{RULES}\n[proxy]\nuser-header = \"X-Remote-User\"\ngroups-header = \"X-Remote-Groups\"\n\
         groups-separator = \";\"\nfrom = [{from}]\nsecret-header = \"X-Proxy-Secret\"\nsecret-file = \"proxy\"\n\
         [[rule]]\nname = \"by proxy\"\ngroups = [\"proxy:payments\"]\nmay = [\"acquire\"]\nnamespaces = [\"*\"]\n\
         [[rule]]\nname = \"bob\"\nwho = [\"proxy:bob\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\n"
    )
}

async fn scene(from: &str) -> Scene {
    let files = [("proxy", SECRET)];
    Scene::with_files(&rules(from), &["admin", "reader"], &files, |settings| {
        settings.auth.failures_per_minute = 10_000;
    })
    .await
}

#[tokio::test]
async fn the_proxy_says_who_asks_and_which_groups_they_are_in() {
    let scene = scene("\"10.0.0.5\", \"127.0.0.0/8\"").await;
    let (secret, user) = (("x-proxy-secret", SECRET), ("x-remote-user", "alice"));
    let basic = ("authorization", "Basic dTpzZWNyZXQ=");
    let key = format!("Bearer {}", scene.keys["reader"].text);
    for (headers, expected) in [
        (&[secret, user, ("x-remote-groups", "ops; payments ;")][..], 200),
        (&[secret, ("x-remote-user", "bob")], 200),
        (&[secret, user], 403),
        (&[secret, user, ("x-remote-groups", "ops,payments")], 403),
        (&[secret, user, ("x-remote-groups", "(null)")], 403),
        // Basic credentials that the user entered for the proxy are ignored.
        (&[secret, ("x-remote-user", "bob"), basic], 200),
        (&[basic], 401),
        (&[basic, ("x-remote-user", "bob")], 401),
        // The secret must be present exactly once and correct.
        (&[("x-remote-user", "bob")], 401),
        (&[("x-proxy-secret", "wrong"), ("x-remote-user", "bob")], 401),
        (&[("x-proxy-secret", ""), ("x-remote-user", "bob")], 401),
        (&[secret, secret, ("x-remote-user", "bob")], 401),
        // The user header must be present exactly once and name a user.
        (&[secret, ("x-remote-user", "bob"), ("x-remote-user", "bob")], 401),
        (&[secret, ("x-remote-user", "bob"), ("x-remote-user", "root")], 401),
        (
            &[
                secret,
                ("x-remote-user", "bob"),
                ("x-remote-groups", "a"),
                ("x-remote-groups", "payments"),
            ],
            401,
        ),
        (&[secret, ("x-remote-user", "")], 401),
        (&[secret, ("x-remote-user", "-")], 401),
        (&[secret, ("x-remote-user", "(null)")], 401),
        (&[secret, ("x_remote_user", "bob")], 401),
        (&[secret], 401),
        // A proxy user and an API key are two principals, which is refused.
        (&[secret, ("x-remote-user", "bob"), ("authorization", &key)], 401),
        (&[("x-remote-user", "bob"), ("authorization", &key)], 200),
    ] {
        assert_eq!(scene.status(headers, LOOK, "").await, expected, "{headers:?}");
    }
    let headers = [secret, user, ("x-remote-groups", "payments")];
    let body = acquire("o").to_string();
    assert_eq!(scene.status(&headers, "POST /v1/locks/x/acquire", &body).await, 200);
    let seen = scene.send("admin", LOOK, Value::Null).await;
    assert!(seen.text.contains("\"proxy:alice\""), "{}", seen.text);
    scene.stop().await;
}

#[tokio::test]
async fn the_same_headers_from_elsewhere_are_only_headers() {
    let scene = scene("\"10.0.0.5\"").await;
    let key = format!("Bearer {}", scene.keys["reader"].text);
    let forged = [
        ("x-proxy-secret", SECRET),
        ("x-remote-user", "bob"),
        ("x-remote-user", "root"),
        ("x-remote-groups", "payments"),
    ];
    assert_eq!(scene.status(&forged, LOOK, "").await, 401, "no user");
    let with_key = [&forged[..], &[("authorization", key.as_str())]].concat();
    assert_eq!(scene.status(&with_key, LOOK, "").await, 200, "and they do not matter");
    // An address in `X-Forwarded-For` does not count as the peer address here.
    let claimed = [&forged[..], &[("x-forwarded-for", "10.0.0.5")]].concat();
    assert_eq!(scene.status(&claimed, LOOK, "").await, 401);
    scene.stop().await;
}

#[tokio::test]
async fn a_session_of_files_is_opened_by_the_proxys_word() {
    let rules = rules("\"127.0.0.1\"").replace("may = [\"acquire\"]", "may = [\"files-write\"]");
    let scene = Scene::with_files(&rules, &[], &[("proxy", SECRET)], |_| {}).await;
    let headers =
        [("x-proxy-secret", SECRET), ("x-remote-user", "alice"), ("x-remote-groups", "payments")];
    let sent = scene.local.client.send_with(hyper::Method::POST, "/auth/session", &headers, "");
    let opened = sent.await.expect("an answer");
    assert_eq!(opened.status, 201, "{opened:?}");
    let session = opened.text_of("sessionId");
    // The session keeps the groups of the user who opened it.
    let written = scene.by(&session, "PUT /f.txt", Value::Bool(true)).await;
    assert!(written.status < 300, "{written:?}");
    // If the proxy also names a user, it must be the user who opened the session.
    let bearer = format!("Bearer {session}");
    let with = |user: &'static str| {
        [("x-proxy-secret", SECRET), ("x-remote-user", user), ("authorization", bearer.as_str())]
    };
    assert_eq!(scene.status(&with("alice"), "GET /f.txt", "").await, 200);
    assert_eq!(scene.status(&with("bob"), "GET /f.txt", "").await, 401);
    scene.local.advance_ms(12 * 3_600_000);
    assert_eq!(scene.by(&session, "GET /f.txt", Value::Null).await.status, 401, "twelve hours");
    scene.stop().await;
}

#[tokio::test]
async fn names_lose_spaces_and_tabs_and_no_other_blank() {
    let scene = scene("\"127.0.0.1\"").await;
    let secret = ("x-proxy-secret", SECRET);
    let status = async |user: &str, groups: &str| {
        let headers = [secret, ("x-remote-user", user), ("x-remote-groups", groups)];
        scene.status(&headers, LOOK, "").await
    };
    for bob in ["bob", " bob", "bob\t ", "\t bob"] {
        assert_eq!(status(bob, "").await, 200, "{bob:?}");
    }
    // U+00A0, U+2003, U+3000: a different user name, for which there is no rule.
    for other in ["bob\u{a0}", "\u{a0}bob", "bob\u{2003}", "\u{3000}bob"] {
        assert_eq!(status(other, "").await, 403, "{other:?}");
        let group = other.replace("bob", "payments");
        assert_eq!(status("alice", &group).await, 403, "{group:?}");
    }
    assert_eq!(status("alice", " payments\t").await, 200);
    for blank in ["\u{a0}", "\u{a0}-\u{a0}"] {
        assert_eq!(status(blank, "payments").await, 401, "{blank:?}");
    }
    scene.stop().await;
}
