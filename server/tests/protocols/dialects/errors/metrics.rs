//! Tests of `/metrics`: formats, names, histograms of wait and hold times, and gauges per namespace.

use std::collections::BTreeSet;

use hyper::Method;
use leasehold_server::metrics::Metrics;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Client, Local, folder, json, settings};

use crate::dialects::errors::Scene;

async fn shown(client: &Client, accept: &[(&str, &str)]) -> (String, String) {
    let answer = client.send_with(Method::GET, "/metrics", accept, "").await.expect("an answer");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["vary"], "accept");
    (answer.headers["content-type"].to_str().expect("text").into(), answer.text)
}

#[tokio::test]
async fn prometheus_text_is_the_default_and_openmetrics_is_for_those_who_ask() {
    let scene = Scene::new().await;
    let (kind, text) = shown(&scene.local.client, &[]).await;
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    assert!(text.contains("\n# TYPE lock_acquire_total counter\nlock_acquire_total{"), "{text}");
    assert!(text.contains("# TYPE leasehold_build_info gauge\nleasehold_build_info{"), "{text}");
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
    let accept = [("accept", "application/openmetrics-text; version=1.0.0, text/plain;q=0.5")];
    let (kind, text) = shown(&scene.local.client, &accept).await;
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(text.contains("\n# TYPE lock_acquire counter\nlock_acquire_total{"), "{text}");
    assert!(text.contains("# TYPE leasehold_build info\nleasehold_build_info{"), "{text}");
    assert!(text.ends_with("\n# EOF\n"), "{text}");
}

#[tokio::test]
async fn the_process_and_the_build_are_shown() {
    let scene = Scene::new().await;
    let (_, text) = shown(&scene.local.client, &[]).await;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("no {name}: {text}"))
    };
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_cpu_seconds_total") > 0.0);
    assert!(value("process_open_fds") >= 3.0);
    assert!(value("process_max_fds") >= value("process_open_fds"));
    assert!(value("process_threads") >= 2.0);
    assert!(value("process_start_time_seconds") > 1.7e9);
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    let build = text.lines().find(|line| line.starts_with("leasehold_build_info{"));
    assert!(
        build.is_some_and(|line| line.contains(&version) && line.ends_with("} 1")),
        "{build:?}"
    );
}

#[tokio::test]
async fn how_long_leases_wait_and_hold_is_counted() {
    let scene = Scene::new().await;
    let client = &scene.local.client;
    let wait = |owner: &'static str, wait_ms: u64| {
        let client = Client::new(scene.local.address);
        tokio::spawn(async move {
            client.acquire("job", owner, 1000, json!({"wait_ms": wait_ms})).await
        })
    };
    let (waiting, in_vain) = (wait("b", 3_600_000), wait("c", 1000));
    let are_queued =
        async |client: &Client| client.get("/v1/locks/job").await.get("n_waiting") == 2;
    scene.local.until("b and c wait", are_queued).await;
    scene.local.advance_ms(3000);
    let is_alone = async |client: &Client| client.get("/v1/locks/job").await.get("n_waiting") == 1;
    scene.local.until("c has given up", is_alone).await;
    assert_eq!(in_vain.await.expect("no panic").status, 409);
    assert_eq!(client.release(&scene.job, json!({})).await.status, 200);
    assert_eq!(waiting.await.expect("no panic").status, 200);
    scene.local.advance_ms(1000);
    assert_eq!(client.get("/v1/locks/job").await.get("held"), false);
    let (_, text) = shown(client, &[]).await;
    for line in [
        // `a` got the lock immediately, and `b` three seconds later.
        "leasehold_wait_seconds_count{result=\"granted\"} 2",
        "leasehold_wait_seconds_bucket{le=\"0.001\",result=\"granted\"} 1",
        "leasehold_wait_seconds_bucket{le=\"4.096\",result=\"granted\"} 2",
        "leasehold_wait_seconds_count{result=\"ended\"} 1",
        "leasehold_hold_seconds_count{ended=\"released\"} 1",
        "leasehold_hold_seconds_bucket{le=\"4.096\",ended=\"released\"} 1",
        "leasehold_hold_seconds_bucket{le=\"1.024\",ended=\"released\"} 0",
        "leasehold_hold_seconds_count{ended=\"expired\"} 1",
        "leasehold_hold_seconds_count{ended=\"revoked\"} 0",
        "lock_expired_total 1",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
    }
    let same = |name: &str, count: &str| {
        let wanted = format!("{name}_count{{op=\"acquire\"}} {count}\n");
        assert!(text.contains(&wanted), "{wanted} in {text}");
    };
    same("lock_op_latency_ms", "3");
    same("leasehold_op_seconds", "3");
}

/// Starts a server with leases in three namespaces.
async fn with_namespaces(n_max: usize, more: impl FnOnce(&mut Settings)) -> Local {
    let mut settings = settings(None);
    settings.http.metrics_namespaces_max = n_max;
    more(&mut settings);
    let local = Local::start(settings).await;
    for (namespace, locks) in [("few", 1), ("many", 3), ("some", 2)] {
        for n in 0..locks {
            let path = format!("/v1/namespaces/{namespace}/locks/{n}/acquire");
            let body = json!({"owner_id": "a", "ttl_ms": 60_000});
            let _ = local.client.post(&path, body).await.expect("an answer");
        }
    }
    local
}

#[tokio::test]
async fn only_so_many_namespaces_are_shown_those_with_the_most_leases() {
    let series = async |n_max| {
        let local = with_namespaces(n_max, |_| {}).await;
        let text = local.client.get("/metrics").await.text;
        let is_about = |line: &&str| {
            line.starts_with("leasehold_namespace_") || line.starts_with("leasehold_namespaces_un")
        };
        text.lines().filter(is_about).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let all = [
        "leasehold_namespace_leases{namespace=\"many\"} 3",
        "leasehold_namespace_leases{namespace=\"some\"} 2",
        "leasehold_namespace_leases{namespace=\"few\"} 1",
        "leasehold_namespace_locks{namespace=\"many\"} 3",
        "leasehold_namespace_locks{namespace=\"some\"} 2",
        "leasehold_namespace_locks{namespace=\"few\"} 1",
        "leasehold_namespaces_unlisted 0",
        "leasehold_namespaces_unlisted_leases 0",
    ];
    assert_eq!(series(3).await, all.map(String::from).into());
    let one = [
        "leasehold_namespace_leases{namespace=\"many\"} 3",
        "leasehold_namespace_locks{namespace=\"many\"} 3",
        "leasehold_namespaces_unlisted 2",
        "leasehold_namespaces_unlisted_leases 3",
    ];
    assert_eq!(series(1).await, one.map(String::from).into());
    assert_eq!(series(0).await, BTreeSet::new());
}

#[tokio::test]
async fn namespace_names_are_hidden_without_the_right_to_read_all() {
    let folder = folder();
    let auth = folder.path().join("auth.toml");
    let rule = "version = 1\npublic = [\"metrics\"]\n[[rule]]\nname = \"all\"\nwho = [\"anonymous\"]\n\
                may = [\"acquire\"]\nnamespaces = [\"few\", \"many\", \"some\"]\n";
    std::fs::write(&auth, rule).expect("a file");
    let local = with_namespaces(10, |settings| settings.auth_file = Some(auth)).await;
    let text = local.client.get("/metrics").await.text;
    assert!(text.contains("\nleasehold_namespaces 3\n"), "{text}");
    assert!(!text.contains("many") && !text.contains("leasehold_namespaces_unlisted"), "{text}");
}

/// The names of metrics in the code of a page.
fn metrics_in(page: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '*';
    page.split('`')
        .skip(1)
        .step_by(2)
        .map(|code| code.split(|c| !is_name(c)).next().unwrap_or_default())
        .filter(|name| {
            ["lock_", "locks_held", "leasehold_", "process_"]
                .iter()
                .any(|start| name.starts_with(start))
        })
        .collect()
}

#[test]
fn every_metric_is_in_the_manual_and_the_manual_has_no_other() {
    let manual = include_str!("../../../../../docs/reference/metrics.md");
    let operate = concat!(
        include_str!("../../../../../docs/reference/alerts.md"),
        include_str!("../../../../../docs/reference/limits.md"),
        include_str!("../../../../../docs/operate/audit.md"),
        include_str!("../../../../../docs/operate/backup.md"),
        include_str!("../../../../../docs/operate/cluster-recover.md"),
        include_str!("../../../../../docs/operate/full-disk.md"),
        include_str!("../../../../../docs/operate/monitoring.md"),
        include_str!("../../../../../docs/operate/service.md"),
        include_str!("../../../../../docs/operate/troubleshooting.md"),
        include_str!("../../../../../docs/operate/warnings.md"),
    );
    let told = metrics_in(manual);
    let everywhere: BTreeSet<_> = told.union(&metrics_in(operate)).copied().collect();
    let metrics = Metrics::new(leasehold_server::dialect::NAMES);
    let known: BTreeSet<_> = metrics.names().collect();
    assert_eq!(
        everywhere.difference(&known).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "no such metric"
    );
    assert_eq!(
        known.difference(&told).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "not in the manual"
    );
}

#[tokio::test]
async fn the_listener_for_metrics_names_namespaces_only_if_it_is_told_to() {
    use leasehold_server::http::Listen;
    for is_shown in [false, true] {
        let local = with_namespaces(10, |settings| {
            settings.metrics_listen = Some(Listen::Http(([127, 0, 0, 1], 0).into()));
            settings.http.metrics_listen_namespaces = is_shown;
        })
        .await;
        let apart = local.server.metrics_listener().and_then(Listen::address).expect("an address");
        let text = Client::new(apart).get("/metrics").await.text;
        assert_eq!(text.contains("namespace=\"many\""), is_shown, "{text}");
        assert!(text.contains("\nleasehold_namespaces 3\n"), "numbers are shown: {text}");
        assert!(local.client.get("/metrics").await.text.contains("namespace=\"many\""));
    }
}

#[tokio::test]
async fn a_malformed_lease_id_counts_as_a_failed_renewal_or_release() {
    let scene = Scene::new().await;
    let client = &scene.local.client;
    let proof = json!({"owner_id": "o", "lease_id": "nonsense", "fencing_token": 1});
    let mut renewal = proof.clone();
    renewal["extend_by_ms"] = json!(1000);
    let one = json!({"lock_name": "x", "lease_id": "nonsense", "fencing_token": 1});
    let mut renew_all = json!({"owner_id": "o", "leases": [one]});
    let release_all = renew_all.clone();
    renew_all["extend_by_ms"] = json!(1000);
    let lease = json!({"owner_id": "o", "request_id": "r"});
    let mut lease_renewal = lease.clone();
    lease_renewal["ttl_seconds"] = json!(10);
    for (path, body, status) in [
        ("/v1/locks/x/renew", renewal, 409),
        ("/v1/locks/x/release", proof, 409),
        ("/v1/renew", renew_all, 409),
        ("/v1/release", release_all, 409),
        ("/leases/nonsense/renew", lease_renewal, 404),
        ("/leases/nonsense/release", lease, 404),
    ] {
        let answer = client.post(path, body).await.expect("an answer");
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
    let (_, text) = shown(client, &[]).await;
    for op in ["renew", "release"] {
        let line = format!("lock_{op}_total{{result=\"fail\"}} 3\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}
