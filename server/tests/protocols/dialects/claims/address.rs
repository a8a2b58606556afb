//! Tests that the URL of a claim is one that the client can use, even behind a proxy.

use std::sync::Arc;

use hyper::Method;
use leasehold_server::http::parse_network;
use leasehold_testkit::{Local, Response, json, settings};

use crate::dialects::claims::Scene;

async fn behind(proxies: &[&str]) -> Scene {
    let mut settings = settings(None);
    let proxies = proxies.iter().map(|proxy| parse_network(proxy).expect("a network"));
    settings.http.trusted_proxies = Arc::from_iter(proxies);
    Scene { local: Local::start(settings).await }
}

/// Makes a claim with these headers. Checks that its `url` equals the `Location` header, and returns it.
async fn claim_with(scene: &Scene, headers: &[(&str, &str)]) -> (String, Response) {
    let body = json!({"resource": "r", "timeout": 10}).to_string();
    let headers: Vec<_> =
        headers.iter().copied().chain([("content-type", "application/json")]).collect();
    let sent = scene.local.client.send_with(Method::POST, "/v1/claims/", &headers, body);
    let answer = sent.await.expect("an answer");
    let url = answer.text_of("url");
    assert_eq!(answer.headers["location"], url.as_str());
    (url, answer)
}

const FORWARDED: [(&str, &str); 2] =
    [("x-forwarded-proto", "https"), ("x-forwarded-host", "locks.example")];

#[tokio::test]
async fn it_is_the_one_a_trusted_proxy_was_reached_by() {
    let scene = behind(&["127.0.0.0/8"]).await;
    assert_eq!(claim_with(&scene, &FORWARDED).await.0, "https://locks.example/v1/claims/1/");
    let forwarded = [("forwarded", "for=192.0.2.7;proto=https;host=\"locks.example:8443\"")];
    assert_eq!(claim_with(&scene, &forwarded).await.0, "https://locks.example:8443/v1/claims/2/");
    let listed = scene.local.client.send_with(Method::GET, "/v1/claims/?limit=1", &FORWARDED, "");
    let listed = listed.await.expect("an answer");
    let link = listed.headers["link"].to_str().expect("text");
    assert!(link.starts_with("<https://locks.example/v1/claims/?"), "{link}");
    assert_eq!(listed.body[0]["url"], "https://locks.example/v1/claims/1/");
}

#[tokio::test]
async fn headers_of_untrusted_peers_are_ignored() {
    for proxies in [&[][..], &["10.0.0.0/8", "::1", "127.0.0.2"]] {
        let scene = behind(proxies).await;
        let address = scene.local.address;
        assert_eq!(
            claim_with(&scene, &FORWARDED).await.0,
            format!("http://{address}/v1/claims/1/")
        );
    }
}
