//! Tests of authentication: Basic with an API key, and the rights on files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_testkit::Response;

use crate::doors::dav::{DEEP, EXCLUSIVE, Scene, ZERO, is, says, shown, token};

const RULES: &str = r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "writers"
who = ["key:writer", "key:other"]
may = ["files-write"]
namespaces = ["files"]
locks = ["/docs", "/docs/*"]

[[rule]]
name = "inside"
who = ["key:inside"]
may = ["files-write"]
namespaces = ["files"]
locks = ["/docs/mine/*"]

[[rule]]
name = "readers"
who = ["key:reader"]
may = ["files-read"]
namespaces = ["files"]

[[rule]]
name = "admins"
who = ["key:admin"]
may = ["admin"]
namespaces = ["*"]
"#;
const NAMES: [&str; 5] = ["writer", "other", "inside", "reader", "admin"];

struct Guarded {
    scene: Scene,
    files: leasehold_testkit::Guarded,
}

impl Guarded {
    async fn new() -> Self {
        let files = leasehold_testkit::Guarded::new(RULES, &NAMES);
        let scene = Scene::with(|settings| settings.auth_file = Some(files.file())).await;
        let guarded = Self { scene, files };
        for line in ["MKCOL /docs", "MKCOL /docs/mine", "MKCOL /other"] {
            is(&guarded.ask("admin", line, &[], "").await, 201);
        }
        guarded
    }

    async fn ask(&self, who: &str, line: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let basic = format!("Basic {}", STANDARD.encode(format!("user:{}", self.files.key(who))));
        let mut all = headers.to_vec();
        if !who.is_empty() {
            all.push(("authorization", &basic));
        }
        self.scene.ask(line, &all, body).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_counts_for_the_paths_of_its_rule() {
    let guarded = Guarded::new().await;
    let to = |path| ("destination", path);
    for (who, line, headers, body, status) in [
        ("stranger", "PUT /docs/f", vec![], "x", 401),
        ("writer", "PUT /other/f", vec![], "x", 403),
        ("writer", "PUT /docs/f", vec![], "x", 201),
        ("writer", "COPY /docs/f", vec![to("/dav/other/g")], "", 403),
        ("writer", "MOVE /docs/f", vec![to("/dav/other/g")], "", 403),
        ("writer", "GET /other/f", vec![], "", 403),
        // A right to write inside a directory does not need a right on its parents.
        ("inside", "PUT /docs/mine/f", vec![], "x", 201),
        ("inside", "LOCK /docs/mine/f", vec![ZERO], EXCLUSIVE, 200),
        ("inside", "PUT /docs/f", vec![], "x", 403),
        ("inside", "MKCOL /docs/mine/d", vec![], "", 201),
        ("inside", "LOCK /docs", vec![DEEP], EXCLUSIVE, 403),
        ("inside", "DELETE /docs/mine", vec![], "", 403),
        ("admin", "DELETE /docs/mine", vec![], "", 423),
    ] {
        let answer = guarded.ask(who, line, &headers, body).await;
        assert_eq!(answer.status, status, "{who}: {line}: {answer:?}");
        if status == 401 {
            let challenge = answer.headers["www-authenticate"].to_str().unwrap();
            assert!(challenge.starts_with("Basic "), "{answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_not_parsed_for_those_without_the_right() {
    let guarded = Guarded::new().await;
    for (who, line, status) in [
        ("reader", "LOCK /docs/f", 403),
        ("reader", "PROPPATCH /docs/f", 403),
        ("reader", "MKCOL /docs/d", 403),
        ("writer", "PROPFIND /other/f", 403),
        ("writer", "LOCK /docs/f", 400),
        ("writer", "PROPPATCH /docs/f", 400),
        ("writer", "MKCOL /docs/d", 415),
        ("reader", "PROPFIND /other/f", 400),
    ] {
        let answer = guarded.ask(who, line, &[ZERO], "no XML").await;
        assert_eq!(answer.status, status, "{who}: {line}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_of_no_use_to_others() {
    let guarded = Guarded::new().await;
    let locked = guarded.ask("writer", "LOCK /docs", &[DEEP], EXCLUSIVE).await;
    let token = token(&locked);
    // Every principal that may read the file sees the token, as WebDAV requires.
    let body = "<propfind xmlns='DAV:'><prop><lockdiscovery/></prop></propfind>";
    says(&guarded.ask("reader", "PROPFIND /docs", &[ZERO], body).await, 207, &[&token]);
    let (list, header) = (shown(&token), format!("<{token}>"));
    let with = [("if", &*list)];
    says(&guarded.ask("other", "PUT /docs/f", &with, "x").await, 423, &["key:writer", "/dav/docs"]);
    is(&guarded.ask("other", "DELETE /docs", &with, "").await, 423);
    is(&guarded.ask("other", "LOCK /docs", &with, "").await, 412);
    is(&guarded.ask("other", "UNLOCK /docs", &[("lock-token", &header)], "").await, 403);
    is(&guarded.ask("writer", "PUT /docs/f", &with, "x").await, 201);
    is(&guarded.ask("writer", "UNLOCK /docs", &[("lock-token", &header)], "").await, 204);
    is(&guarded.ask("other", "PUT /docs/f", &[], "y").await, 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_something_of_others_in_it_is_not_removed() {
    let guarded = Guarded::new().await;
    is(&guarded.ask("admin", "MKCOL /docs/mine/d", &[], "").await, 201);
    is(&guarded.ask("admin", "PUT /docs/mine/d/f", &[], "x").await, 201);
    // The rule covers the directory's name and all names below it.
    is(&guarded.ask("inside", "DELETE /docs/mine/d", &[], "").await, 204);
    is(&guarded.ask("admin", "PUT /other/f", &[], "x").await, 201);
    let moved =
        guarded.ask("writer", "MOVE /docs", &[("destination", "/dav/other/docs")], "").await;
    is(&moved, 403);
    is(&guarded.ask("reader", "GET /docs/mine", &[], "").await, 200);
}
