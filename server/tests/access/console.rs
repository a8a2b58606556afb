//! Tests of the console over real HTTP: what its pages show and what they refuse. `scripts/console` tests it in a
//! browser.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use leasehold_testkit::{Client, Local, Method, Response, json};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

async fn post(client: &Client, path: &str, form: &str) -> Response {
    client.send_with(Method::POST, path, &[FORM], form.to_owned()).await.unwrap()
}

/// Returns the names of the locks on a page, in order, and the link to the next page.
fn rows(page: &Response) -> (Vec<String>, Option<String>) {
    let rows = page.text.split("<tr data-key=\"").skip(1);
    let names = rows.map(|row| row.split('"').next().unwrap().to_owned()).collect();
    (names, link(page, "next"))
}

/// Returns the target of the link with this relation.
fn link(page: &Response, rel: &str) -> Option<String> {
    let (_, rest) = page.text.split_once(&format!("rel=\"{rel}\" href=\""))?;
    Some(rest.split('"').next().unwrap().replace("&amp;", "&"))
}

async fn get(client: &Client, path: &str) -> Response {
    let page = client.get(path).await;
    assert_eq!(page.status, 200, "{path}: {}", page.text);
    page
}

#[tokio::test]
async fn what_is_at_the_root_depends_on_who_asks() {
    let local = Local::ephemeral().await;
    for (accept, is_page) in [
        ("text/html", true),
        ("*/*", false),
        ("application/json", false),
        ("application/json, text/html;q=0.1", false),
        ("text/html, application/json;q=0.9", true),
    ] {
        let headers = [("accept", accept)];
        let answer = local.client.send_with(Method::GET, "/", &headers, "").await.unwrap();
        assert_eq!(answer.status, 200, "{accept}: {}", answer.text);
        assert_eq!(answer.text.starts_with("<!DOCTYPE html>"), is_page, "{accept}");
        let varies = answer.headers.get_all("vary").iter().any(|value| value == "Accept");
        assert!(varies, "{accept}: {:?}", answer.headers);
    }
    let put = local.client.send_with(Method::PUT, "/", &[("accept", "text/html")], "").await;
    assert_ne!(put.unwrap().status, 200, "only looking is for the console");
    local.stop().await;
}

#[tokio::test]
async fn every_lock_is_on_one_page_of_every_order() {
    let local = Local::ephemeral().await;
    // More locks than the engine inspects in one turn.
    for n in 0..40 {
        let locks: Vec<_> =
            (0..60).map(|m| json!({"lock_name": format!("job/{:04}", n * 60 + m)})).collect();
        let body = json!({"owner_id": format!("Worker-{n}"), "ttl_ms": 60_000 + n, "locks": locks});
        let taken = local.client.post("/v1/namespaces/many/acquire", body).await.unwrap();
        assert_eq!(taken.status, 200, "{}", taken.text);
    }
    for sort in ["", "name", "ends", "held", "waiters", "waited"] {
        let mut seen = Vec::new();
        let mut path = Some(format!("/console?namespace=many&sort={sort}"));
        let (mut forth, mut before) = (Vec::new(), None);
        while let Some(at) = path {
            let page = get(&local.client, &at).await;
            let first = seen.len() + 1;
            let (names, next) = rows(&page);
            forth.push(names.clone());
            before = link(&page, "prev");
            seen.extend(names);
            let range = format!("{first} to {} of 2,400", seen.len());
            assert!(
                page.text.replace("1,", "1").contains(&range.replace("1,", "1")) || first > 999,
                "{range}"
            );
            path = next;
        }
        assert_eq!(seen.len(), 2400, "{sort}");
        // And back again, from the last page to the first.
        forth.pop();
        while let Some(at) = before.take() {
            let page = get(&local.client, &at).await;
            assert_eq!(Some(rows(&page).0), forth.pop(), "{at}");
            before = link(&page, "prev");
        }
        assert!(forth.is_empty(), "{sort}: {} pages left", forth.len());
        if sort == "ends" {
            let tail = format!("many/job/{:04}", 2399);
            assert_eq!(seen.last(), Some(&tail));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 2400, "{sort}: each once");
    }
    let found = async |query: &str| rows(&get(&local.client, &format!("/console?{query}")).await).0;
    assert_eq!(found("q=JOB/0042").await, ["many/job/0042"]);
    assert_eq!(found("q=worker-39&sort=name").await.len(), 50);
    assert_eq!(found("q=worker-39&namespace=other").await.len(), 0);
    assert_eq!(found("state=free").await.len(), 0);
    assert_eq!(found("protocol=locks&state=held").await.len(), 50);
    assert_eq!(found("protocol=files").await.len(), 0);
    local.stop().await;
}

#[tokio::test]
async fn what_a_link_adds_is_ignored_and_what_is_wrong_is_told_in_words() {
    let local = Local::ephemeral().await;
    for path in [
        "/console?",
        "/console/lock?namespace=a&name=b&",
        "/console/sessions?",
        "/console/files?",
        "/console/cluster?",
        "/console/take?",
    ] {
        get(&local.client, &format!("{path}utm_source=x&fbclid=y")).await;
    }
    for (path, why) in [
        ("/console?sort=x", "sort: must be one of name, ends"),
        ("/console?q=a&q=b", "the address has q=... twice"),
        ("/console?q=%FF", "the address: is not percent-encoded UTF-8"),
        ("/console/lock?namespace=a", "the address has no name (name=...)"),
        ("/console/sessions?from=-1", "from: must be a whole number"),
    ] {
        let page = local.client.get(path).await;
        assert_eq!(page.status, 400, "{path}");
        assert!(page.text.contains(why), "{path}: {}", page.text);
    }
    local.stop().await;
}

#[tokio::test]
async fn an_unknown_path_is_a_page_for_browsers() {
    let local = Local::ephemeral().await;
    let ask = async |path: &str, accept: &str| {
        let headers = [("accept", accept)];
        local.client.send_with(Method::GET, path, &headers, "").await.unwrap()
    };
    let lost = ask("/console/nope", "text/html").await;
    assert_eq!(lost.status, 404);
    assert!(lost.text.contains("there is no such page in the console"), "{}", lost.text);
    let lost = ask("/console/nope/at/all", "*/*").await;
    assert_eq!((lost.status, lost.text_of("code")), (404, "NOT_FOUND".into()), "{}", lost.text);
    let home = ask("/console/", "text/html").await;
    assert_eq!((home.status, home.headers["location"].to_str().unwrap()), (303, "/console"));
    local.stop().await;
}

#[tokio::test]
async fn a_namespace_that_no_field_can_have_is_found_by_its_spelling() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    for namespace in ["a%00b", "a%1Bb", "plain"] {
        let path = format!("/v1/namespaces/{namespace}/locks/x/acquire");
        let taken = client.post(&path, json!({"owner_id": "o", "ttl_ms": 60_000})).await.unwrap();
        assert_eq!(taken.status, 200, "{}", taken.text);
    }
    let page = get(client, "/console").await.text;
    assert!(page.contains("value=\"&quot;a\\u0000b&quot;\""), "{page}");
    let metrics = get(client, "/metrics").await.text;
    assert!(metrics.contains("u001bb"), "{metrics}");
    for text in [&page, &metrics] {
        assert!(!text.contains(['\0', '\u{1b}']), "{text:?}");
    }
    for path in ["/console?namespace=%22a%5Cu0000b%22", "/console?namespace=a%00b"] {
        let found = get(client, path).await;
        assert_eq!(rows(&found).0, ["a\u{fffd}b/x"], "{path}");
        assert!(found.text.contains("value=\"&quot;a\\u0000b&quot;\" selected"), "{}", found.text);
    }
    local.stop().await;
}

#[tokio::test]
async fn of_very_many_holders_those_on_the_page_are_meant() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    for n in 0..300 {
        let more = json!({"limit": 1000});
        assert_eq!(client.acquire("pool", &format!("h-{n}"), 60_000, more).await.status, 200);
    }
    let path = "/console/lock?namespace=default&name=pool";
    let page = get(client, path).await.text;
    let tokens: Vec<_> = page.split("name=\"token\" value=\"").skip(1).collect();
    let tokens: Vec<_> = tokens.iter().map(|rest| rest.split('"').next().unwrap()).collect();
    let n_kept = 300 - tokens.len();
    assert!(n_kept > 0);
    let said = format!("Only the holders on this page are affected: {n_kept} others keep it.");
    assert!(page.contains(&said), "{page}");
    let form = format!("reason=r&token={}", tokens.join("&token="));
    let done = post(client, "/console/lock/revoke?namespace=default&name=pool", &form).await;
    let after = get(client, done.headers["location"].to_str().unwrap()).await.text;
    assert!(
        after.contains(&format!("{} holders no longer hold the lock.", tokens.len())),
        "{after}"
    );
    let tile =
        format!("<span class=\"figure\">{n_kept}</span><span class=\"what\">Leases held</span>");
    assert!(get(client, "/console").await.text.contains(&tile), "it counts what its chart does");
    local.stop().await;
}

#[tokio::test]
async fn a_lock_shows_its_holder_its_queue_and_what_happened() {
    let local = Local::ephemeral().await;
    let client = local.client.clone();
    let more = json!({"metadata": {"job": 7}, "grace_ms": 20_000});
    let held = client.acquire("deploy", "vm-1", 30_000, more).await;
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.acquire("deploy", "vm-2", 60_000, json!({"wait_ms": 600_000})).await }
    });
    let waits = async |client: &Client| client.get("/v1/locks/deploy").await.get("n_waiting") == 1;
    local.until("it waits", waits).await;
    local.advance_ms(5000);
    let path = "/console/lock?namespace=default&name=deploy";
    let page = get(&client, path).await.text;
    for part in [
        "<dt>Fencing token</dt><dd>1</dd>",
        "<span data-left=\"25000\" data-whole=\"30000\">",
        "&quot;job&quot;: 7",
        "20 s after it expires",
        "<bdi class=\"name\">vm-2</bdi>",
        "got the lock",
        "joined the queue",
        "data-live=\"/console/live?namespace=default&amp;name=deploy\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let lease_id = held.text_of("lease_id");
    assert!(!page.contains(&lease_id), "a lease id is a proof, and never shown");
    // The last owner has 20 seconds of grace.
    local.advance_ms(25_000);
    let page = get(&client, path).await.text;
    assert!(page.contains("Reserved for") && page.contains("data-left=\"20000\""), "{page}");
    assert!(get(&client, "/console?state=grace").await.text.contains("grace</span>"));
    local.advance_ms(20_000);
    assert_eq!(waiter.await.unwrap().status, 200);
    assert!(get(&client, path).await.text.contains("let it expire"));
    local.stop().await;
}

#[tokio::test]
async fn only_those_who_were_shown_are_revoked() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let first = client.acquire("a-b", "vm-1", 60_000, json!({})).await;
    let form = |token: u64, more: &str| format!("token={token}{more}");
    let path = "/console/lock/revoke?namespace=default&name=a-b";
    for (form, status) in [
        (form(1, ""), 400),
        (form(1, "&reason="), 400),
        (form(1, "&reason=%20"), 400),
        (form(1, "&reason=r&x=1"), 400),
        (form(2, "&reason=r"), 409),
        ("reason=r".into(), 400),
        (form(1, &format!("&reason={}", "r".repeat(100_000))), 400),
        (form(1, "&reason=%FF"), 400),
    ] {
        assert_eq!(post(client, path, &form).await.status, status, "{form}");
    }
    for query in ["", "?namespace=default", "?namespace=default&name="] {
        let path = format!("/console/lock/revoke{query}");
        assert_eq!(post(client, &path, &form(1, "&reason=r")).await.status, 400, "{query}");
    }
    let kinds = ["application/json", "text/plain", "multipart/form-data; boundary=x"];
    for kind in kinds {
        let body = form(1, "&reason=r");
        let answer = client.send(Method::POST, path, Some(kind), body).await.unwrap();
        assert_eq!(answer.status, 400, "{kind}");
    }
    for foreign in
        [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site"), ("origin", "null")]
    {
        let body = form(1, "&reason=r");
        let answer = client.send_with(Method::POST, path, &[FORM, foreign], body).await.unwrap();
        assert_eq!(answer.status, 403, "{foreign:?}");
    }
    assert_eq!(client.get("/v1/locks/a-b").await.get("held"), true);
    client.release(&first, json!({})).await;
    client.acquire("a-b", "vm-2", 60_000, json!({})).await;
    let late = post(client, path, &form(1, "&reason=they+%3Cleft%3E")).await;
    assert_eq!(late.status, 409, "vm-2 keeps it");
    for part in [
        "role=\"alert\">the holders on the previous page no longer hold the lock; nothing was revoked",
        "value=\"they &lt;left&gt;\"",
        "<dt>Fencing token</dt><dd>2</dd>",
        "name=\"token\" value=\"2\"",
        "data-here=\"/console/lock?namespace=default&amp;name=a-b\"",
    ] {
        assert!(late.text.contains(part), "{part}: {}", late.text);
    }
    let blank = post(client, path, &form(2, "&reason=+")).await.text;
    assert!(blank.contains("reason: must not be empty") && blank.contains("vm-2"), "{blank}");
    let tokenless = post(client, path, "reason=r").await.text;
    assert!(tokenless.contains("the form contains no fencing token"), "{tokenless}");
    let back = client.get(path).await;
    assert_eq!(back.headers["location"], "/console/lock?namespace=default&name=a-b");
    let done = post(client, path, &form(2, "&reason=it+is+gone")).await;
    assert_eq!(done.status, 303, "{}", done.text);
    let to = done.headers["location"].to_str().unwrap().to_owned();
    assert!(to.starts_with("/console/lock?namespace=default&name=a-b&notice="), "{to}");
    let page = get(client, &to).await.text;
    let said = "Revoked: vm-2 (fencing token 2) no longer holds the lock.";
    assert!(page.contains(said) && page.contains("it is gone"), "{page}");
    for path in [&*to, "/console/lock?namespace=default&name=a-b&revoked=5&notice=1"] {
        let again = get(client, path).await.text;
        assert!(!again.contains("Revoked:") && !again.contains("p class=\"note"), "{again}");
    }
    assert_eq!(client.get("/v1/locks/a-b").await.get("held"), false);
    local.stop().await;
}

#[tokio::test]
async fn sessions_are_shown_and_ended() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    assert!(get(client, "/console/sessions").await.text.contains("There is no session."));
    for owner in ["ann", "bob"] {
        let opened =
            client.post("/v1/sessions", json!({"owner_id": owner, "ttl_ms": 60_000})).await;
        let opened = opened.unwrap();
        assert_eq!(opened.status, 201);
        if owner == "ann" {
            for lock in ["a", "b"] {
                let body = json!({"owner_id": owner, "session_id": opened.text_of("session_id")});
                let taken = client.post(&format!("/v1/locks/{lock}/acquire"), body).await.unwrap();
                assert_eq!(taken.status, 200, "{}", taken.text);
            }
        }
    }
    let (numbers, next) = rows(&get(client, "/console/sessions").await);
    assert_eq!((numbers.len(), next), (2, None));
    assert_eq!(
        rows(&get(client, &format!("/console/sessions?from={}", numbers[1])).await).0.len(),
        1
    );
    let asked = format!("/console/sessions/end?number={}", numbers[0]);
    assert!(get(client, "/console/sessions").await.text.contains(&format!("href=\"{asked}\"")));
    let page = get(client, &asked).await.text;
    for part in
        ["ann", "All its 2 leases and waits are revoked immediately", "name=\"reason\" required"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let path = "/console/sessions/end";
    for reason in ["", "&reason=", "&reason=+"] {
        let refused = post(client, path, &format!("number={}{reason}", numbers[0])).await;
        assert_eq!(refused.status, 400, "{reason}");
        assert!(refused.text.contains("reason: must not be empty"), "{}", refused.text);
    }
    let long = "r".repeat(5000);
    let refused = post(client, path, &format!("number={}&reason={long}", numbers[0])).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains(&long), "what was typed is not lost");
    assert_eq!(client.get("/v1/locks/a").await.get("held"), true);
    let form = format!("number={}&reason=left+the+company", numbers[0]);
    let ended = post(client, path, &form).await;
    assert_eq!(ended.status, 303, "{}", ended.text);
    let to = ended.headers["location"].to_str().unwrap().to_owned();
    let said = format!("Ended session {} of ann: its 2 leases were revoked.", numbers[0]);
    assert!(get(client, &to).await.text.contains(&said));
    for path in [&*to, "/console/sessions?ended=7"] {
        assert!(!get(client, path).await.text.contains("Ended session"), "it is said once");
    }
    assert_eq!(client.get("/v1/locks/a").await.get("held"), false);
    let past = get(client, "/console/lock?namespace=default&name=a").await.text;
    assert!(past.contains("was revoked") && past.contains("left the company"), "{past}");
    assert_eq!(rows(&get(client, "/console/sessions").await).0, numbers[1..]);
    assert_eq!(post(client, path, &form).await.status, 404);
    assert_eq!(client.get(&asked).await.status, 404);
    assert_eq!(post(client, path, "number=x&reason=r").await.status, 400);
    local.stop().await;
}

#[tokio::test]
async fn files_are_shown_with_their_locks_and_nothing_outside() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let session = client.post("/auth/session", json!({})).await.unwrap();
    let id = session.text_of("sessionId");
    let headers = [("authorization", &*format!("Bearer {id}"))];
    for path in ["/docs-of/a.txt", "/docs-of/%3Cb%3E.txt", "/c.txt"] {
        let put = client.send_with(Method::PUT, path, &headers, "text").await.unwrap();
        assert!(put.status < 300, "{path}: {} {}", put.status, put.text);
    }
    let root = get(client, "/console/files").await;
    assert_eq!(rows(&root).0, ["/c.txt", "/docs-of"]);
    assert!(root.text.contains("href=\"/console/files?path=%2Fdocs-of\""), "{}", root.text);
    let inside = get(client, "/console/files?path=/docs-of").await;
    assert_eq!(rows(&inside).0, ["/docs-of/&lt;b&gt;.txt", "/docs-of/a.txt"]);
    for path in ["/..", "/../etc", "/nothing", "/c.txt", "/.leasehold", "/a%00b"] {
        let answer = client.get(&format!("/console/files?path={path}")).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
    }
    local.stop().await;
}
