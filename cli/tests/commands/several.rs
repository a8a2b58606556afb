//! Commands with several server URLs: they find a server that responds, and the leader.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use leasehold_testkit::fake::{self, Said};
use leasehold_testkit::json;

use crate::{Ended, World, command};

/// Returns a URL at which no server listens.
fn nowhere() -> String {
    format!("http://{}", leasehold_testkit::nowhere())
}

fn ended(list: &str, arguments: &[&str]) -> Ended {
    let mut command = command(arguments);
    Ended::of(command.env("LEASEHOLD_URL", list).output().unwrap())
}

#[test]
fn a_server_that_is_not_there_is_passed_over_and_the_command_inside_is_told_of_all() {
    let world = World::new();
    let list = format!("{}, {}", nowhere(), world.url());
    let acquired = ended(&list, &["acquire", "a", "--ttl", "60s", "--json"]);
    assert_eq!((acquired.code, &acquired.json()["fencing_token"]), (0, &json!(1)), "{acquired:?}");
    let inside = ended(&list, &["run", "b", "--", "sh", "-c", "echo $LEASEHOLD_URL"]);
    assert_eq!((inside.code, inside.out.trim_end()), (0, list.as_str()), "{inside:?}");
    let by_flag = ended("http://none.invalid", &["status", "a", "--url", &list]);
    assert_eq!(by_flag.code, 0, "{by_flag:?}");
}

#[test]
fn a_server_that_says_nothing_costs_its_share_of_the_time() {
    let world = World::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let list = format!("http://{},{}", silent.local_addr().unwrap(), world.url());
    let looked = ended(&list, &["acquire", "a", "--connect-timeout", "2s"]);
    assert_eq!(looked.code, 0, "{looked:?}");
}

#[test]
fn the_one_that_leads_is_asked() {
    let world = World::new();
    let n_asked = Arc::new(Mutex::new(0));
    let (counted, leader) = (n_asked.clone(), world.url());
    let follower = fake::serve(move |question| {
        assert!(question.has("leasehold-direct: 1"), "{question:?}");
        *counted.lock().unwrap() += 1;
        let body = json!({
            "error": "does not lead", "code": "NOT_LEADER", "retryable": true, "may_have_taken_effect": false,
        });
        Said { status: 421, headers: vec![("Leasehold-Leader", leader.clone())], body }
    });
    let list = format!("{follower},{},{}", nowhere(), world.url());
    let acquired = ended(&list, &["acquire", "a"]);
    assert_eq!((acquired.code, *n_asked.lock().unwrap()), (0, 1), "{acquired:?}");
}

#[test]
fn an_invalid_list_of_locks_is_a_usage_error() {
    for (list, why) in [
        ("http://a,,http://b", "a URL is empty; separate several with commas"),
        ("http://a,http://A:80/", "\"http://A:80/\" is given twice"),
        ("http://a;http://b", "\"http://a;http://b\" is not a URL"),
        ("http://a,localhost:8080", "\"localhost:8080\" does not begin with http://"),
    ] {
        let refused = ended(list, &["status", "a"]);
        assert_eq!(refused.code, 64, "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
}

#[test]
fn all_servers_that_cannot_be_reached_are_named() {
    let (one, other) = (nowhere(), nowhere());
    let refused = ended(&format!("{one},{other}"), &["status", "a", "--connect-timeout", "200ms"]);
    assert_eq!(refused.code, 68, "{refused:?}");
    assert!(refused.err.contains(&one) && refused.err.contains(&other), "{refused:?}");
}
