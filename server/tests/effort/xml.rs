//! Tests of WebDAV bodies that are built to be expensive.

use leasehold_testkit::Bare;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{alone, check};

/// Maximum body size.
const BYTES_MAX: usize = 64 * 1024;

fn server() -> Bare {
    let server = Bare::new();
    check(&server, "PUT /dav/f\nhost: a\n\nx", "a file");
    server
}

/// Returns a valid body for the method, with `inner` inside and `open` in its first tag.
fn wrapped(method: &str, open: &str, inner: &str) -> String {
    let (before, after) = match method {
        "LOCK" => (
            "<D:lockinfo xmlns:D='DAV:'%><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype>\
             <D:owner>",
            "</D:owner></D:lockinfo>",
        ),
        "PROPPATCH" => (
            "<D:propertyupdate xmlns:D='DAV:'%><D:set><D:prop>",
            "</D:prop></D:set></D:propertyupdate>",
        ),
        "PROPFIND" => ("<D:propfind xmlns:D='DAV:'%><D:prop>", "</D:prop></D:propfind>"),
        _ => unreachable!("not a method with a body"),
    };
    let head = before.replace('%', open);
    let mut room = BYTES_MAX - head.len() - after.len();
    while !inner.is_char_boundary(room.min(inner.len())) {
        room -= 1;
    }
    format!("{head}{}{after}", &inner[..room.min(inner.len())])
}

const METHODS: [&str; 3] = ["LOCK", "PROPPATCH", "PROPFIND"];

fn ask(server: &Bare, method: &str, body: &str, what: &str) -> u16 {
    assert!(body.len() <= BYTES_MAX, "{what}: {} bytes", body.len());
    let text = format!("{method} /dav/f\nhost: a\ndepth: 0\n\n{body}");
    check(server, &text, &format!("{method}, {what}"))
}

fn times(n: usize, piece: impl Fn(usize) -> String) -> String {
    (0..n).map(piece).collect()
}

#[test]
fn namespaces_elements_and_attributes_cost_no_more_than_their_bytes() {
    let _alone = alone();
    let server = server();
    let declared = |n: usize| times(n, |n| format!(" xmlns:n{n}='u'"));
    let long = "n".repeat(20_000);
    let within = |n: usize| format!(" xmlns:x='{}'", "n".repeat(n));
    let attributes = times(31, |n| format!(" x:a{n}=''"));
    let same_namespace = format!("<a{attributes}/>").repeat(200);
    let cases = [
        ("the most namespaces, and elements", declared(3100), "<a/>".repeat(1770)),
        ("namespaces in force, few enough", declared(31), "<a xmlns='u'/>".repeat(4000)),
        ("each element declares one", declared(30), "<n0:a xmlns:x='u'/>".repeat(960)),
        ("as many lookups as there is room for", declared(31), "<n30:a n30:b=''/>".repeat(3000)),
        ("elements", String::new(), "<a/>".repeat(16_000)),
        ("pairs of tags", String::new(), "<a></a>".repeat(9_000)),
        ("different names", String::new(), times(8_000, |n| format!("<a{n:x}/>"))),
        (
            "attributes of one element",
            String::new(),
            format!("<a{}/>", times(7_000, |n| format!(" a{n}=''"))),
        ),
        (
            "attributes of many elements",
            String::new(),
            times(500, |_| format!("<a{}/>", times(31, |n| format!(" a{n}=''")))),
        ),
        ("a long namespace", format!(" xmlns:x='{long}'"), "<x:a/>".repeat(7_000)),
        ("attributes in the longest namespace", within(1024), same_namespace.clone()),
        ("attributes in a long namespace", within(BYTES_MAX / 2), same_namespace.clone()),
        ("a long language", format!(" xml:lang='{long}'"), "<a/>".repeat(10_000)),
        ("a long prefix", format!(" xmlns:{long}='u'"), format!("<{long}:a/>").repeat(2)),
        ("references", String::new(), "&amp;".repeat(13_000)),
        (
            "an attribute of references",
            String::new(),
            format!("<a b='{}'/>", "&#38;".repeat(12_000)),
        ),
        ("sections", String::new(), "<![CDATA[a]]>a".repeat(4_000)),
        ("comments", String::new(), "<!---->".repeat(9_000)),
        ("instructions", String::new(), "<?a?>".repeat(12_000)),
        ("deep", String::new(), "<a>".repeat(20_000)),
        ("comments without end", String::new(), "<!--".repeat(15_000)),
        ("sections without end", String::new(), "<![CDATA[".repeat(7_000)),
        ("values without end", String::new(), "<a b='".repeat(10_000)),
        ("end tags", String::new(), "</".repeat(30_000)),
        ("tags in tags", String::new(), "<a ".repeat(20_000)),
        ("text", String::new(), "x\n".repeat(30_000)),
    ];
    for (what, open, inner) in &cases {
        for method in METHODS {
            ask(&server, method, &wrapped(method, open, inner), what);
        }
    }
}

#[test]
fn the_largest_bodies_that_are_accepted_are_and_one_more_is_refused() {
    let _alone = alone();
    let server = server();
    let declared = |n: usize| times(n, |n| format!(" xmlns:n{n}='u'"));
    let names = |n: usize| times(n, |n| format!("<a{n}/>"));
    let attributes = |n: usize| format!("<a{}/>", times(n, |n| format!(" a{n}=''")));
    let within = |n: usize| format!("{}{}", "<a>".repeat(n), "</a>".repeat(n));
    // The prefix of `DAV:` is one of the declarations that count.
    for (method, open, inner, is_good) in [
        ("LOCK", declared(31), String::new(), true),
        ("LOCK", declared(32), String::new(), false),
        ("LOCK", String::new(), "<a xmlns='u'/>".repeat(999), false),
        ("PROPPATCH", String::new(), format!("<a>{}</a>", "<b xmlns='u'/>".repeat(999)), true),
        ("PROPPATCH", String::new(), format!("<a>{}</a>", "<b xmlns='u'/>".repeat(1000)), false),
        ("PROPFIND", format!(" xmlns:n='{}'", "u".repeat(1024)), names(1), true),
        ("PROPFIND", format!(" xmlns:n='{}'", "u".repeat(1025)), names(1), false),
        ("PROPFIND", String::new(), names(256), true),
        ("PROPFIND", String::new(), names(257), false),
        ("PROPPATCH", String::new(), names(500), true),
        ("PROPPATCH", String::new(), names(1001), false),
        ("PROPPATCH", String::new(), attributes(32), true),
        ("PROPPATCH", String::new(), attributes(33), false),
        ("PROPPATCH", String::new(), within(61), true),
        ("PROPPATCH", String::new(), within(62), false),
    ] {
        let body = wrapped(method, &open, &inner);
        let status = ask(&server, method, &body, "the most");
        let is_refused = [400, 507].contains(&status);
        let shown = &body[..body.len().min(200)];
        assert_eq!(is_refused, !is_good, "{method} {status} {} bytes: {shown}", body.len());
    }
}

/// Building blocks of random bodies, used once or repeated.
const PIECES: [&str; 20] = [
    "<a>",
    "</a>",
    "<b/>",
    "<n1:c/>",
    "<d xmlns='u:v'/>",
    "<e xmlns:n1='w'>",
    "</e>",
    "<f g='h'/>",
    "<i n1:j='k' l='m'/>",
    " xmlns:n2='",
    "'",
    "\"",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?p ",
    "?>",
    "&lt;",
    "text > ",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_body_costs_much(
        which in 0..METHODS.len(),
        n_declared in 0_usize..40,
        pieces in vec((0..PIECES.len(), prop_oneof![Just(1_usize), 1_usize..100, 1_usize..20_000]), 1..40),
    ) {
        thread_local! {
            static SERVER: Bare = server();
        }
        let _alone = alone();
        let open = times(n_declared, |n| format!(" xmlns:n{n}='u{n}'"));
        let mut inner = String::new();
        for (piece, n) in pieces {
            if inner.len() < BYTES_MAX {
                inner += &PIECES[piece].repeat(n);
            }
        }
        SERVER.with(|server| ask(server, METHODS[which], &wrapped(METHODS[which], &open, &inner), "fuzzed"));
    }
}
