//! Tests of sockets, links and other things that other programs put into the directory.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use leasehold_server::serve::{Server, Settings};
use leasehold_testkit::{folder, settings};

use crate::doors::files::Home;

#[tokio::test]
async fn a_socket_is_no_file() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.put(&editor, "/dir/file", "x").await;
    let _socket = UnixListener::bind(home.on_disk("dir/socket")).expect("a socket");
    assert_eq!(home.get("/dir/socket").await.status, 404);
    let listed = home.get("/dir/").await;
    assert!(listed.text.contains("/dir/file") && !listed.text.contains("socket"), "{listed:?}");
}

#[tokio::test]
async fn a_link_in_place_of_our_own_folder_deletes_nothing_elsewhere() {
    for planted in [".leasehold", ".leasehold/incoming"] {
        let (files, elsewhere) = (folder(), folder());
        let target = elsewhere.path().join("incoming");
        std::fs::create_dir(&target).expect("a folder");
        for precious in [target.join("precious"), elsewhere.path().join("precious")] {
            std::fs::write(precious, "x").expect("a file");
        }
        let link = files.path().join(planted);
        std::fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
        let to = if planted == ".leasehold" { elsewhere.path() } else { &target };
        symlink(to, &link).expect("a link");
        let settings = Settings { files: Some(files.path().into()), ..settings(None) };
        let Err(error) = Server::start(settings).await else { panic!("{planted}: it started") };
        assert!(error.to_string().contains("is a link"), "{planted}: {error}");
        assert!(target.join("precious").exists(), "{planted}");
    }
}

#[tokio::test]
async fn what_an_earlier_server_left_unfinished_is_removed() {
    let files = folder();
    let draft = files.path().join(".leasehold/incoming/0");
    std::fs::create_dir_all(draft.parent().expect("a folder")).expect("a folder");
    std::fs::write(&draft, "half").expect("a file");
    let settings = Settings { files: Some(files.path().into()), ..settings(None) };
    let server = Server::start(settings).await.expect("a start");
    assert!(!draft.exists());
    server.stop().await.expect("a good end");
}
