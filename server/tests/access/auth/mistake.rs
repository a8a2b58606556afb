//! Tests that an error in `[[oidc]]` or `[proxy]` is reported with its line.

use leasehold_auth::{Bounds, Gate};

const PUBLIC: &str = "version = 1\npublic-url = \"https://locks.example.org\"\n";

/// Loads an auth file with these lines; the first of them is line 3. Returns the error message.
fn told(lines: &str) -> Result<(), String> {
    let folder = leasehold_testkit::folder();
    let file = folder.path().join("auth.toml");
    std::fs::write(&file, format!("{PUBLIC}{lines}")).expect("a file");
    for (name, text) in
        [("secret", "0123456789abcdef"), ("short", "0123"), ("spaced", "0123456789 abcdef")]
    {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    std::fs::write(folder.path().join("jwks.json"), "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AA\"}]}")
        .expect("a file");
    std::fs::write(folder.path().join("broken.json"), "{\"keys\":\n[}").expect("a file");
    let told = Gate::load(&file, Bounds::DEFAULT).map(drop);
    told.map_err(|why| why.replace(&folder.path().display().to_string(), ""))
}

fn oidc(more: &str) -> String {
    format!(
        "[[oidc]]\nname = \"oidc\"\nissuer = \"https://id.example.org\"\naudiences = [\"leasehold\"]\n{more}\n"
    )
}

#[test]
fn mistakes_in_oidc_are_told_with_their_line() {
    assert_eq!(told(&oidc("")), Ok(()));
    let all = "algorithms = [\"RS256\", \"ES256\"]\nleeway = \"30s\"\n\
        principal-claim = \"sub\"\ngroups-claim = \"groups\"\n\
        introspection = { url = \"https://id.example.org/introspect\", client-id = \"lh\", secret-file = \"secret\" }\n\
        login = { client-id = \"lh-console\", secret-file = \"secret\", session = \"12h\" }";
    assert_eq!(told(&oidc(all)), Ok(()), "everything there is");
    for (more, expected) in [
        (
            "algorithms = [\"HS256\"]",
            "/auth.toml:7: oidc \"oidc\": algorithms: unknown algorithm \"HS256\"; allowed: RS256,",
        ),
        (
            "algorithms = [\"none\"]",
            "/auth.toml:7: oidc \"oidc\": algorithms: unknown algorithm \"none\"",
        ),
        ("algorithms = []", "/auth.toml:4: oidc \"oidc\": algorithms: must not be empty"),
        ("leeway = \"30\"", "/auth.toml:7: oidc \"oidc\": leeway: \"30\" is not a duration"),
        ("leeway = \"1h\"", "/auth.toml:7: oidc \"oidc\": leeway: \"1h\" is not a duration"),
        (
            "jwks-url = \"http://id.example.org/jwks\"",
            "/auth.toml:7: oidc \"oidc\": jwks-url: \"http://id.example.org/jwks\" must be https",
        ),
        (
            "jwks-file = \"jwks.json\"",
            "/auth.toml:7: oidc \"oidc\": jwks-file: /jwks.json has no key for signatures",
        ),
        (
            "jwks-file = \"gone.json\"",
            "/auth.toml:7: oidc \"oidc\": jwks-file: /gone.json: No such file",
        ),
        (
            "jwks-file = \"broken.json\"",
            "/auth.toml:7: oidc \"oidc\": jwks-file: /broken.json is not JSON: line 2",
        ),
        (
            "login = { client-id = \"c\", secret-file = \"gone\" }",
            "/auth.toml:7: oidc \"oidc\": login: secret-file: /gone: No such file",
        ),
        (
            "introspection = { url = \"https://x/\", client-id = \"a\", secret-file = \"gone\" }",
            "/auth.toml:7: oidc \"oidc\": introspection.secret-file: /gone: No such file",
        ),
        (
            "jwks-url = \"https://x/\"\njwks-file = \"jwks.json\"",
            "/auth.toml:8: oidc \"oidc\": jwks-url and jwks-file",
        ),
        (
            "introspection = { url = \"http://x/\", client-id = \"a\", secret-file = \"secret\" }",
            "/auth.toml:7: oidc \"oidc\": introspection.url: \"http://x/\" must be https",
        ),
        (
            "introspection = { url = \"https://x/\", client-id = \"a\" }",
            "/auth.toml:7: missing field `secret-file`",
        ),
        (
            "login = { client-id = \"leasehold\" }",
            "/auth.toml:7: oidc \"oidc\": login: client-id must not be one of the audiences",
        ),
        (
            "login = { client-id = \"c\", session = \"1s\" }",
            "/auth.toml:7: oidc \"oidc\": login.session: \"1s\"",
        ),
        ("audience = \"x\"", "/auth.toml:7: unknown field `audience`"),
    ] {
        let told = told(&oidc(more)).expect_err(more);
        assert!(told.starts_with(expected), "{told}\nexpected {expected}");
    }
}

#[test]
fn no_two_issuers_are_one() {
    for (lines, expected) in [
        (
            oidc("").replace("\"oidc\"", "\"key\""),
            "/auth.toml:4: oidc \"key\": name: \"key\" is the prefix of other principals",
        ),
        (oidc("").replace("\"oidc\"", "\"a:b\""), "/auth.toml:4: oidc \"a:b\": name: must be"),
        (
            oidc("").replace("https:", "http:"),
            "/auth.toml:5: oidc \"oidc\": issuer: \"http://id.example.org\" must be https",
        ),
        (
            oidc("").replace("[\"leasehold\"]", "[]"),
            "/auth.toml:6: oidc \"oidc\": audiences: must contain",
        ),
        (
            oidc("") + &oidc("").replace("id.", "id2."),
            "/auth.toml:9: oidc \"oidc\": has the name of another",
        ),
        (
            oidc("") + &oidc("").replace("\"oidc\"", "\"two\""),
            "/auth.toml:10: oidc \"two\": has the issuer of another",
        ),
    ] {
        let told = told(&lines).expect_err(&lines);
        assert!(told.starts_with(expected), "{told}\nexpected {expected}");
    }
    let introspection =
        "introspection = { url = \"https://x/\", client-id = \"a\", secret-file = \"secret\" }";
    let two = oidc(introspection)
        + &oidc(introspection).replace("\"oidc\"", "\"two\"").replace("id.", "id2.");
    let why = told(&two).expect_err("two of them");
    assert!(why.contains("an opaque token does not name its issuer"), "{why}");
}

#[test]
fn signing_in_needs_to_know_the_way_back() {
    let folder = leasehold_testkit::folder();
    let file = folder.path().join("auth.toml");
    let text = format!("version = 1\n{}", oidc("login = { client-id = \"c\" }"));
    std::fs::write(&file, text).expect("a file");
    let why = Gate::load(&file, Bounds::DEFAULT).err().expect("a mistake");
    assert!(why.contains("auth.toml:6: oidc \"oidc\": login: needs public-url"), "{why}");
}

#[test]
fn mistakes_in_proxy_are_told_with_their_line() {
    let secret = "secret-header = \"X-S\"\nsecret-file = \"secret\"";
    let proxy = |from: &str, more: &str| {
        format!("[proxy]\nuser-header = \"X-Remote-User\"\nfrom = [{from}]\n{more}\n")
    };
    for (from, more) in [
        ("\"10.0.0.5\"", secret),
        ("\"10.0.0.0/8\", \"::1\"", secret),
        ("\"unix:/run/leasehold/sso.sock\"", ""),
        ("\"mtls:proxy-1\"", ""),
        ("\"unix:/a\", \"10.0.0.5\", \"mtls:a\"", secret),
    ] {
        assert_eq!(told(&proxy(from, more)), Ok(()), "{from}");
    }
    for (from, more, expected) in [
        (
            "\"10.0.0.5\"",
            "",
            "/auth.toml:3: proxy: from has an address, so secret-header and secret-file are required",
        ),
        (
            "\"10.0.0.5\"",
            "secret-header = \"X-S\"",
            "/auth.toml:3: proxy: secret-header and secret-file must be set together",
        ),
        (
            "\"10.0.0.5\"",
            "secret-header = \"X-S\"\nsecret-file = \"short\"",
            "/auth.toml:7: proxy: secret-file: /short: the secret is shorter than 16 bytes",
        ),
        (
            "\"10.0.0.5\"",
            "secret-header = \"X-S\"\nsecret-file = \"spaced\"",
            "/auth.toml:7: proxy: secret-file: /spaced: the secret must be printable",
        ),
        ("", secret, "/auth.toml:5: proxy: from must contain"),
        (
            "\"unix:sock\"",
            "",
            "/auth.toml:5: proxy: from: unix: must be followed by an absolute path",
        ),
        ("\"mtls:\"", "", "/auth.toml:5: proxy: from: mtls: must be followed"),
        (
            "\"proxy.example\"",
            secret,
            "/auth.toml:5: proxy: from: \"proxy.example\" is neither an address",
        ),
        ("\"mtls:a\"", "groups-separator = \"\"", "/auth.toml:3: proxy: groups-separator"),
        (
            "\"mtls:a\"",
            "groups-header = \"x-remote-user\"",
            "/auth.toml:3: proxy: two of its headers",
        ),
        (
            "\"mtls:a\"",
            "groups-header = \"Cookie\"",
            "/auth.toml:6: proxy: \"Cookie\" cannot be used: it must be a dedicated header",
        ),
        (
            "\"mtls:a\"",
            "groups-header = \"a b\"",
            "/auth.toml:6: proxy: \"a b\" cannot be used: it must be a dedicated header",
        ),
    ] {
        let told = told(&proxy(from, more)).expect_err(from);
        assert!(told.starts_with(expected), "{told}\nexpected {expected}");
    }
}

#[test]
fn a_group_has_a_prefix() {
    let rule =
        "[[rule]]\nname = \"r\"\ngroups = [\"payments\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\n";
    let why = told(rule).expect_err("a mistake");
    assert!(
        why.starts_with(
            "/auth.toml:5: rule \"r\": \"payments\" is not a valid group; use OIDCNAME:GROUP"
        ),
        "{why}"
    );
}
