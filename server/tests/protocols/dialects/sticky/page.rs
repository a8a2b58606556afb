//! Tests of `/lock/page`, the human-readable page of locks.

use leasehold_testkit::{Response, json};

use crate::dialects::sticky::Homelab;

async fn page(lab: &Homelab) -> Response {
    let page = lab.local.client.get("/lock/page").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(page.headers["cache-control"], "no-store");
    page
}

/// Returns the cells in the table row of this lock, without markup.
fn row(page: &Response, job: &str) -> Option<Vec<String>> {
    let mut rows = page.text.split("<tr class=").skip(1);
    let named = format!("<th scope=\"row\"><bdi class=\"name\">{job}</bdi></th>");
    let row = rows.find(|row| row.contains(&named))?.split("</tr>").next()?;
    let cells = row.split("<td").skip(1).filter_map(|cell| Some(cell.split_once('>')?.1));
    Some(cells.map(text).collect())
}

fn text(markup: &str) -> String {
    let pieces = markup.split('<').enumerate();
    pieces
        .filter_map(|(n, piece)| if n == 0 { Some(piece) } else { Some(piece.split_once('>')?.1) })
        .collect()
}

#[tokio::test]
async fn it_shows_who_has_a_lock_and_until_when() {
    let lab = Homelab::start().await;
    assert!(page(&lab).await.text.contains("There are no locks yet."));
    lab.post("client=laptop1&ttl=30s").await;
    lab.post("client=laptop2&ttl=1h&job=backup").await;
    let shown = page(&lab).await;
    let held = ["held", "laptop1", "2024-01-15T10:30:00Z", "0"].map(str::to_owned);
    assert_eq!(row(&shown, "default"), Some(held.into()));
    assert_eq!(row(&shown, "backup").expect("a row")[1], "laptop2");
    lab.at_s(32);
    let grace = ["grace", "laptop1", "2024-01-15T10:30:05Z", "0"].map(str::to_owned);
    assert_eq!(row(&page(&lab).await, "default"), Some(grace.into()));
    lab.at_s(35);
    assert_eq!(row(&page(&lab).await, "default").expect("a row")[..2], ["expired", "laptop1"]);
}

#[tokio::test]
async fn what_clients_call_themselves_is_text_and_nothing_else() {
    let lab = Homelab::start().await;
    lab.post("client=%3Cscript%3Ealert(1)%3C/script%3E&job=%22%3E%3Cb%3E%26%27").await;
    lab.post("client={{now}}&job={{rows}}").await;
    let shown = page(&lab).await;
    assert!(!shown.text.contains("<script>"), "{}", shown.text);
    assert!(shown.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(row(&shown, "&quot;&gt;&lt;b&gt;&amp;&#39;").is_some(), "{}", shown.text);
    assert_eq!(row(&shown, "{{rows}}").expect("a row")[1], "{{now}}");
    let policy = shown.headers["content-security-policy"].to_str().expect("text");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[tokio::test]
async fn it_is_bounded_and_says_so() {
    let lab = Homelab::start().await;
    for n in 0..200 {
        lab.post(&format!("client=a&job={n}")).await;
    }
    let shown = page(&lab).await.text;
    assert_eq!(shown.matches("<tr class=").count(), 200);
    assert!(!shown.contains("There are more"));
    lab.post("client=a&job=200").await;
    let shown = page(&lab).await.text;
    assert_eq!(shown.matches("<tr class=").count(), 200);
    assert!(shown.contains("There are more locks than this page shows."));
}

#[tokio::test]
async fn it_shows_locks_of_other_dialects_in_its_namespace_too() {
    let lab = Homelab::start().await;
    let held = lab.local.client.acquire("native", "worker", 60_000, json!({})).await;
    assert_eq!(held.status, 200);
    assert_eq!(row(&page(&lab).await, "native").expect("a row")[1], "worker");
}
