//! Tests of two principals that share a directory, each with its own files. A request of one on the directory never
//! affects a file that the other adds at the same time.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_testkit::Response;

use crate::doors::dav::{DEEP, EXCLUSIVE, SHARED, Scene, is, shown, token};

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

[[rule]]
name = "also the folder"
who = ["key:two-shared"]
may = ["files-write"]
namespaces = ["files"]
locks = ["/box", "/box/", "/box/2*"]
"#;
/// So many files that a request on the directory takes a while.
const N_FILES: usize = 300;
const N_TRIALS: usize = 8;

struct Shared {
    scene: Scene,
    files: leasehold_testkit::Guarded,
}

impl Shared {
    async fn new() -> Self {
        let files = leasehold_testkit::Guarded::new(RULES, &["one", "two", "two-shared"]);
        let scene = Scene::with(|settings| settings.auth_file = Some(files.file())).await;
        Self { scene, files }
    }

    async fn ask(&self, who: &str, line: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let basic = format!("Basic {}", STANDARD.encode(format!("user:{}", self.files.key(who))));
        let headers = [headers, &[("authorization", &*basic)]].concat();
        self.scene.ask(line, &headers, body).await
    }

    /// Recreates the directory with many files of the first principal.
    fn fill(&self) {
        for folder in ["box", "to"] {
            let _ = std::fs::remove_dir_all(self.scene.on_disk(folder));
        }
        std::fs::create_dir(self.scene.on_disk("box")).unwrap();
        for n in 0..N_FILES {
            std::fs::write(self.scene.on_disk(&format!("box/1-{n}")), "1").unwrap();
        }
    }

    /// Sends a request of the first principal while the second adds files to the directory. Returns the status, and
    /// whether the second added any.
    async fn race(&self, line: &str) -> (u16, bool) {
        self.fill();
        self.meet((line, &[]), "two", async |n| match n % 3 {
            0 => self.ask("two", &format!("PUT /box/2-{n}"), &[], "2").await.status,
            1 => self.ask("two", &format!("MKCOL /box/2-{n}"), &[], "").await.status,
            _ => self.lock_for_a_moment(&format!("/box/2-{n}")).await,
        })
        .await
    }

    /// Does the same while both hold a shared lock on the directory, so that neither locks the other out.
    async fn race_sharing(&self, line: &str) -> (u16, bool) {
        self.fill();
        let [one, two] = [self.share("one").await, self.share("two-shared").await];
        let two = [("if", &*two)];
        let put =
            async |n| self.ask("two-shared", &format!("PUT /box/2-{n}"), &two, "2").await.status;
        let met = self.meet((line, &[("if", &*one)]), "two-shared", put).await;
        for (who, list) in [("one", &*one), ("two-shared", two[0].1)] {
            let token = list.trim_matches(['(', ')']);
            self.ask(who, "UNLOCK /box", &[("lock-token", token)], "").await;
        }
        met
    }

    async fn meet(
        &self,
        (line, headers): (&str, &[(&str, &str)]),
        second: &str,
        put: impl AsyncFn(usize) -> u16,
    ) -> (u16, bool) {
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let headers = [headers, &[("destination", "/dav/to")]].concat();
        let first = async {
            let answer = loop {
                let answer = self.ask("one", line, &headers, "").await;
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
                let status = put(n).await;
                // Either the directory exists and the file is added, or nothing is created.
                assert!([201, 409, 423].contains(&status), "{second} {n}: {status}");
                has_put |= status == 201;
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
            has_put
        };
        tokio::join!(first, second)
    }

    /// Locks a path where no file exists, which creates an empty file, and unlocks it.
    async fn lock_for_a_moment(&self, path: &str) -> u16 {
        let locked = self.ask("two", &format!("LOCK {path}"), &[], EXCLUSIVE).await;
        if locked.status == 201 {
            let token = format!("<{}>", token(&locked));
            let unlock = format!("UNLOCK {path}");
            is(&self.ask("two", &unlock, &[("lock-token", &token)], "").await, 204);
        }
        locked.status
    }

    /// Acquires a shared lock on the whole directory tree.
    async fn share(&self, who: &str) -> String {
        let locked = self.ask(who, "LOCK /box", &[DEEP], SHARED).await;
        is(&locked, 200);
        shown(&token(&locked))
    }

    /// Checks the result of a race. Either the directory was removed or moved before the second principal added a file,
    /// and none was added later, or it is still there with the added files.
    fn check_gone_or_kept(&self, line: &str, (status, has_put): (u16, bool)) {
        let is_done = [201, 204].contains(&status);
        assert!(is_done || status == 403, "{line}: {status}");
        let (from, to) = (self.scene.on_disk("box"), self.scene.on_disk("to"));
        let is_there = |folder: &std::path::Path| folder.exists().then(|| others(folder));
        let now =
            format!("{line}: {status}, /box: {:?}, /to: {:?}", is_there(&from), is_there(&to));
        assert_eq!(has_put, !is_done, "{now}");
        assert_eq!(from.exists(), !is_done, "{now}");
        assert_eq!(to.exists(), is_done && line.starts_with("MOVE"), "{now}");
        for folder in [from, to].iter().filter(|folder| folder.exists()) {
            assert_eq!(has_others(folder), !is_done, "{now}");
            let n_own = std::fs::read_dir(folder).unwrap().count() - others(folder).len();
            assert_eq!(n_own, N_FILES, "{now}");
        }
    }
}

/// Returns the names of the files that the second principal added.
fn others(folder: &std::path::Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('2')).collect()
}

fn has_others(folder: &std::path::Path) -> bool {
    !others(folder).is_empty()
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
            shared.check_gone_or_kept(line, shared.race(line).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_another_holder_of_a_shared_lock_put_there_is_removed_or_moved() {
    let shared = Shared::new().await;
    for line in ["DELETE /box", "MOVE /box"] {
        for _ in 0..N_TRIALS {
            shared.check_gone_or_kept(line, shared.race_sharing(line).await);
        }
    }
}
