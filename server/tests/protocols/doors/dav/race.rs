//! Two principals share a folder, each with files of its own: what one does to the folder never reaches a file that the
//! other adds in the meantime.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_testkit::Response;

use crate::doors::dav::{Scene, is};

const RULES: &str = r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "one"
who = ["key:one"]
may = ["files-write"]
namespaces = ["files"]
locks = ["/box", "/box/", "/box/1*", "/to", "/to/", "/to/*"]

[[rule]]
name = "two"
who = ["key:two"]
may = ["files-write"]
namespaces = ["files"]
locks = ["/box/2*"]
"#;
/// Looking at so many takes a while.
const N_FILES: usize = 300;
const N_TRIALS: usize = 8;

struct Shared {
    scene: Scene,
    files: leasehold_testkit::Guarded,
}

impl Shared {
    async fn new() -> Self {
        let files = leasehold_testkit::Guarded::new(RULES, &["one", "two"]);
        let scene = Scene::with(|settings| settings.auth_file = Some(files.file())).await;
        Self { scene, files }
    }

    async fn ask(&self, who: &str, line: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let basic = format!("Basic {}", STANDARD.encode(format!("user:{}", self.files.key(who))));
        let headers = [headers, &[("authorization", &*basic)]].concat();
        self.scene.ask(line, &headers, body).await
    }

    /// A folder with many files of the first.
    fn fill(&self) {
        for folder in ["box", "to"] {
            let _ = std::fs::remove_dir_all(self.scene.on_disk(folder));
        }
        std::fs::create_dir(self.scene.on_disk("box")).unwrap();
        for n in 0..N_FILES {
            std::fs::write(self.scene.on_disk(&format!("box/1-{n}")), "1").unwrap();
        }
    }

    /// What the first is answered while the second puts files into the folder, and whether the second put any.
    async fn race(&self, line: &str) -> (u16, bool) {
        self.fill();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let first = async {
            let answer = loop {
                let answer = self.ask("one", line, &[("destination", "/dav/to")], "").await;
                if answer.status != 423 {
                    break answer;
                }
            };
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            answer.status
        };
        let second = async {
            let mut has_put = false;
            for n in 0.. {
                let put = self.ask("two", &format!("PUT /box/2-{n}"), &[], "2").await;
                has_put |= put.status == 201;
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
            has_put
        };
        tokio::join!(first, second)
    }
}

fn has_others(folder: &std::path::Path) -> bool {
    std::fs::read_dir(folder)
        .unwrap()
        .any(|entry| entry.unwrap().file_name().to_str().unwrap().starts_with('2'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_has_nothing_that_was_put_there_while_it_was_made() {
    let shared = Shared::new().await;
    for _ in 0..N_TRIALS {
        let (status, has_put) = shared.race("COPY /box").await;
        if status == 201 {
            assert!(!has_others(&shared.scene.on_disk("to")), "copied without a right to it");
        } else {
            assert!(status == 403 && has_put, "{status}");
            assert!(!shared.scene.on_disk("to").exists());
        }
        assert_eq!(has_others(&shared.scene.on_disk("box")), has_put);
    }
    shared.fill();
    is(&shared.ask("one", "COPY /box", &[("destination", "/dav/to")], "").await, 201);
    let left = std::fs::read_dir(shared.scene.on_disk(".leasehold/incoming")).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_put_there_meanwhile_is_removed_or_moved() {
    let shared = Shared::new().await;
    for line in ["DELETE /box", "MOVE /box"] {
        for _ in 0..N_TRIALS {
            let (status, has_put) = shared.race(line).await;
            let is_done = [201, 204].contains(&status);
            assert!(is_done || status == 403, "{line}: {status}");
            // Its file was there before, and then the folder stays; or there was no folder to put it into any more.
            assert_eq!(has_put, !is_done, "{line}: {status}");
            assert_eq!(shared.scene.on_disk("box").exists(), !is_done, "{line}: {status}");
        }
    }
}
