//! Tests of files and folders with so many locks that no response shows all of them.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::doors::dav::{DEEP, Scene, ZERO, is, says, shown, token};

/// A shared lock with the longest `owner`.
fn longest() -> String {
    format!(
        "<lockinfo xmlns='DAV:'><lockscope><shared/></lockscope><locktype><write/></locktype><owner>{}</owner>\
         </lockinfo>",
        "o".repeat(15_000)
    )
}

impl Scene {
    async fn share(&self, path: &str, depth: (&str, &str)) -> String {
        let locked = self.ask(&format!("LOCK {path}"), &[depth], longest()).await;
        is(&locked, 200);
        token(&locked)
    }

    async fn answers_bytes(&self) -> u64 {
        let text = self.local.client.get("/metrics").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix("leasehold_answers_bytes "));
        line.unwrap().parse().unwrap()
    }
}

/// The server reads a lock with many holders in part. Five locks of others used to hide a lock from its own holder.
#[tokio::test]
async fn a_lock_stays_its_holders_however_many_others_share_it() {
    let scene = Scene::new().await;
    is(&scene.plain("MKCOL /d").await, 201);
    is(&scene.put("/d/f", "1").await, 201);
    for (path, depth) in [("/d/f", ZERO), ("/d", DEEP)] {
        let own = scene.share(path, depth).await;
        for _ in 0..8 {
            scene.share(path, depth).await;
        }
        let list = shown(&own);
        is(&scene.ask(&format!("LOCK {path}"), &[("if", &list)], "").await, 200);
        is(&scene.ask("PUT /d/f", &[("if", &list)], "2").await, 204);
        let bracketed = format!("<{own}>");
        is(&scene.ask(&format!("UNLOCK {path}"), &[("lock-token", &bracketed)], "").await, 204);
        is(&scene.ask(&format!("LOCK {path}"), &[("if", &list)], "").await, 412);
        is(&scene.ask(&format!("DELETE =/admin/locks{path}"), &[], "").await, 200);
    }
}

#[tokio::test]
async fn a_response_shows_some_of_many_locks() {
    let scene = Scene::new().await;
    let (mut path, mut folders) = (String::new(), Vec::new());
    for _ in 0..4 {
        path.push_str("/d");
        is(&scene.plain(&format!("MKCOL {path}")).await, 201);
        folders.push(path.clone());
    }
    for folder in &folders {
        for _ in 0..4 {
            scene.share(folder, DEEP).await;
        }
    }
    is(&scene.put("/free", "1").await, 201);
    let found = scene.ask(&format!("PROPFIND {path}"), &[ZERO], "").await;
    says(&found, 207, &["<D:activelock>"]);
    assert!(found.text.len() < 128 * 1024, "{} bytes", found.text.len());
    let found = scene.ask("PROPFIND /free", &[ZERO], "").await;
    assert!(!found.text.contains("<D:activelock>"), "{found:?}");
}

/// Such a response used to count in no budget.
#[tokio::test]
async fn properties_of_a_large_folder_are_sent_to_few_at_a_time() {
    let scene = Scene::with(|settings| settings.http.answers_bytes_max = 1).await;
    is(&scene.plain("MKCOL /d").await, 201);
    for n in 0..400 {
        is(&scene.put(&format!("/d/f{n}"), "1").await, 201);
    }
    for _ in 0..4 {
        scene.share("/d", DEEP).await;
    }
    let mut stream = TcpStream::connect(scene.local.address).await.unwrap();
    let head = "PROPFIND /dav/d HTTP/1.1\r\nhost: x\r\ndepth: 1\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 207");
    assert_eq!(scene.answers_bytes().await, 256 * 1024);
    let refused = scene.ask("PROPFIND /d", &[("depth", "1")], "").await;
    says(&refused, 503, &["262144 bytes", "(answers-bytes-max)"]);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.contains("</D:multistatus>") && rest.len() > 16 << 20, "{} bytes", rest.len());
    assert_eq!(rest.matches("<D:response>").count(), 401);
    let is_free = async |_: &_| scene.answers_bytes().await == 0;
    scene.local.until("there is room again", is_free).await;
    is(&scene.ask("PROPFIND /d", &[("depth", "1")], "").await, 207);
}
