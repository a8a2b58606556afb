//! The cluster page: the leader, the followers and how far they are behind. Without a cluster, it shows this server.

use std::time::Instant;

use axum::response::Response;
use leasehold_store::status::Status;
use maud::{Markup, html};

use super::chart::chart;
use super::visit::{Trouble, Visit};
use crate::cluster::roster::{Heard, Seen};
use crate::http::page::{Page, Place, Shape, Text, ago, bytes, count, length, name, state, title};
use leasehold_store::Room;

/// Interval at which the page is reloaded, because no lock event reports that a server has joined or left.
const PACE_MS: u32 = 2000;

pub(super) async fn show(visit: Visit) -> Response {
    visit.answer(page(&visit).await)
}

async fn page(visit: &Visit) -> Result<Page, Trouble> {
    visit.check_known()?;
    // Server addresses are shown only to users who can see data of all namespaces.
    let seen = match visit.app.roster.as_ref().filter(|_| visit.sees_all()) {
        Some(roster) => Some(roster.now().await),
        None => None,
    };
    let about = match visit.app.roster.is_some() {
        true => html! { "The servers of the cluster, with the state of each." },
        false => html! { "The state of this server." },
    };
    let body = html! {
        (title(html! { "Cluster" }, about))
        div data-part="servers" {
            @if let Some(seen) = &seen { (servers(seen)) }
        }
        section.card data-part="state" aria-labelledby="state" {
            h2 #state { @if visit.app.roster.is_some() { "The leader" } @else { "This server" } }
            (own(visit, seen.as_ref()))
        }
        @if visit.sees_all() {
            section.card data-part="charts" aria-labelledby="lately" {
                h2 #lately { "The last ten minutes" }
                (charts(visit))
            }
        }
    };
    Ok(Page::new("Cluster", body).at(Place::Cluster).live("/console/live").pace(PACE_MS))
}

/// Renders the list of servers and the warnings for the operator.
fn servers(Seen { status, servers }: &Seen) -> Markup {
    let now = Instant::now();
    html! {
        @match status {
            Ok(status) => (notes(status)),
            Err(why) => p.note.bad role="alert" { "The store does not respond: " (Text(why)) }
        }
        div.table {
            table {
                caption.unseen { "Servers" }
                thead {
                    tr {
                        th scope="col" { "Server" } th scope="col" { "State" } th scope="col" { "Address" }
                        th scope="col" { "Version" } th scope="col" { "Formats" } th scope="col" { "Behind" }
                        th scope="col" { "Last heard from" }
                    }
                }
                tbody {
                    @for heard in servers { (row(heard, status.as_deref().ok(), now)) }
                }
            }
        }
    }
}

/// Renders the problems that keep servers from becoming leader.
fn notes(status: &Status) -> Markup {
    html! {
        @if status.leader.is_none() {
            p.note.bad role="alert" { "The cluster has no leader. Until it has one, no lock is granted." }
        }
        @if status.paused {
            p.note.bad {
                "Paused: no server can become leader. The current leader continues. "
                code { "leasehold cluster resume" } " undoes it."
            }
        }
        @if status.rewound {
            p.note.bad role="alert" {
                "The store was rolled back to an earlier state, so no server can lead. To fix this, run "
                code { "leasehold restore --store" } "."
            }
        }
        @if let Some(moved_to) = &status.moved_to {
            p.note.bad { "The store is closed. It has moved to " (name(moved_to)) "." }
        }
    }
}

fn row(Heard { node, at, is_there }: &Heard, status: Option<&Status>, now: Instant) -> Markup {
    let formats: Vec<_> = node.formats.iter().map(u32::to_string).collect();
    let heard_ms = u64::try_from(now.duration_since(*at).as_millis()).unwrap_or(u64::MAX);
    let is_leader = status.is_some_and(|status| status.is_leader(&node.node));
    html! {
        tr data-key=(Text(&node.node)) {
            th scope="row" { (name(&node.node)) }
            td {
                @if is_leader {
                    (state("good", Shape::Full, "leads"))
                } @else if *is_there {
                    (state("free", Shape::Ring, "follows"))
                } @else {
                    (state("bad", Shape::Cross, "not there"))
                }
                @match status.and_then(|status| status.drained(&node.node)) {
                    Some("drain") => { " " span.tag { "drained" } },
                    Some(_) => { " " span.tag { "stepping down" } },
                    None => {}
                }
            }
            td { (name(&node.address)) }
            td data-label="version" { (Text(&node.version)) }
            td data-label="formats" { (formats.join(", ")) }
            td data-label="behind" {
                @if let Some(status) = status.filter(|_| *is_there) { (behind(status, node)) }
            }
            td data-label="last heard from" { (ago(heard_ms)) " ago" }
        }
    }
}

fn behind(status: &Status, node: &leasehold_store::status::Node) -> Markup {
    let n = usize::try_from(status.records_behind(node)).unwrap_or(usize::MAX);
    let records = if n == 1 { " record" } else { " records" };
    html! {
        (count(n)) (records)
        @match status.seconds_behind(node) {
            Some(seconds) => { ", " (length(seconds.saturating_mul(1000))) },
            None => {}
        }
    }
}

/// Renders the state of the server that has answered the request.
fn own(visit: &Visit, seen: Option<&Seen>) -> Markup {
    let app = &visit.app;
    let (health, status) = (app.engine.health(), seen.and_then(|seen| seen.status.as_ref().ok()));
    let trouble = health.trouble();
    html! {
        div.stack {
            p {
                (state("good", Shape::Full, "leads"))
                @if app.roster.is_some() {
                    " It served this page. Clients can use any server: followers forward requests to the leader."
                } @else {
                    " This server is not part of a cluster. For high availability, run several servers with a store \
                     in etcd: "
                    code { "leasehold serve --store etcd://..." } "."
                }
            }
            dl.facts {
                @if let Some(leader) = status.and_then(|status| status.leader.as_ref()) {
                    dt { "Name" } dd { (name(&leader.node)) " at " (name(&leader.address)) }
                }
                dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
                @if let Some(status) = status {
                    @if let Some(epoch) = app.metrics.engine.cluster.epoch() {
                        dt { "Epoch" } dd { (epoch) " " span.dim { "increases with each leader change" } }
                    }
                    dt { "Store format" } dd { (status.format) }
                    dt { "Last record" }
                    dd {
                        (whole(status.head)) " "
                        span.dim { "the snapshot ends at " (whole(status.snapshot)) }
                    }
                    (room(health.room()))
                }
                @if visit.sees_all() {
                    @if app.roster.is_none() {
                        dt { "Journal not folded yet" } dd { (bytes(health.n_bytes())) }
                    }
                    dt { "Healthy" }
                    dd {
                        @match &trouble {
                            None => (state("good", Shape::Full, "yes")),
                            Some(why) => { (state("bad", Shape::Cross, "no")) " " (Text(why)) }
                        }
                    }
                }
            }
        }
    }
}

fn whole(n: u64) -> String {
    count(usize::try_from(n).unwrap_or(usize::MAX))
}

/// Renders how much of its quota etcd uses.
fn room(room: Room) -> Markup {
    html! {
        @if room.quota > 0 {
            dt { "etcd" }
            dd {
                (bytes(room.n_bytes_in_use)) " of " (bytes(room.quota)) " in use "
                @if room.n_alarms > 0 { (state("bad", Shape::Cross, "alarm")) }
                @else if room.is_short { (state("bad", Shape::Mark, "nearly full: no lock is granted")) }
                @else { (state("good", Shape::Full, "room left")) }
            }
        }
    }
}

fn charts(visit: &Visit) -> Markup {
    let samples = visit.app.samples.latest();
    html! {
        div.charts {
            (chart("Leases held", &samples, |sample| sample.n_held as f64))
            (chart("Leases waiting", &samples, |sample| sample.n_waiting as f64))
            (chart("Granted per second", &samples, |sample| sample.granted_per_s))
        }
    }
}
