//! Tests of concurrent writers of one file, through several worker threads and both paths.

use std::sync::Arc;

use hyper::Method;
use leasehold_testkit::settings;

use crate::doors::files::Home;

const N_ROUNDS: usize = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_those_who_want_to_be_the_first_one_is() {
    let mut settings = settings(None);
    settings.http.workers = 4;
    let home = Arc::new(Home::with(settings).await);
    let editor = home.editor().await;
    for round in 0..N_ROUNDS {
        let writers = (0..8).map(|n| {
            let (home, editor) = (home.clone(), editor.clone());
            let mount = if n % 2 == 0 { "" } else { "/files" };
            let path = format!("{mount}/f-{round}");
            tokio::spawn(async move {
                let first = [("if-none-match", "*")];
                let body = format!("writer {n}");
                home.send_with(Some(&editor), Method::PUT, &path, &first, &body).await.status
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut statuses = Vec::new();
        for writer in writers {
            statuses.push(writer.await.expect("no panic"));
        }
        let n_created = statuses.iter().filter(|status| **status == 201).count();
        assert_eq!(n_created, 1, "round {round}: {statuses:?}");
        // A request that arrives during another upload of the session can find the file locked.
        assert!(statuses.iter().all(|status| [201, 412, 423].contains(status)), "{statuses:?}");
    }
}
