//! Tests of warnings about auth settings that are allowed but probably a mistake. A warning names its file and line.

use std::path::Path;

use leasehold_auth::{Policy, Surroundings};
use leasehold_testkit::{Ca, folder};

/// 2026-11-16T00:00:00Z
const NOW_MS: i64 = 1_794_787_200_000;

const KEYS: &str = "[[key]]\nname = \"ci\"\nid = \"a\"\nsha256 = \"HASH\"\n\
    [[key]]\nname = \"old\"\nid = \"b\"\nsha256 = \"HASH\"\nexpires = 2026-11-15T00:00:00Z\n";

/// Returns the warnings about an auth file with these lines. The first of them is line 3 of the file.
fn told(lines: &str, change: impl FnOnce(&mut Surroundings)) -> Vec<String> {
    let folder = folder();
    let file = folder.path().join("auth.toml");
    Ca::new("clients").write(folder.path(), "clients.pem");
    let keys = KEYS.replace("HASH", &"0".repeat(64));
    std::fs::write(folder.path().join("keys.toml"), keys).expect("a file");
    std::fs::write(folder.path().join("secret"), "0123456789abcdef").expect("a file");
    std::fs::write(folder.path().join("empty.json"), "{\"keys\":[]}").expect("a file");
    std::fs::write(&file, format!("version = 1\nkey-files = [\"keys.toml\"]\n{lines}"))
        .expect("a file");
    let mut around = Surroundings {
        unix_paths: vec!["/run/a.sock".into()],
        has_tls: true,
        files_namespace: Some("files".into()),
        content_namespaces: vec!["states".into()],
        wall_ms: NOW_MS,
    };
    change(&mut around);
    let policy = Policy::load(&file).unwrap_or_else(|why| panic!("{why}\n{lines}"));
    let told = policy.doubts(&file, &around).expect("the same files");
    let shown = |why: String| why.replace(&folder.path().join("").display().to_string(), "");
    told.into_iter().map(shown).collect()
}

/// Matches warnings about the key file, which appear in every test.
fn of_keys(why: &str) -> bool {
    why.starts_with("keys.toml")
}

fn rule(who: &str, more: &str) -> String {
    format!("[[rule]]\nname = \"r\"\n{who}\nmay = [\"acquire\"]\n{more}\n")
}

const SHOP: &str = "namespaces = [\"shop\"]";
const MTLS: &str = "[mtls]\nca-file = \"clients.pem\"\nprincipal = \"dns\"\n";
const PROXY: &str = "[proxy]\nuser-header = \"X-User\"\nfrom = [\"unix:/run/a.sock\"]\n";
const OIDC: &str =
    "[[oidc]]\nname = \"oidc\"\nissuer = \"https://id.example.org\"\naudiences = [\"leasehold\"]\n";

#[test]
fn what_is_meant_is_not_doubted() {
    let all = format!(
        "public-url = \"https://locks.example.org\"\n{MTLS}{OIDC}{PROXY}groups-header = \"X-Groups\"\n{}{}{}",
        rule(
            "who = [\"key:ci\", \"oidc:alice\", \"proxy:*\", \"mtls:web-1\", \"anonymous\"]",
            SHOP
        ),
        "[[rule]]\nname = \"files\"\ngroups = [\"oidc:a\", \"proxy:b\"]\nmay = [\"files-write\"]\n\
         namespaces = [\"files\"]\nlocks = [\"/a/*\"]\n",
        "[[quota]]\nwho = [\"key:ci\"]\nleases = 1\n[[quota]]\nwho = [\"*\"]\nleases = 2\n\
         [[quota]]\nwho = [\"anonymous\"]\nleases = 3\n[[quota]]\nnamespaces = [\"shop\"]\nleases = 4\n",
    );
    let told = told(&all, |_| {});
    assert!(told.iter().all(|why| of_keys(why)), "{told:#?}");
}

/// Checks that each case causes the expected warning, and at most one other that follows from it.
fn check(cases: &[(String, &str)]) {
    for (lines, expected) in cases {
        let told: Vec<_> = told(lines, |_| {}).into_iter().filter(|why| !of_keys(why)).collect();
        assert!(told.iter().any(|why| why.starts_with(expected)), "{expected}\n{told:#?}");
        assert!(told.len() <= 2, "{expected}\n{told:#?}");
    }
}

#[test]
fn an_issuer_without_keys_is_told() {
    check(&[(
        format!("{OIDC}jwks-file = \"empty.json\"\n"),
        "auth.toml:7: oidc \"oidc\": jwks-file: it has no key",
    )]);
}

#[test]
fn principals_and_groups_that_cannot_exist_are_reported() {
    check(&[
        (
            rule("who = [\"key:cii\"]", SHOP),
            "auth.toml:5: rule \"r\": no key has the name \"cii\" (key-files)",
        ),
        (rule("who = [\"key:cx*\"]", SHOP), "auth.toml:5: rule \"r\": no key has the name \"cx*\""),
        (
            rule("who = [\"key:old\"]", SHOP),
            "auth.toml:5: rule \"r\": all keys with the name \"old\" have expired",
        ),
        (
            rule("who = [\"oicd:a\"]", SHOP),
            "auth.toml:5: rule \"r\": no principal begins with \"oicd:\"",
        ),
        (
            rule("who = [\"mtls:a\"]", SHOP),
            "auth.toml:5: rule \"r\": no principal begins with \"mtls:\"",
        ),
        (
            rule("who = [\"proxy:a\"]", SHOP),
            "auth.toml:5: rule \"r\": no principal begins with \"proxy:\"",
        ),
        (
            rule("who = [\"key:*-ci\"]", SHOP),
            "auth.toml:5: rule \"r\": \"key:*-ci\": only a * at the end",
        ),
        (
            rule("groups = [\"key:ci\"]", SHOP),
            "auth.toml:5: rule \"r\": no principal can have the group \"key:ci\": keys and certificates have no groups",
        ),
        (
            format!("{PROXY}{}", rule("groups = [\"proxy:a\"]", SHOP)),
            "auth.toml:8: rule \"r\": no principal can have the group \"proxy:a\": the proxy sends no groups",
        ),
        (
            format!("{}{}", MTLS.replace("dns", "none"), rule("who = [\"mtls:a\"]", SHOP)),
            "auth.toml:8: rule \"r\": certificates identify no principal: [mtls] has principal = \"none\"",
        ),
        (
            format!("{MTLS}{}", rule("who = [\"mtls:spiffe://a/b\"]", SHOP)),
            "auth.toml:8: rule \"r\": \"spiffe://a/b\" is a URI, but [mtls] has principal = \"dns\"",
        ),
        (
            format!("{}{}", MTLS.replace("dns", "uri"), rule("who = [\"mtls:web-1\"]", SHOP)),
            "auth.toml:8: rule \"r\": \"web-1\" is not a URI",
        ),
    ]);
}

#[test]
fn patterns_and_names_that_are_hardly_meant_are_told() {
    check(&[
        (
            rule("who = [\"key:ci\"]", "namespaces = [\n\"a\",\n\"shop*\"]"),
            "auth.toml:9: rule \"r\": \"shop*\" also matches names such as \"shopping\"",
        ),
        (
            rule("who = [\"key:ci\"]", "namespaces = [\"a\", \"\"]"),
            "auth.toml:7: rule \"r\": \"\" matches nothing",
        ),
        (
            rule("who = [\"key:ci\"]", "namespaces = [\"a\"]\nlocks = [\"x*y\"]"),
            "auth.toml:8: rule \"r\": \"x*y\": only a * at the end",
        ),
        (
            rule("who = [\"key:ci\"]", SHOP) + &rule("who = [\"key:ci\"]", SHOP),
            "auth.toml:8: rule \"r\": the rule in line 3 has the same name",
        ),
        (
            rule("who = [\"key:ci\"]", SHOP).replace("acquire", "files-read"),
            "auth.toml:6: rule \"r\": files-read has no effect: files are in the namespace \"files\"",
        ),
        (
            rule("who = [\"key:ci\"]", "namespaces = [\"files\"]\nlocks = [\"a/*\"]")
                .replace("acquire", "files-write"),
            "auth.toml:8: rule \"r\": files-write has no effect: file locks begin with /",
        ),
    ]);
}

#[test]
fn proxies_urls_and_quotas_without_effect_are_told() {
    check(&[
        (
            PROXY.replace("/run/a.sock", "/run/b.sock"),
            "auth.toml:5: proxy: from: the server does not listen on unix:/run/b.sock",
        ),
        (
            PROXY.replace("unix:/run/a.sock", "mtls:proxy-1"),
            "auth.toml:5: proxy: from: \"mtls:proxy-1\" has no effect: there is no [mtls]",
        ),
        (
            "public-url = \"http://locks.example.org\"\n".into(),
            "auth.toml:3: public-url: browsers keep the sign-in cookie only for https://",
        ),
        (
            "[[quota]]\nwho = [\"*\"]\nleases = 1\n[[quota]]\nwho = [\"key:ci\"]\nleases = 2\n".into(),
            "auth.toml:6: quota: has no effect: the quota in line 3 matches the same requests",
        ),
        (
            "[[quota]]\nnamespaces = [\"s*\"]\nleases = 1\n[[quota]]\nnamespaces = [\"shop\"]\nleases = 2\n".into(),
            "auth.toml:6: quota: has no effect: the quota in line 3 matches the same requests",
        ),
        (
            "[[quota]]\nwho = [\"key:unknown\"]\nleases = 1\n".into(),
            "auth.toml:4: quota: no key has the name \"unknown\"",
        ),
    ]);
}

#[test]
fn what_the_settings_leave_without_effect_is_told() {
    let plain = told(MTLS, |around| around.has_tls = false);
    assert!(
        plain[0].starts_with("auth.toml:4: [mtls] has no effect: no --listen begins"),
        "{plain:?}"
    );
    let files =
        rule("who = [\"key:ci\"]", "namespaces = [\"files\"]").replace("acquire", "files-read");
    let off = told(&files, |around| around.files_namespace = None);
    assert!(off[0].contains("files-read has no effect: --dialects has no files"), "{off:?}");
    // The files rights also apply to Terraform states.
    let states = files.replace("\"files\"", "\"states\"");
    assert!(told(&states, |_| {}).iter().all(|why| of_keys(why)));
    let off = told(&states, |around| around.content_namespaces.clear());
    assert!(off[0].contains("files-read has no effect: files are in"), "{off:?}");
}

#[test]
fn keys_that_do_nothing_are_told() {
    let told = told(&rule("who = [\"key:ci\"]", SHOP), |_| {});
    assert_eq!(
        told,
        [
            "keys.toml:7: key \"old\", id b: has expired",
            "keys.toml:6: key \"old\": no rule names key:old, so it has no rights"
        ]
    );
    let folder = folder();
    let file = folder.path().join("auth.toml");
    std::fs::write(&file, "version = 1\n").expect("a file");
    let policy = Policy::load(Path::new(&file)).expect("a policy");
    let told = policy.doubts(&file, &Surroundings::default()).expect("the same file");
    assert!(told[0].contains("auth.toml:1: no client can authenticate"), "{told:?}");
}
