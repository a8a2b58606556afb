//! Tests of API keys: accepted forms, unknown keys, expired keys.

use leasehold_auth::{Bounds, Gate, NewKey};
use leasehold_testkit::Value;

use crate::auth::{RULES, Scene, acquire, write_keys};

const LOOK: &str = "GET /v1/locks/x";

#[tokio::test]
async fn a_key_is_a_bearer_token_or_the_password_of_basic() {
    let scene = Scene::new().await;
    let key = &scene.keys["reader"].text;
    let basic = |text: &str| format!("Basic {}", base64(text.as_bytes()));
    for value in [
        format!("Bearer {key}"),
        format!("bearer {key}"),
        basic(&format!("anything:{key}")),
        basic(&format!(":{key}")),
    ] {
        assert_eq!(scene.status(&[("authorization", &value)], LOOK, "").await, 200, "{value}");
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_bad_credential_is_always_refused_and_tells_nothing() {
    let scene = Scene::new().await;
    let key = &scene.keys["reader"];
    let (id, other) = (&key.id, NewKey::draw());
    let good = format!("Bearer {}", key.text);
    let wrong_secret = format!("Bearer lh_{id}_{}", &other.text[14..]);
    for value in [
        wrong_secret.clone(),
        format!("Bearer {}", other.text),
        format!("Bearer lh_{id}_"),
        format!("Bearer lh_{id}"),
        format!("Bearer {}x", key.text),
        "Bearer ".into(),
        "Bearer eyJhbGciOiJub25lIn0.e30.".into(),
        "Basic !!!".into(),
        format!("Basic {}", base64(b"u:p")),
        format!("Negotiate {}", key.text),
        format!("Bearer lh_{}", "a".repeat(20_000)),
    ] {
        let (status, _) = scene.head(&[("authorization", &value)], LOOK, "").await;
        assert_eq!(status, 401, "{}", &value[..value.len().min(60)]);
        // A wrong credential is refused on public pages too. Only health checks ignore it.
        assert_eq!(scene.status(&[("authorization", &value)], "GET /docs", "").await, 401);
    }
    let doubled = [("authorization", good.as_str()), ("authorization", good.as_str())];
    assert_eq!(scene.status(&doubled, LOOK, "").await, 401);
    let message = |value: String| {
        let client = scene.local.client.clone();
        async move {
            let headers = [("authorization", value.as_str())];
            let sent = client.send_with(hyper::Method::GET, "/v1/locks/x", &headers, "");
            sent.await.expect("an answer").text
        }
    };
    let unknown = message(format!("Bearer {}", other.text)).await;
    assert_eq!(message(wrong_secret).await, unknown, "a wrong id and a wrong secret look alike");
    assert!(unknown.contains("unknown API key"), "{unknown}");
    for (sent, why) in [
        (format!("Basic {}", base64(b"u:p")), "the Basic credential's password is not"),
        ("Bearer some-token".into(), "unknown credential; accepted: an API key ("),
    ] {
        let said = message(sent).await;
        assert!(said.contains(why), "{said}");
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_key_expires_by_the_wall_clock() {
    let scene = Scene::new().await;
    scene.local.clock.set_wall_ms(1_000_000_000_000);
    write_keys(scene.file("keys.toml"), &scene.keys, "expires = 2001-09-09T01:46:41Z");
    scene.local.server.reload();
    // The key is still valid until its expiry time.
    assert_eq!(scene.send("reader", LOOK, Value::Null).await.status, 200);
    scene.local.clock.set_wall_ms(1_000_000_001_000);
    scene
        .local
        .until("the key has expired", async |_| {
            scene.send("reader", LOOK, Value::Null).await.status == 401
        })
        .await;
    scene.stop().await;
}

/// Invalid auth files, and the expected error message.
const MISTAKES: &[(&str, &str)] = &[
    ("", "/auth.toml:1: missing field `version`"),
    ("version = 2\n", "/auth.toml:1: version must be 1"),
    ("version = 1\nrules = []\n", "/auth.toml:2: unknown field `rules`"),
    (
        "version = 1\npublic = [\"all\"]\n",
        "/auth.toml:2: public: unknown \"all\"; allowed: metrics, docs",
    ),
    (
        "version = 1\n[[rule]]\nname = \"r\"\nwho = [\"ci\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\n",
        "/auth.toml:4: rule \"r\": \"ci\" is not a valid principal; use key:NAME, OIDCNAME:SUB, proxy:USER, ",
    ),
    (
        "version = 1\n[[rule]]\nname = \"r\"\nmay = [\"read\"]\nnamespaces = [\"*\"]\n",
        "/auth.toml:2: rule \"r\": who or groups is required",
    ),
    (
        "version = 1\n[[rule]]\nname = \"r\"\nwho = [\"*\"]\nmay = [\"read\"]\n",
        "/auth.toml:2: missing field `namespaces`",
    ),
    (
        "version = 1\n[[rule]]\nname = \"r\"\nwho = [\"key:\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\n",
        "/auth.toml:4: rule \"r\": \"key:\" is not a valid principal; use key:NAME, OIDCNAME:SUB, proxy:USER, ",
    ),
    (
        "version = 1\n[[rule]]\nname = \"r\"\nwho = [\":x\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\n",
        "/auth.toml:4: rule \"r\": \":x\" is not a valid principal",
    ),
    (
        "version = 1\n[[rule]]\nname = \"r\"\nwho = [\"*\"]\nmay = [\"read\"]\nnamespaces = []\n",
        "/auth.toml:2: rule \"r\": namespaces must not be empty; [\"*\"] matches all",
    ),
    (
        "version = 1\n[[rule]]\nname = \"r\"\nwho = [\"*\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\nlocks = []\n",
        "/auth.toml:2: rule \"r\": locks must not be empty; [\"*\"] matches all",
    ),
    ("version = 1\n[[quota]]\nwho = [\"*\"]\n", "/auth.toml:2: quota: requests-per-second, leases"),
    ("version = 1\n[[quota]]\nleases = 1\n", "/auth.toml:2: quota: who or namespaces is required"),
    ("version = 1\n[[quota]]\nwho = []\nleases = 1\n", "/auth.toml:2: quota: who or namespaces is"),
    (
        "version = 1\n[[quota]]\nnamespaces = []\nleases = 1\n",
        "/auth.toml:2: quota: who or namespaces is",
    ),
    (
        "version = 1\n[[quota]]\nwho = [\"ci\"]\nleases = 1\n",
        "/auth.toml:3: quota: \"ci\" is not a valid principal",
    ),
    (
        "version = 1\n[[quota]]\nwho = [\"*\"]\nnamespaces = [\"a\"]\nleases = 1\n",
        "/auth.toml:2: quota: has who and namespaces",
    ),
    (
        "version = 1\n[[quota]]\nnamespaces = [\"a\"]\nrequests-per-second = 1\n",
        "/auth.toml:2: quota: requests-per-second needs who",
    ),
    (
        "version = 1\nkey-files = [\"gone.toml\"]\n",
        "/auth.toml:2: key-files: /gone.toml: No such file",
    ),
];

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    use std::os::unix::fs::PermissionsExt;
    let folder = leasehold_testkit::folder();
    let file = folder.path().join("auth.toml");
    let told = |text: &str| {
        std::fs::write(&file, text).expect("a file");
        let told =
            Gate::load(&file, Bounds::DEFAULT).err().unwrap_or_else(|| panic!("accepted: {text}"));
        told.replace(&folder.path().display().to_string(), "")
    };
    let rule = |may: &str| {
        format!(
            "version = 1\n\n[[rule]]\nname = \"ci shop\"\nwho = [\"key:a\"]\nmay = [{may}]\nnamespaces = [\"shop\"]\n"
        )
    };
    assert_eq!(
        told(&rule("\"read\", \"aquire\"")),
        "/auth.toml:6: rule \"ci shop\": unknown right \"aquire\"; allowed: read, acquire, revoke, files-read, \
         files-write, admin"
    );
    for (text, expected) in MISTAKES {
        let told = told(text);
        assert!(told.starts_with(*expected), "{told}\nexpected {expected}");
    }
    for bad in [
        "locks.example.org",
        "ftp://a",
        "https://",
        "https://a/b",
        "https://u@a",
        "https://a b",
        "",
    ] {
        let told = told(&format!("version = 1\npublic-url = \"{bad}\"\n"));
        let expected = format!("/auth.toml:2: public-url: {bad:?} must be https://HOST");
        assert!(told.starts_with(&expected), "{told}");
    }
    for good in ["https://locks.example.org", "http://[::1]:8080", "https://a/"] {
        let text = format!("version = 1\npublic-url = \"{good}\"\n");
        std::fs::write(&file, text).expect("a file");
        assert!(Gate::load(&file, Bounds::DEFAULT).is_ok(), "{good}");
    }
    std::fs::write(&file, RULES.replace("keys.toml", "k.toml")).expect("a file");
    let keys = folder.path().join("k.toml");
    for (text, expected) in [
        ("[[key]]\nname = \"a\"\nid = \"b\"\nsha256 = \"00\"\n", "/k.toml:4: sha256: must be 64"),
        ("[[key]]\nname = \"a\"\n", "/k.toml:1: missing field `id`"),
        ("", "/k.toml:1: missing field `key`"),
    ] {
        std::fs::write(&keys, text).expect("a file");
        let told = Gate::load(&file, Bounds::DEFAULT).err().expect("a mistake");
        let told = told.replace(&folder.path().display().to_string(), "");
        assert!(told.starts_with(expected), "{told}\nexpected {expected}");
    }
    std::fs::write(&keys, "key = []\n").expect("a file");
    assert!(Gate::load(&file, Bounds::DEFAULT).is_ok());
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o620)).expect("rights");
    let told = Gate::load(&file, Bounds::DEFAULT).err().expect("a mistake");
    assert!(told.contains("other users can write to it"), "{told}");
}

#[tokio::test]
async fn no_credential_is_anonymous_who_has_what_rules_give() {
    let rules = RULES.to_owned()
        + "[[rule]]\nname = \"guests\"\nwho = [\"anonymous\"]\nmay = [\"read\"]\n"
        + "namespaces = [\"default\"]\nlocks = [\"public/*\"]\n";
    let scene = Scene::with(&rules, &crate::auth::NAMES, |_| {}).await;
    assert_eq!(scene.send("", "GET /v1/locks/public%2Fx", Value::Null).await.status, 200);
    assert_eq!(scene.send("", LOOK, Value::Null).await.status, 401);
    assert_eq!(scene.send("", "POST /v1/locks/public%2Fx/acquire", acquire("o")).await.status, 401);
    // `*` stands for every authenticated principal. Anonymous clients are not included.
    let rules = RULES.to_owned()
        + "[[rule]]\nname = \"all\"\nwho = [\"*\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\n";
    std::fs::write(scene.file("auth.toml"), rules).expect("a file");
    scene.local.server.reload();
    scene
        .local
        .until("the new rules are in force", async |_| {
            scene.send("nothing", LOOK, Value::Null).await.status == 200
        })
        .await;
    assert_eq!(scene.send("", LOOK, Value::Null).await.status, 401);
    scene.stop().await;
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for piece in bytes.chunks(3) {
        let number = piece.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte))
            << (8 * (3 - piece.len()));
        for n in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * n) & 63) as usize] as char;
            text.push(if n <= piece.len() { letter } else { '=' });
        }
    }
    text
}
