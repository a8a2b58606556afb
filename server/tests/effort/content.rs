//! Tests of the cost of fields in the dialects that store content: files, Terraform, Git LFS, WebDAV.

use leasehold_testkit::Bare;

use super::field::{BODY, Field, HEAD, check_all, deep, get, joined, nested, post, x};
use super::{PATIENCE, alone, check};

const FILES_TERRAFORM_AND_LFS: &[Field] = &[
    ("path", |n| get(&format!("/{}", x(n))), 255, &[256, 4_096, HEAD]),
    ("encoded path", |n| get(&format!("/{}", "%61/".repeat(n))), 2_000, &[2_048, HEAD / 4]),
    (
        "if-none-match",
        |n| format!("{}\nif-none-match: {}", get("/f"), joined(n, |n| format!("\"{n}\""))),
        5_000,
        &[],
    ),
    (
        "range",
        |n| format!("{}\nrange: bytes={}", get("/f"), joined(n, |_| "0-1".into())),
        10_000,
        &[],
    ),
    ("folder", |n| get(&format!("/?cursor={}", x(n))), 255, &[]),
    ("state", |n| get(&format!("/terraform/{}", x(n))), 128, &[513, HEAD]),
    ("states", |n| get(&format!("/terraform{}", deep(n))), 1, &[4, HEAD / 2]),
    (
        "ID",
        |n| format!("LOCK /terraform/s{n}/lock\nhost: a\n\n{{\"ID\":\"{}\"}}", x(n)),
        256,
        &[257, BODY],
    ),
    (
        "Info",
        |n| format!("LOCK /terraform/t{n}/lock\nhost: a\n\n{{\"ID\":\"i\",\"Info\":\"{}\"}}", x(n)),
        16_000,
        &[16_400, BODY],
    ),
    (
        "lock info",
        |n| format!("LOCK /terraform/u{n}/lock\nhost: a\n\n{}", nested(n)),
        0,
        &[1, BODY / 2],
    ),
    ("repository", |n| get(&format!("/lfs{}/locks", deep(n))), 20, &[HEAD / 2]),
    (
        "lfs path",
        |n| post("/lfs/r/locks", &format!(r#"{{"path":"{}"}}"#, x(n))),
        200,
        &[5_000, BODY],
    ),
    (
        "deep lfs path",
        |n| post("/lfs/r/locks", &format!(r#"{{"path":"b{}"}}"#, deep(n))),
        100,
        &[5_000, BODY / 2],
    ),
    (
        "ref",
        |n| post("/lfs/r/locks", &format!(r#"{{"path":"p{n}","ref":{{"name":"{}"}}}}"#, x(n))),
        BODY,
        &[],
    ),
    (
        "objects",
        |n| {
            post(
                "/lfs/r/objects/batch",
                &format!(
                    r#"{{"operation":"download","objects":[{}]}}"#,
                    joined(n, |n| format!(r#"{{"oid":"{n:064x}","size":1}}"#))
                ),
            )
        },
        779,
        &[780],
    ),
    (
        "transfers",
        |n| {
            post(
                "/lfs/r/objects/batch",
                &format!(
                    r#"{{"operation":"download","transfers":[{}"basic"],"objects":[]}}"#,
                    r#""x","#.repeat(n)
                ),
            )
        },
        10_000,
        &[],
    ),
    ("lfs cursor", |n| get(&format!("/lfs/r/locks?cursor={}", x(n))), 0, &[HEAD]),
];

#[test]
fn files_terraform_and_lfs() {
    let _alone = alone();
    check_all(&Bare::new(), FILES_TERRAFORM_AND_LFS);
}

/// Depth of the deepest file that can be locked. A lock takes one lease for the file and one for each directory above
/// it, and the number of leases per lock is limited.
const DEEPEST: usize = 63;
const DEPTHS: [usize; 5] = [62, DEEPEST, DEEPEST + 1, 500, 2_000];

#[test]
fn files_however_deep() {
    let _alone = alone();
    let server = Bare::new();
    let opened = server.told(post("/auth/session", "{}").as_bytes(), PATIENCE).unwrap().1;
    let opened: serde_json::Value = serde_json::from_str(&opened).unwrap();
    let session = opened["sessionId"].as_str().unwrap();
    for n in DEPTHS {
        let path = deep(n);
        for line in [
            format!("GET {path}?lock=acquire"),
            format!("GET {path}?lock=release"),
            format!("GET {path}?lock=status"),
            format!("PUT {path}"),
            format!("DELETE {path}"),
            format!("POST {path}/"),
            format!("GET {path}"),
        ] {
            let text = format!("{line}\nhost: a\nauthorization: Bearer {session}\n\nx");
            let status = check(&server, &text, &format!("{} {n}", &line[..4]));
            assert!((200..500).contains(&status), "{status} for {line}");
            if line.ends_with("acquire") {
                assert_eq!(status == 400, n > DEEPEST, "{n}: {status}");
            }
        }
    }
}

/// Returns a valid body for a WebDAV method.
fn body(method: &str) -> &'static str {
    match method {
        "LOCK" => {
            "<lockinfo xmlns='DAV:'><lockscope><shared/></lockscope><locktype><write/></locktype></lockinfo>"
        }
        "PROPFIND" => "<propfind xmlns='DAV:'><prop><lockdiscovery/></prop></propfind>",
        "PROPPATCH" => "<propertyupdate xmlns='DAV:'><set><prop><a/></prop></set></propertyupdate>",
        "PUT" => "x",
        _ => "",
    }
}

#[test]
fn webdav_however_deep() {
    let _alone = alone();
    let server = Bare::new();
    for n in DEPTHS {
        let path = deep(n);
        let lists = format!("(<opaquelocktoken:x>)</dav{path}>(<opaquelocktoken:y>)");
        let conditions = ["", "\nif: (Not <a:b>)", &format!("\nif: </dav{path}>{lists}")];
        let methods = "LOCK UNLOCK PUT DELETE MKCOL COPY MOVE PROPFIND PROPPATCH".split(' ');
        for (method, condition) in methods.flat_map(|method| conditions.map(|it| (method, it))) {
            let headers =
                format!("lock-token: <a:b>\ndestination: /dav{path}/b\ndepth: 0{condition}");
            let text = format!("{method} /dav{path}\nhost: a\n{headers}\n\n{}", body(method));
            let what = format!("{method} {n} {}", &condition[..condition.len().min(20)]);
            let status = check(&server, &text, &what);
            assert!((400..500).contains(&status), "{what}: {status}");
        }
    }
}

const WEBDAV: &[Field] = &[
    (
        "lists",
        |n| format!("PUT /dav/f\nhost: a\nif: {}\n\nx", "(Not <a:b>)".repeat(n)),
        64,
        &[65, HEAD / 11],
    ),
    (
        "conditions",
        |n| format!("PUT /dav/f\nhost: a\nif: ({})\n\nx", "Not <a:b>".repeat(n)),
        64,
        &[65, HEAD / 9],
    ),
    (
        "tags",
        |n| {
            format!(
                "PUT /dav/f\nhost: a\nif: {}\n\nx",
                format!("({})", "Not [\"x\"]".repeat(64)).repeat(n)
            )
        },
        15,
        &[17, 64],
    ),
    (
        "addresses",
        |n| {
            format!(
                "PUT /dav/f\nhost: a\nif: {}(Not <a:b>)\n\nx",
                (0..n).map(|n| format!("</dav{}{n}>(<a:b>)", deep(60))).collect::<String>()
            )
        },
        16,
        &[17, 64],
    ),
    ("if", |n| format!("PUT /dav/f\nhost: a\nif: {}\n\nx", "(".repeat(n)), 0, &[1, HEAD]),
    (
        "timeout",
        |n| format!("LOCK /dav/f\nhost: a\ntimeout: {}\n\n", "x,".repeat(n)),
        0,
        &[1, HEAD / 2],
    ),
    ("lock-token", |n| format!("UNLOCK /dav/f\nhost: a\nlock-token: <{}>", x(n)), 0, &[1, HEAD]),
    (
        "destination",
        |n| format!("COPY /dav/f\nhost: a\ndestination: /dav{}", deep(n)),
        1,
        &[64, 2_000, HEAD / 2],
    ),
    ("depth", |n| format!("PROPFIND /dav/f\nhost: a\ndepth: {}", "1".repeat(n)), 1, &[2, HEAD]),
];

#[test]
fn webdav() {
    let _alone = alone();
    let server = Bare::new();
    check(&server, "PUT /dav/f\nhost: a\n\nx", "a file");
    check_all(&server, WEBDAV);
}
