//! Keys, rules and access with the real binary.

use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use leasehold_testkit::{Process, TempDir, folder};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

struct World(TempDir);

impl World {
    fn new() -> Self {
        Self(folder())
    }

    fn run(&self, words: &[&str]) -> Output {
        self.run_with(words, &[])
    }

    fn run_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = std::process::Command::new(BINARY);
        command.current_dir(self.0.path()).args(words).env_remove("LEASEHOLD_API_KEY");
        command.envs(variables.iter().copied()).output().expect("the binary")
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the key that the command printed.
fn key(output: &Output) -> String {
    let shown = text(&output.stdout);
    let key = shown.lines().find(|line| line.starts_with("lh_")).map(str::to_owned);
    key.unwrap_or_else(|| panic!("no key in {output:?}"))
}

#[tokio::test]
async fn a_server_knows_the_keys_that_were_made_for_it() {
    let world = World::new();
    let admin = key(&world.run(&["auth", "init"]));
    for name in ["auth.toml", "keys.toml"] {
        let facts = std::fs::metadata(world.path(name)).expect("a file");
        assert_eq!(facts.permissions().mode() & 0o777, 0o600, "{name}");
        let content = std::fs::read_to_string(world.path(name)).expect("text");
        assert!(!content.contains(&admin[14..]), "only a hash of the secret is kept");
    }
    assert!(!world.run(&["auth", "init"]).status.success(), "what is there is left alone");
    let auth = format!("--auth-file={}", world.path("auth.toml").display());
    let process = Process::start(BINARY, &world.path("data"), &[&auth]);
    let url = format!("http://{}", process.address);
    // Created while the server runs.
    let create = [
        "key",
        "create",
        "--name",
        "ci",
        "--may",
        "acquire",
        "--namespaces",
        "shop",
        "--expires",
        "90d",
    ];
    let ci = key(&world.run(&create));
    let listed = text(&world.run(&["key", "list"]).stdout);
    assert!(
        listed.contains("ci  id ") && listed.contains("admin  id ") && !listed.contains(&ci[14..]),
        "{listed}"
    );
    let acquire = |key: &str, namespace: &str| {
        let words = ["acquire", "deploy", "--ttl", "60", "--url", &url, "--namespace", namespace];
        world.run_with(&words, &[("LEASEHOLD_API_KEY", key)]).status.code()
    };
    let mut tries = 0;
    while acquire(&ci, "shop") != Some(0) {
        tries += 1;
        assert!(tries < 2000, "the server never knew the key");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(acquire(&ci, "other"), Some(77));
    assert_eq!(acquire("lh_a_b", "shop"), Some(77));
    let anonymous = world.run(&["ls", "--url", &url]);
    assert_eq!(anonymous.status.code(), Some(77), "anonymous");
    let said = text(&anonymous.stderr);
    assert!(said.contains("no credential was sent; accepted: an API key (Auth"), "{said}");
    let end = ["key", "revoke", "--name", "ci", "--end-leases", "--url", &url];
    let revoked = world.run_with(&end, &[("LEASEHOLD_API_KEY", &admin)]);
    let shown = text(&revoked.stdout);
    assert!(shown.contains("ended 1 leases"), "{revoked:?}");
    assert!(shown.contains(&format!("the server at {url} refuses them")), "{revoked:?}");
    assert_eq!(acquire(&ci, "shop"), Some(77), "from the moment it is said to be revoked");
    process.kill();
}

#[tokio::test]
async fn a_key_counts_as_revoked_when_the_server_says_so() {
    let world = World::new();
    let admin = key(&world.run(&["auth", "init"]));
    let auth = format!("--auth-file={}", world.path("auth.toml").display());
    let process = Process::start(BINARY, &world.path("data"), &[&auth]);
    let url = format!("http://{}", process.address);
    // A key without the right `admin` cannot check the revocation, so the command does not claim that it worked.
    let reader = key(&world.run(&["key", "create", "--name", "reader"]));
    world.run(&["key", "create", "--name", "gone"]);
    let gone = ["key", "revoke", "--name", "gone", "--url", &url];
    let mut tries = 0;
    let refused = loop {
        let refused = world.run_with(&gone, &[("LEASEHOLD_API_KEY", &reader)]);
        // Until the server has loaded the new key, it rejects it as unknown.
        if text(&refused.stderr).contains("key:reader needs the right admin") {
            break refused;
        }
        tries += 1;
        assert!(tries < 2000, "{refused:?}");
        world.run(&["key", "create", "--name", "gone"]);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("cannot tell whether the server"), "{refused:?}");
    // An admin that revokes its own key is rejected from then on, which confirms the revocation.
    let own = ["key", "revoke", "--name", "admin", "--url", &url];
    let revoked = world.run_with(&own, &[("LEASEHOLD_API_KEY", &admin)]);
    assert!(text(&revoked.stdout).contains("refuses them"), "{revoked:?}");
    process.kill();
}

#[tokio::test]
async fn a_revocation_that_stopped_half_way_is_finished_by_repeating_it() {
    let world = World::new();
    let admin = key(&world.run(&["auth", "init"]));
    let ci = ["key", "create", "--name", "ci", "--may", "acquire", "--namespaces", "*"];
    let ci = key(&world.run(&ci));
    let auth = format!("--auth-file={}", world.path("auth.toml").display());
    let process = Process::start(BINARY, &world.path("data"), &[&auth]);
    let url = format!("http://{}", process.address);
    let acquired = ["acquire", "deploy", "--ttl", "60", "--url", &url];
    assert!(world.run_with(&acquired, &[("LEASEHOLD_API_KEY", &ci)]).status.success());
    let revoke = |url: &str, credential: &[(&str, &str)], more: &[&str]| {
        let words = ["key", "revoke", "--name", "ci", "--end-leases", "--url", url];
        let words = [&words[..], more].concat();
        world.run_with(&words, credential)
    };
    // Requests that cannot work change nothing.
    let absent = revoke(&url, &[], &[]);
    assert_eq!(absent.status.code(), Some(64), "{absent:?}");
    assert!(text(&absent.stderr).contains("--end-leases needs an admin's key"), "{absent:?}");
    let own = revoke(&url, &[("LEASEHOLD_API_KEY", &ci)], &[]);
    assert_eq!(own.status.code(), Some(64), "{own:?}");
    assert!(text(&own.stderr).contains("use another admin's key"), "{own:?}");
    assert!(text(&world.run(&["key", "list"]).stdout).contains("ci  id "));
    // The server cannot be reached.
    let admin = [("LEASEHOLD_API_KEY", admin.as_str())];
    let half = revoke("http://127.0.0.1:1", &admin, &["--connect-timeout", "0.2"]);
    assert_eq!(half.status.code(), Some(68), "{half:?}");
    let said = text(&half.stderr);
    assert!(said.contains("1 key(s) were still removed from the file"), "{said}");
    assert!(said.contains("no lease was ended; repeat the command to finish"), "{said}");
    let whole = revoke(&url, &admin, &["--json"]);
    assert!(whole.status.success(), "{whole:?}");
    let told: leasehold_testkit::Value = serde_json::from_slice(&whole.stdout).expect("JSON");
    assert_eq!((&told["refused_by_server"], &told["ended_leases"]), (&true.into(), &1.into()));
    let again = text(&revoke(&url, &admin, &[]).stdout);
    assert_eq!(again, "the file has no key of that name\nended 0 leases\n");
    process.kill();
}

#[test]
fn a_key_for_files_that_cannot_be_written_is_printed() {
    let world = World::new();
    let create = ["key", "create", "--name", "ci", "--may", "read", "--namespaces", "*", "--print"];
    let printed = world.run(&create);
    let shown = text(&printed.stdout);
    assert!(
        shown.contains("[[key]]\nname = \"ci\"") && shown.contains("who = [\"key:ci\"]"),
        "{shown}"
    );
    assert!(!world.path("keys.toml").exists());
}

#[test]
fn keys_made_at_the_same_time_are_all_there() {
    let world = World::new();
    world.run(&["auth", "init"]);
    std::thread::scope(|scope| {
        for n in 0..16 {
            let world = &world;
            scope.spawn(move || {
                let name = format!("k{n}");
                let create =
                    ["key", "create", "--name", &name, "--may", "read", "--namespaces", &name];
                let created = world.run(&create);
                assert!(created.status.success(), "{created:?}");
            });
        }
    });
    let listed = text(&world.run(&["key", "list"]).stdout);
    for n in 0..16 {
        assert!(listed.contains(&format!("k{n}  id ")), "k{n} is lost: {listed}");
        let lock = format!("k{n}/x");
        let may = ["--as", &format!("key:k{n}"), "--may", "read", "--lock", &lock];
        let words = [&["check-config", "--auth-file", "auth.toml"][..], &may].concat();
        assert!(world.run(&words).status.success(), "the rule of k{n} is lost");
    }
}

#[test]
fn a_key_that_would_be_over_at_once_is_refused() {
    let world = World::new();
    world.run(&["auth", "init"]);
    for expires in ["0s", "0d"] {
        let refused = world.run(&["key", "create", "--name", "ci", "--expires", expires]);
        assert_eq!(refused.status.code(), Some(64), "{refused:?}");
        assert!(text(&refused.stderr).contains("--expires: must be at least 1s"), "{refused:?}");
    }
    assert!(!text(&world.run(&["key", "list"]).stdout).contains("ci  id "));
}

#[test]
fn which_rule_decides_is_explained() {
    let world = World::new();
    world.run(&["auth", "init"]);
    world.run(&["key", "create", "--name", "ci", "--may", "acquire", "--namespaces", "shop*"]);
    let may = |principal: &str, right: &str, lock: &str| {
        let words = [
            "check-config",
            "--auth-file",
            "auth.toml",
            "--as",
            principal,
            "--may",
            right,
            "--lock",
            lock,
        ];
        let output = world.run(&words);
        (output.status.code(), text(&output.stdout))
    };
    let (code, why) = may("key:ci", "acquire", "shop/deploy");
    assert_eq!(code, Some(0));
    assert!(why.starts_with("key:ci may acquire shop/deploy: rule \"ci\" at auth.toml:"), "{why}");
    assert_eq!(may("key:ci", "read", "shop/deploy").0, Some(0));
    let (code, why) = may("key:ci", "revoke", "shop/deploy");
    assert_eq!(
        (code, why.trim()),
        (Some(77), "key:ci may not revoke shop/deploy: no rule grants it")
    );
    assert_eq!(may("anonymous", "read", "shop/deploy").0, Some(77));
    assert_eq!(may("key:admin", "revoke", "a/b/c").0, Some(0));
    let warned = text(&world.run(&["check-config", "--auth-file", "auth.toml"]).stderr);
    assert!(warned.contains("\"shop*\" also matches names such as \"shopping\""), "{warned}");
}

#[test]
fn a_namespace_may_have_a_slash() {
    let world = World::new();
    world.run(&["auth", "init"]);
    world.run(&["key", "create", "--name", "ci", "--may", "acquire", "--namespaces", "team/a"]);
    let may = |more: &[&str]| {
        let words = ["check-config", "--auth-file=auth.toml", "--as", "key:ci", "--may", "acquire"];
        let output = world.run(&[&words[..], more].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, why, _) = may(&["--namespace", "team/a", "--lock", "deploy/eu"]);
    assert_eq!(code, Some(0), "{why}");
    let (code, why, said) = may(&["--lock", "team/a/deploy"]);
    assert_eq!(code, Some(77), "{why}");
    assert!(said.contains("means namespace \"team\" and lock \"a/deploy\""), "{said}");
    let (code, json, _) = may(&["--namespace=team/a", "--lock=x", "--json"]);
    assert_eq!(code, Some(0));
    assert!(json.contains("\"namespace\":\"team/a\"") && json.contains("\"lock\":\"x\""), "{json}");
    for wrong in [&["--lock", "deploy"][..], &["--lock", "/deploy"], &["--lock", "a/"]] {
        assert_eq!(may(wrong).0, Some(64), "{wrong:?}");
    }
    assert_ne!(may(&["--namespace", "a"]).0, Some(0), "there is no lock");
}

#[test]
fn what_is_hardly_meant_is_told_with_its_line() {
    let world = World::new();
    world.run(&["auth", "init"]);
    let auth = std::fs::read_to_string(world.path("auth.toml")).expect("a file");
    let n = auth.lines().count();
    let more = "[proxy]\nuser-header = \"X-User\"\nfrom = [\"unix:/run/a.sock\"]\n\
        [[rule]]\nname = \"r\"\nwho = [\"key:absent\"]\nmay = [\"read\"]\nnamespaces = [\"a\"]\n";
    std::fs::write(world.path("auth.toml"), format!("{auth}{more}")).expect("a file");
    let check = ["check-config", "--auth-file=auth.toml"];
    let told = text(&world.run(&check).stderr);
    let nothing =
        format!("auth.toml:{}: proxy: from: the server does not listen on unix:/run/a.sock", n + 3);
    let absent = format!("auth.toml:{}: rule \"r\": no key has the name \"absent\"", n + 6);
    assert!(told.contains(&nothing) && told.contains(&absent), "{told}");
    let json = text(&world.run(&[&check[..], &["--json"]].concat()).stdout);
    assert!(json.contains("\"warnings\":[") && json.contains("does not listen on"), "{json}");
    let listening = ["--listen=unix:/run/a.sock"];
    let told = text(&world.run(&[&check[..], &listening].concat()).stderr);
    assert!(!told.contains("does not listen on") && told.contains(&absent), "{told}");
}

#[test]
fn groups_of_tokens_and_of_a_proxy_are_explained_and_their_mistakes_told() {
    let world = World::new();
    world.run(&["auth", "init"]);
    let auth = std::fs::read_to_string(world.path("auth.toml")).expect("a file");
    let n_lines = auth.lines().count();
    let write = |more: &str| {
        std::fs::write(world.path("auth.toml"), format!("{auth}{more}")).expect("a file")
    };
    let oidc = "[[oidc]]\nname = \"oidc\"\nissuer = \"https://id.example.org\"\naudiences = [\"leasehold\"]\n";
    let rule = |group: &str| {
        format!(
            "[[rule]]\nname = \"pay\"\ngroups = [\"{group}\"]\nmay = [\"acquire\"]\nnamespaces = [\"pay\"]\n"
        )
    };
    write(&format!("{oidc}{}", rule("oidc:payments")));
    let may = |principal: &str, groups: &[&str]| {
        let groups = groups.join(",");
        let mut words = vec!["check-config", "--auth-file=auth.toml", "--as", principal];
        words.extend(["--may", "acquire", "--lock", "pay/x"]);
        if !groups.is_empty() {
            words.extend(["--groups", &groups]);
        }
        let output = world.run(&words);
        (output.status.code(), text(&output.stdout))
    };
    let (code, why) = may("oidc:alice", &["oidc:ops", "oidc:payments"]);
    let at = n_lines + 5;
    assert_eq!(code, Some(0), "{why}");
    assert_eq!(why.trim(), format!("oidc:alice may acquire pay/x: rule \"pay\" at auth.toml:{at}"));
    assert_eq!(may("oidc:alice", &["oidc:ops"]).0, Some(77));
    assert_eq!(may("oidc:alice", &[]).0, Some(77));
    assert_eq!(may("proxy:alice", &["proxy:payments"]).0, Some(77));
    let check = || world.run(&["check-config", "--auth-file=auth.toml"]);
    assert!(!text(&check().stderr).contains("no principal begins with"), "{:?}", check());
    write(&format!(
        "{oidc}{}{}",
        rule("oicd:payments"),
        rule("proxy:payments").replace("pay\"\n", "p\"\n")
    ));
    let warned = text(&check().stderr);
    assert!(
        warned.contains(&format!(
            "auth.toml:{line}: rule \"pay\": no principal can have the group \"oicd:payments\": no \
             principal begins with \"oicd:\"",
            line = at + 2
        )),
        "{warned}"
    );
    assert!(warned.contains("no principal begins with \"proxy:\""), "{warned}");
    write(&oidc.replace("https", "http"));
    let (code, why) = (check().status.code(), text(&check().stderr));
    assert_ne!(code, Some(0));
    let line = n_lines + 3;
    assert!(why.contains(&format!("auth.toml:{line}: oidc \"oidc\": issuer: ")), "{why}");
}

#[test]
fn other_machines_are_served_only_if_that_is_safe_or_meant() {
    let world = World::new();
    let open = ["--listen=0.0.0.0:0"];
    for command in ["serve", "check-config"] {
        let refused = world.run(&[&[command][..], &open, &["--ephemeral"]].concat());
        assert!(!refused.status.success());
        let why = text(&refused.stderr);
        assert!(why.contains("leasehold auth init") && why.contains("--insecure-no-auth"), "{why}");
    }
    world.run(&["auth", "init"]);
    for way in ["--insecure-no-auth", "--auth-file=auth.toml"] {
        assert!(world.run(&["check-config", open[0], way]).status.success(), "{way}");
    }
    std::fs::write(world.path("auth.toml"), "version = 1\nrule = 3\n").expect("a file");
    let why = text(&world.run(&["check-config", "--auth-file=auth.toml"]).stderr);
    assert!(why.contains("auth.toml:2: "), "{why}");
}

#[test]
fn a_key_is_not_sent_in_the_clear_to_another_machine() {
    let world = World::new();
    let words = ["ls", "--url", "http://192.0.2.1:1", "--connect-timeout", "1ms"];
    let refused = world.run_with(&words, &[("LEASEHOLD_API_KEY", "lh_a_b")]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(text(&refused.stderr).contains("--insecure"), "{refused:?}");
    // Without a key, or with --insecure, the request is sent.
    assert_eq!(world.run(&words).status.code(), Some(68));
    let meant =
        world.run_with(&[&words[..], &["--insecure"]].concat(), &[("LEASEHOLD_API_KEY", "lh_a_b")]);
    assert_eq!(meant.status.code(), Some(68));
}

#[test]
fn after_the_last_key_was_revoked_there_can_be_another() {
    let world = World::new();
    let init = world.run(&["auth", "init"]);
    assert!(init.status.success(), "{init:?}");
    let began = std::time::Instant::now();
    let revoked = world.run(&["key", "revoke", "--name", "admin"]);
    assert!(revoked.status.success(), "{revoked:?}");
    assert!(text(&revoked.stdout).contains("Running servers reread it"), "{revoked:?}");
    assert!(began.elapsed() < std::time::Duration::from_secs(60), "it waits for no server");
    let created = world.run(&["key", "create", "--name", "admin"]);
    assert!(created.status.success(), "{created:?}");
    assert!(text(&world.run(&["key", "list"]).stdout).contains("admin"));
}
