//! Tests of the properties of files and directories.

use crate::doors::dav::{DEEP, Scene, ZERO, is, says};

const SET: &str = "<D:propertyupdate xmlns:D='DAV:' xmlns:x='urn:x'><D:set><D:prop><x:a>1 &lt; 2<x:b c='d'/></x:a>\
    <plain>p</plain></D:prop></D:set></D:propertyupdate>";
const ONE: (&str, &str) = ("depth", "1");

fn wanting(names: &str) -> String {
    format!("<propfind xmlns='DAV:' xmlns:x='urn:x'><prop>{names}</prop></propfind>")
}

#[tokio::test]
async fn every_file_and_folder_tells_what_it_is() {
    let scene = Scene::new().await;
    is(&scene.plain("MKCOL /d").await, 201);
    let written = scene.ask("PUT /d/f%20%26.txt", &[("content-type", "text/x-y")], "12345").await;
    is(&written, 201);
    let tag = written.headers["etag"].to_str().unwrap().replace('"', "&quot;");
    let found = scene.ask("PROPFIND /d", &[ONE], "").await;
    says(
        &found,
        207,
        &["<D:href>/dav/d/</D:href>", "<D:collection/>", "<D:href>/dav/d/f%20%26.txt</D:href>"],
    );
    says(
        &found,
        207,
        &[
            "<D:getcontentlength>5<",
            "<D:getcontenttype>text/x-y<",
            &tag,
            "<D:displayname>f &amp;.txt<",
        ],
    );
    says(&found, 207, &["<D:lockdiscovery></D:lockdiscovery>", "<D:supportedlock><D:lockentry>"]);
    assert!(!found.text.contains("quota"), "{found:?}");
    let some =
        scene.ask("PROPFIND /d/f%20%26.txt", &[ZERO], wanting("<getcontentlength/><x:no/>")).await;
    says(
        &some,
        207,
        &["<D:getcontentlength>5<", "200 OK", "<x:no xmlns:x=\"urn:x\"/>", "404 Not Found"],
    );
    let quota = wanting("<quota-available-bytes/><quota-used-bytes/>");
    says(&scene.ask("PROPFIND /", &[ZERO], quota).await, 207, &["<D:quota-used-bytes>5<"]);
    let names = "<propfind xmlns='DAV:'><propname/></propfind>";
    says(
        &scene.ask("PROPFIND /d", &[ZERO], names).await,
        207,
        &["<D:resourcetype xmlns:D=\"DAV:\"/>"],
    );
    is(&scene.ask("PROPFIND /none", &[ZERO], "").await, 404);
    for headers in [&[][..], &[DEEP]] {
        says(
            &scene.ask("PROPFIND /d", headers, "").await,
            403,
            &["propfind-finite-depth", "Depth"],
        );
    }
    is(&scene.ask("PROPFIND /d/f%20%26.txt", &[DEEP], "").await, 207);
}

#[tokio::test]
async fn what_clients_set_goes_where_the_file_goes() {
    let scene = Scene::new().await;
    is(&scene.plain("MKCOL /d").await, 201);
    is(&scene.put("/d/f", "1").await, 201);
    says(&scene.ask("PROPPATCH /d/f", &[], SET).await, 207, &["200 OK"]);
    says(&scene.ask("PROPPATCH /d", &[], SET).await, 207, &["<D:href>/dav/d/</D:href>"]);
    let value = "<x:a xmlns:x=\"urn:x\">1 &lt; 2<x:b xmlns:x=\"urn:x\" c=\"d\"/></x:a>";
    let has = async |path: &str| {
        let found = scene.ask(&format!("PROPFIND {path}"), &[ZERO], wanting("<x:a/>")).await;
        is(&found, 207);
        found.text.contains(value)
    };
    assert!(has("/d/f").await && has("/d").await);
    // New content does not make it a different file, whichever client writes it.
    is(&scene.put("/d/f", "2").await, 204);
    assert!(has("/d/f").await);
    is(&scene.ask("COPY /d", &[("destination", "/dav/c")], "").await, 201);
    is(&scene.ask("MOVE /d", &[("destination", "/dav/m")], "").await, 201);
    for path in ["/c", "/c/f", "/m", "/m/f"] {
        assert!(has(path).await, "{path}");
    }
    is(&scene.plain("DELETE /m/f").await, 204);
    is(&scene.put("/m/f", "3").await, 201);
    assert!(!has("/m/f").await, "a new file has nothing of the old one");
    let all = scene.ask("PROPFIND /c/f", &[ZERO], "").await;
    says(&all, 207, &[value, "<plain>p</plain>"]);
    let remove = "<propertyupdate xmlns='DAV:' xmlns:x='urn:x'><remove><prop><x:a/><x:none/></prop></remove>\
        </propertyupdate>";
    says(&scene.ask("PROPPATCH /c/f", &[], remove).await, 207, &["200 OK"]);
    assert!(!has("/c/f").await);
}

#[tokio::test]
async fn properties_are_set_together_or_not_at_all() {
    let scene = Scene::with(|settings| settings.dialect.dav.properties_bytes_max = 1000).await;
    is(&scene.put("/f", "1").await, 201);
    let mixed = "<propertyupdate xmlns='DAV:' xmlns:x='urn:x'><set><prop><x:a/><getetag>no</getetag></prop></set>\
        </propertyupdate>";
    let answer = scene.ask("PROPPATCH /f", &[], mixed).await;
    says(&answer, 207, &["403 Forbidden", "424 Failed Dependency"]);
    let named = "<propertyupdate xmlns='DAV:'><set><prop><displayname>N</displayname></prop></set></propertyupdate>";
    says(&scene.ask("PROPPATCH /f", &[], named).await, 207, &["200 OK"]);
    let found = scene.ask("PROPFIND /f", &[ZERO], wanting("<displayname/><x:a/>")).await;
    says(&found, 207, &[">N<", "404 Not Found"]);
    let large = SET.replace("1 &lt; 2", &"y".repeat(2000));
    says(&scene.ask("PROPPATCH /f", &[], large).await, 507, &["dav-properties-bytes-max"]);
    assert!(!scene.ask("PROPFIND /f", &[ZERO], "").await.text.contains("yyy"));
    is(&scene.ask("PROPPATCH /none", &[], SET).await, 404);
    is(&scene.ask("PROPPATCH /f", &[], "<propertyupdate xmlns='DAV:'/>").await, 400);
    is(&scene.ask("PROPPATCH /f", &[], "").await, 400);
}

#[tokio::test]
async fn locks_are_shown_where_they_are_and_where_they_reach() {
    let scene = Scene::new().await;
    for folder in ["/d", "/d/in"] {
        is(&scene.plain(&format!("MKCOL {folder}")).await, 201);
    }
    for file in ["/d/f", "/d/in/g", "/top"] {
        is(&scene.put(file, "1").await, 201);
    }
    let deep = scene.lock("/d", &[DEEP]).await;
    let file = scene.lock("/top", &[ZERO]).await;
    let tokens = async |path: &str, depth| {
        let found =
            scene.ask(&format!("PROPFIND {path}"), &[depth], wanting("<lockdiscovery/>")).await;
        is(&found, 207);
        [&deep, &file].map(|token| found.text.matches(&**token).count())
    };
    assert_eq!(tokens("/", ZERO).await, [0, 0]);
    assert_eq!(tokens("/", ONE).await, [1, 1]);
    assert_eq!(tokens("/d", ZERO).await, [1, 0]);
    assert_eq!(tokens("/d", ONE).await, [3, 0]);
    assert_eq!(tokens("/d/in", ONE).await, [2, 0]);
    assert_eq!(tokens("/top", ZERO).await, [0, 1]);
    // A write in progress is not shown as a lock.
    is(&scene.ask("PROPFIND /d/in/g", &[ZERO], "").await, 207);
}

#[tokio::test]
async fn a_large_folder_is_told_in_pieces() {
    let scene = Scene::new().await;
    is(&scene.plain("MKCOL /d").await, 201);
    for n in 0..1203 {
        std::fs::write(scene.on_disk(&format!("d/{n:05}")), "").unwrap();
    }
    let found = scene.ask("PROPFIND /d", &[ONE], wanting("<resourcetype/>")).await;
    is(&found, 207);
    assert_eq!(found.text.matches("<D:response>").count(), 1204);
    assert!(found.text.ends_with("</D:multistatus>\n"));
}
