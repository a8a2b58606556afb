//! Code examples for the command line and each SDK. All names are quoted by the rules of the language, so that the
//! examples can be pasted.

use leasehold_base::text::is_hidden;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The lock that an example acquires.
pub(super) struct Wish<'a> {
    /// The URL of the server.
    pub(super) url: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) ttl_s: u64,
    /// `true` if the client needs an API key.
    pub(super) has_key: bool,
}

/// The name of a language, and the function that writes an example in it.
type Language = (&'static str, fn(&Wish<'_>) -> String);

pub(super) const LANGUAGES: [Language; 6] = [
    ("Command line", command),
    ("curl", curl),
    ("Rust", rust),
    ("Python", python),
    ("TypeScript", typescript),
    ("Go", go),
];

/// The characters to percent-encode in a path: all except those that are always safe.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn in_path(text: &str) -> String {
    // Clients resolve a segment of only dots, which leads to another path.
    match text {
        "." | ".." => text.replace('.', "%2E"),
        _ => utf8_percent_encode(text, IN_PATH).to_string(),
    }
}

/// Quotes text as one word for a shell.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        true => text.into(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Quotes text as a string literal for Python, TypeScript and Go: a JSON string is valid in all of them. Invisible
/// characters are written as their code point. The function `beyond` writes code points above U+FFFF, for which each
/// language has a different notation.
fn quoted(text: &str, beyond: fn(u32) -> String) -> String {
    let json = serde_json::Value::from(text).to_string();
    let mut seen = String::with_capacity(json.len());
    for c in json.chars() {
        match u32::from(c) {
            _ if !is_hidden(c) => seen.push(c),
            number @ 0..=0xffff => seen.push_str(&format!("\\u{number:04x}")),
            number => seen.push_str(&beyond(number)),
        }
    }
    seen
}

/// Writes a code point as Python and Go do.
fn eight_digits(number: u32) -> String {
    format!("\\U{number:08x}")
}

/// Writes a code point as TypeScript does.
fn in_braces(number: u32) -> String {
    format!("\\u{{{number:x}}}")
}

fn command(wish: &Wish<'_>) -> String {
    let Wish { url, namespace, name, ttl_s, has_key } = wish;
    let key = if *has_key { "export LEASEHOLD_API_KEY=lh_...\n" } else { "" };
    let url = word(url);
    // A value that starts with a dash would be parsed as another flag.
    let namespace = match namespace.starts_with('-') {
        true => format!("--namespace={}", word(namespace)),
        false => format!("--namespace {}", word(namespace)),
    };
    let dashes = if name.starts_with('-') { "-- " } else { "" };
    format!(
        "export LEASEHOLD_URL={url}\n{key}leasehold run {namespace} --ttl {ttl_s}s {dashes}{} ./job.sh",
        word(name)
    )
}

fn curl(wish: &Wish<'_>) -> String {
    let Wish { url, namespace, name, ttl_s, has_key } = wish;
    let key = if *has_key { " \\\n  -H \"Authorization: Bearer $LEASEHOLD_API_KEY\"" } else { "" };
    // Without this flag, curl would remove these segments from the path.
    let is_way = |text: &str| matches!(text, "." | "..");
    let as_is = if is_way(namespace) || is_way(name) { "--path-as-is " } else { "" };
    let path =
        format!("{url}/v1/namespaces/{}/locks/{}/acquire", in_path(namespace), in_path(name));
    format!(
        "curl {as_is}{}{key} \\\n  --json '{{\"owner_id\": \"me\", \"ttl_ms\": {}, \"wait_ms\": 60000}}'\n\
         # the response has lease_id and fencing_token; both are needed to renew and to release",
        word(&path),
        ttl_s * 1000
    )
}

fn rust(wish: &Wish<'_>) -> String {
    let Wish { url, namespace, name, ttl_s, .. } = wish;
    format!(
        "use std::time::Duration;\n\n\
         let client = leasehold::Client::builder({url:?}).namespace({namespace:?}).build()?;\n\
         let lock = client.lock({name:?}).ttl(Duration::from_secs({ttl_s})).wait(Duration::from_secs(60));\n\
         lock.run(async |lease| write_with(lease.fencing_token()).await).await?;"
    )
}

fn python(wish: &Wish<'_>) -> String {
    let Wish { url, namespace, name, ttl_s, .. } = wish;
    let [url, namespace, name] = [url, namespace, name].map(|text| quoted(text, eight_digits));
    format!(
        "import leasehold\n\n\
         client = leasehold.Client({url}, namespace={namespace})\n\
         with client.lock({name}, ttl={ttl_s}, wait=60) as lease:\n    print(\"write with token\", lease.fencing_token)"
    )
}

fn typescript(wish: &Wish<'_>) -> String {
    let Wish { url, namespace, name, ttl_s, .. } = wish;
    let [url, namespace, name] = [url, namespace, name].map(|text| quoted(text, in_braces));
    let ttl_ms = ttl_s * 1000;
    format!(
        "import {{ Client }} from \"leasehold\";\n\n\
         const client = new Client({{ url: {url}, namespace: {namespace} }});\n\
         await using lease = await client.lock({name}, {{ ttlMs: {ttl_ms}, waitMs: 60_000 }}).acquire();\n\
         await work(lease.fencingToken, lease.signal);"
    )
}

fn go(wish: &Wish<'_>) -> String {
    let Wish { url, namespace, name, ttl_s, .. } = wish;
    let [url, namespace, name] = [url, namespace, name].map(|text| quoted(text, eight_digits));
    format!(
        "client, err := leasehold.New(leasehold.Options{{URLs: []string{{{url}}}, Namespace: {namespace}}})\n\
         if err != nil {{\n\treturn err\n}}\n\
         lease, err := client.Lock(ctx, {name}, leasehold.TTL({ttl_s}*time.Second), leasehold.Wait(time.Minute))\n\
         if err != nil {{\n\treturn err\n}}\n\
         defer lease.Release(context.Background())\n\
         return work(lease.Context(), lease.FencingToken())"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_each_language_wants_it() {
        let name = "a'b\"c\\d $(id) `x` \u{202e}\n/ü";
        let url = "http://127.0.0.1:8080";
        let wish = Wish { url, namespace: "-x y", name, ttl_s: 30, has_key: true };
        assert!(command(&wish).contains(r#"--namespace='-x y' --ttl 30s 'a'\''b"c\d $(id) `x` "#));
        let path = "/v1/namespaces/-x%20y/locks/a%27b%22c%5Cd%20%24%28id%29%20%60x%60%20%E2%80%AE%0A%2F%C3%BC/acquire";
        assert!(curl(&wish).contains(path), "{}", curl(&wish));
        assert!(curl(&wish).contains("Bearer $LEASEHOLD_API_KEY"));
        let json = r#""a'b\"c\\d $(id) `x` \u202e\n/ü""#;
        for write in [python, typescript, go] {
            assert!(write(&wish).contains(json), "{}", write(&wish));
        }
        assert!(rust(&wish).contains(r#""a'b\"c\\d $(id) `x` \u{202e}\n/ü""#), "{}", rust(&wish));
        let dots = Wish { name: "..", namespace: "shop", ..wish };
        assert!(curl(&dots).starts_with("curl --path-as-is http"), "{}", curl(&dots));
        assert!(curl(&dots).contains("/shop/locks/%2E%2E/acquire"), "{}", curl(&dots));
        assert!(!curl(&wish).contains("as-is"));
        let tagged = Wish { name: "a\u{e0001}", ..wish };
        assert!(python(&tagged).contains(r#""a\U000e0001""#), "{}", python(&tagged));
        assert!(go(&tagged).contains(r#""a\U000e0001""#), "{}", go(&tagged));
        assert!(typescript(&tagged).contains(r#""a\u{e0001}""#), "{}", typescript(&tagged));
        let dashed = Wish { name: "-rf", has_key: false, ..wish };
        assert!(command(&dashed).contains("-- '-rf' ./job.sh"), "{}", command(&dashed));
        assert!(!command(&dashed).contains("API_KEY"));
    }
}
