//! Checks that every route is in the contract. A router does not list its routes, but its debug output contains them.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_base::clock::FakeClock;
use leasehold_core::RetryHint;
use leasehold_engine::{self as engine, Engine};

use crate::app::App;
use crate::dialect::Dialect;
use crate::dialect::contract::document;
use crate::metrics::Metrics;
use crate::{dialect, http, routes as server_routes};
use leasehold_store::memory::MemoryStore;

fn app() -> (Engine, App) {
    let metrics = Arc::new(Metrics::new(crate::dialect::NAMES));
    let clock = Arc::new(FakeClock::default());
    let store = Box::new(MemoryStore::default());
    let options = engine::Options::default();
    let limits = options.limits.clone();
    let (engine, handle) =
        Engine::start(options, store, clock, metrics.engine.clone()).expect("an engine");
    let (http, retry) = (http::Options::default(), RetryHint::default());
    let app = App::new(handle, metrics, http, retry, dialect::Options::default(), limits);
    let app = app.keep_content(None).expect("a folder");
    (engine, app)
}

/// Returns every path of a router, without catch-all routes for the rest below a path.
fn routes(router: &axum::Router) -> BTreeSet<String> {
    let shown = format!("{router:?}");
    let paths = shown.split("RouteId(").skip(1).filter_map(|rest| {
        let (_, rest) = rest.split_once(')')?;
        Some(rest.strip_prefix(": \"")?.split_once('"')?.0)
    });
    let mut paths: BTreeSet<_> = paths.collect();
    let catching = paths.iter().filter_map(|path| Some(path.split_once("/{*__private")?.0));
    for below in catching.collect::<Vec<_>>() {
        paths.remove(if below.is_empty() { "/" } else { below });
    }
    paths.into_iter().filter(|path| !path.contains("__private")).map(str::to_owned).collect()
}

#[test]
fn every_route_is_in_the_contract_and_the_other_way_round() {
    let (engine, app) = app();
    let document = document(&app, &dialect::ALL.iter().copied().collect());
    let router = server_routes::router(app.clone().into(), dialect::ALL);
    let told = document["paths"].as_object().expect("paths").keys();
    // These respond with 404 or 400 in their dialect's format.
    let nothing = ["/leases/", "/locks/", "/v1/namespaces//{rest}"].map(str::to_owned);
    // Pages are for people, not for programs.
    let console = routes(&server_routes::router(app.clone().into(), &[]));
    let pages = console.iter().filter(|path| path.starts_with("/console"));
    let pages = pages.map(|path| path.replace("{*", "{"));
    // The root folder of WebDAV and of the locks on files: in a contract, a path parameter has at least one character.
    let root = ["/dav", "/dav/", "/admin/locks/"].map(str::to_owned);
    let told: BTreeSet<_> = told.cloned().chain(nothing).chain(pages).chain(root).collect();
    // A parameter that can contain slashes is marked with a star in axum, but not in a contract.
    let mut there: BTreeSet<_> =
        routes(&router).iter().map(|path| path.replace("{*", "{")).collect();
    // A path that belongs to no other protocol is a file. `allowed` in `tests/protocols/contract` checks these paths.
    there.extend(["/", "/{path}"].map(String::from));
    // The name of a repository can contain slashes, so one route serves all paths below it. `allowed` checks these too.
    assert!(there.remove("/lfs/{target}"));
    there.extend(told.iter().filter(|path| path.starts_with("/lfs/")).cloned());
    assert!(there.len() > 30, "axum shows its routes in another way now: {router:?}");
    assert_eq!(told, there);
    drop((router, app));
    engine.join().expect("a good end");
}

#[test]
fn what_dialects_declare_of_their_operations_is_in_the_contract() {
    let (engine, app) = app();
    let document = document(&app, &dialect::ALL.iter().copied().collect());
    for dialect in [Dialect::Native, Dialect::Leases, Dialect::Claims, Dialect::Sticky] {
        assert!(!dialect.declared().is_empty());
        for route in dialect.declared() {
            let operation = &document["paths"][route.path()][route.method().to_lowercase()];
            assert!(operation.is_object(), "{route:?}");
        }
    }
    drop(app);
    engine.join().expect("a good end");
}
