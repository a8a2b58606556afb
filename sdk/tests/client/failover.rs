//! A cluster with one leader: with the real server, and with fake servers that respond like a follower.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::api::{CancelRequest, Code};
use leasehold::{Client, ClientBuilder, Error, Retry};
use leasehold_testkit::fake::{self, Question, Said};
use leasehold_testkit::{Ca, Local, Value, folder, json};

const KEY: &str = "lh_a_b";

/// A server with fake responses, which records the requests.
struct Fake {
    url: String,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl Fake {
    fn new<S: Into<Said>>(answer: impl Fn(&Question) -> S + Send + Sync + 'static) -> Self {
        let asked = Arc::<Mutex<Vec<Question>>>::default();
        let noted = asked.clone();
        let url = fake::serve(move |question| {
            noted.lock().unwrap().push(question.clone());
            answer(question)
        });
        Self { url, asked }
    }

    /// Starts a follower of this leader. It rejects requests that must not be forwarded. To all others, it responds as
    /// if the leader had cancelled a wait.
    fn follower(leader: Option<&str>) -> Self {
        let headers: Vec<_> =
            leader.map(|url| ("Leasehold-Leader", url.into())).into_iter().collect();
        Self::new(move |question| {
            if question.has("leasehold-direct: 1") {
                Said { status: 421, headers: headers.clone(), body: failure("NOT_LEADER") }
            } else {
                (200, json!({"cancelled": true})).into()
            }
        })
    }

    fn stranger() -> Self {
        Self::new(|_| (200, json!({"cancelled": true})))
    }

    fn n_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn first(&self) -> Question {
        self.asked.lock().unwrap()[0].clone()
    }
}

fn failure(code: &str) -> Value {
    json!({"error": code, "code": code, "retryable": code == "BUSY", "may_have_taken_effect": false})
}

fn url_of(local: &Local) -> String {
    format!("http://{}", local.address)
}

/// Returns a URL at which no server listens.
fn nowhere() -> String {
    format!("http://{}", leasehold_testkit::nowhere())
}

fn client(urls: &[&str]) -> Client {
    Client::new(&urls.join(",")).unwrap()
}

/// Sends a request to which every server here has the same response.
async fn cancel(client: &Client) -> Result<bool, Error> {
    let request = CancelRequest { owner_id: "me".into(), request_id: "r".into() };
    client.cancel(&request).await
}

fn once() -> Retry {
    Retry { attempts_max: 1, ..Retry::default() }
}

#[tokio::test]
async fn who_does_not_lead_names_the_leader_and_is_left_alone() {
    let local = Local::ephemeral().await;
    let leader = url_of(&local) + "/";
    let (follower, unused) = (Fake::follower(Some(&leader)), Fake::stranger());
    let list = format!("{},{},{leader}", follower.url, unused.url);
    let client = Client::builder(&list).api_key(KEY).build().unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!((follower.n_asked(), unused.n_asked()), (1, 0));
    let question = follower.first();
    assert!(question.has(&format!("authorization: bearer {KEY}")), "{question:?}");
    local.stop().await;
}

#[tokio::test]
async fn a_leader_that_was_not_given_gets_nothing_and_is_reached_through_who_follows_it() {
    let stranger = Fake::stranger();
    let followers = [(); 2].map(|()| Fake::follower(Some(&stranger.url)));
    let list = followers.each_ref().map(|follower| follower.url.as_str()).join(",");
    let client = Client::builder(&list).api_key(KEY).build().unwrap();
    assert!(cancel(&client).await.unwrap());
    let n_asked = followers.each_ref().map(Fake::n_asked);
    assert_eq!(n_asked, [1, 2], "each says that it does not lead, then one passes it on");
    assert!(cancel(&client).await.unwrap());
    assert_eq!(followers.each_ref().map(Fake::n_asked), [1, 3], "and is asked to at once");
    assert_eq!(stranger.n_asked(), 0);
}

#[tokio::test]
async fn one_server_is_asked_to_pass_it_on() {
    let follower = Fake::follower(None);
    assert!(cancel(&client(&[&follower.url])).await.unwrap());
    let direct = Client::builder(&follower.url).direct(true).build().unwrap();
    assert!(cancel(&direct).await.unwrap());
    assert_eq!(follower.n_asked(), 3);
    let list = format!("{},{}", follower.url, nowhere());
    let indirect = Client::builder(&list).direct(false).build().unwrap();
    assert!(cancel(&indirect).await.unwrap());
    assert_eq!(follower.n_asked(), 4);
}

#[tokio::test]
async fn a_follower_whose_leader_is_gone_is_asked_again_to_hold_it() {
    let gone = nowhere();
    let follower = Fake::follower(Some(&gone));
    assert!(cancel(&client(&[&gone, &follower.url])).await.unwrap());
    assert_eq!(follower.n_asked(), 2);
}

#[tokio::test]
async fn any_leader_is_followed_only_without_credentials() {
    let stranger = Fake::stranger();
    let follower = Fake::follower(Some(&stranger.url));
    let any = || Client::builder(&follower.url).follow_any_leader(true);
    let client = any().build().unwrap();
    for _ in 0..2 {
        assert!(cancel(&client).await.unwrap());
    }
    assert_eq!((follower.n_asked(), stranger.n_asked()), (1, 2));
    let said = |builder: ClientBuilder| builder.build().unwrap_err().to_string();
    assert!(said(any().api_key(KEY)).contains("only to servers whose URLs are given"));
    let folder = folder();
    let ca = Ca::new("a");
    let files = ca.issue(&["dns:a"]).write(folder.path(), "a");
    assert!(said(any().client_certificate(files.certificate, files.key)).contains("certificate"));
}

#[tokio::test]
async fn a_refused_host_is_no_follower() {
    let strict = Fake::new(|_| (421, failure("HOST_NOT_ALLOWED")));
    let other = Fake::stranger();
    let error = cancel(&client(&[&strict.url, &other.url])).await.unwrap_err();
    assert!(
        matches!(&error, Error::Failed { status: 421, failure } if failure.code == Code::HostNotAllowed)
    );
    assert!(!error.is_retryable());
    assert_eq!(other.n_asked(), 0);
}

#[tokio::test]
async fn two_that_point_at_each_other_are_not_asked_for_ever() {
    let (one, other) = (Arc::new(Mutex::new(String::new())), Arc::new(Mutex::new(String::new())));
    let points = |to: &Arc<Mutex<String>>| {
        let to = to.clone();
        Fake::new(move |_| {
            let headers = vec![("Leasehold-Leader", to.lock().unwrap().clone())];
            Said { status: 421, headers, body: failure("NOT_LEADER") }
        })
    };
    let fakes = [points(&other), points(&one)];
    one.lock().unwrap().clone_from(&fakes[0].url);
    other.lock().unwrap().clone_from(&fakes[1].url);
    let error = cancel(&client(&[&fakes[0].url, &fakes[1].url])).await.unwrap_err();
    assert!(matches!(error, Error::Failed { status: 421, .. }), "{error:?}");
    assert!(error.is_retryable() && !error.may_have_taken_effect());
    assert_eq!(fakes.iter().map(Fake::n_asked).sum::<usize>(), 3);
}

#[tokio::test]
async fn a_server_that_is_busy_is_left_with_the_same_request_id() {
    for wait in [0, 5] {
        let busy = Fake::new(|_| (503, failure("BUSY")));
        let granted = Fake::new(|_| {
            let body = json!({
                "acquired": true, "lock_name": "a", "owner_id": "me", "lease_id": "1.x", "fencing_token": 7,
                "lease_expiry_ms": 1, "expires_in_ms": 60_000, "expires_after_send_ms": 60_000,
            });
            (200, body)
        });
        let client = client(&[&busy.url, &granted.url]);
        let lock = client.lock("a").wait(Duration::from_secs(wait));
        let guard = lock.acquire().await.unwrap();
        let n_asked = (busy.n_asked(), granted.n_asked());
        assert_eq!((guard.fencing_token(), n_asked), (7, (1, 1)), "with a wait of {wait} s");
        let ids = [&busy, &granted].map(|fake| fake.first().body["request_id"].clone());
        assert!(ids[0].is_string() && ids[0] == ids[1], "{ids:?}");
    }
}

#[tokio::test]
async fn a_wait_outlasts_an_outage_of_the_store_however_many_tries_that_takes() {
    let n_asked = AtomicUsize::new(0);
    let fake = Fake::new(move |_| match n_asked.fetch_add(1, Relaxed) {
        n if n < 30 => {
            let code = ["UNKNOWN", "BUSY"][n % 2];
            (
                503,
                json!({"error": code, "code": code, "retryable": true, "may_have_taken_effect": n % 2 == 0}),
            )
        }
        _ => {
            let body = json!({
                "acquired": true, "lock_name": "a", "owner_id": "me", "lease_id": "1.x", "fencing_token": 7,
                "lease_expiry_ms": 1, "expires_in_ms": 60_000, "expires_after_send_ms": 60_000,
            });
            (200, body)
        }
    });
    let pause = Duration::from_millis(1);
    let retry = Retry { pause_min: pause, pause_max: pause, ..Retry::default() };
    let request = client(&[&fake.url]).lock("a").wait(Duration::from_secs(600)).retry(retry);
    assert_eq!(request.acquire().await.unwrap().fencing_token(), 7);
    let asked = fake.asked.lock().unwrap();
    let asked = asked.iter().filter(|question| question.line.contains("/acquire"));
    let ids: Vec<_> = asked.map(|question| question.body["request_id"].clone()).collect();
    assert!(ids.len() == 31 && ids.iter().all(|id| id.is_string() && *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn a_wait_that_ends_in_silence_is_asked_for_once_more_at_the_next_server() {
    let local = Local::ephemeral().await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let list = format!("http://{},{}", silent.local_addr().unwrap(), url_of(&local));
    let client = Client::builder(&list).timeout(Duration::from_secs(3)).build().unwrap();
    let wait = Duration::from_millis(100);
    let guard = client.lock("a").wait(wait).acquire().await.unwrap();
    assert_eq!(guard.fencing_token(), 1);
    local.stop().await;
}

#[tokio::test]
async fn every_server_that_cannot_be_reached_is_named() {
    let (one, other) = (nowhere(), nowhere());
    let error = cancel(&client(&[&one, &other])).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)) && !error.may_have_taken_effect());
    let said = error.to_string();
    assert!(said.contains(&one) && said.contains(&other), "{said}");
}

#[tokio::test]
async fn what_one_server_may_have_done_stays_in_doubt_when_the_other_cannot_be_reached() {
    // This server reads the request, and then it is gone.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 65_536]);
    });
    let client = client(&[&url, &nowhere()]);
    let retry = Retry { attempts_max: 3, pause_min: Duration::from_millis(1), ..Retry::default() };
    let error = client.lock("a").retry(retry).acquire().await.unwrap_err();
    assert!(error.may_have_taken_effect() && error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("cannot connect to"), "{error}");
    let error = client.lock("b").retry(once()).acquire().await.unwrap_err();
    assert!(!error.may_have_taken_effect(), "that is another request: {error:?}");
}

#[test]
fn lists_that_make_no_sense_are_refused() {
    for (list, why) in [
        ("http://a,", "a URL is empty"),
        ("http://a,http://a/", "is given twice"),
        ("http://a,b", "\"b\" does not begin with http://, https:// or unix:"),
        ("http://a,unix:", "has no path"),
    ] {
        let error = Client::new(list).unwrap_err();
        assert!(matches!(&error, Error::Invalid(said) if said.contains(why)), "{list}: {error}");
    }
    let far = Client::builder("http://127.0.0.1,http://example.org").api_key(KEY).build();
    let said = far.unwrap_err().to_string();
    assert!(said.contains("http://example.org: the API key would be sent unencrypted"), "{said}");
    let mixed = "http://127.0.0.1:1,unix:/run/a.sock,https://locks.example.org";
    assert!(Client::builder(mixed).api_key(KEY).build().is_ok());
}

#[test]
fn nothing_that_shows_a_client_shows_its_key() {
    let builder = Client::builder("https://a,unix:/a").api_key("lh_canary_0123");
    let shown = format!("{builder:?} {:?}", builder.clone().build().unwrap());
    assert!(!shown.contains("canary"), "{shown}");
}
