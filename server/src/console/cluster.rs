//! The servers that share a store: who leads, who follows, how far behind. On one machine it says so.

use axum::response::Response;
use maud::{Markup, html};

use super::chart::chart;
use super::visit::{Trouble, Visit};
use crate::page::{Page, Place, Shape, Text, bytes, state, title};

pub(super) async fn show(visit: Visit) -> Response {
    visit.answer(page(&visit))
}

fn page(visit: &Visit) -> Result<Page, Trouble> {
    visit.check_known()?;
    let body = html! {
        (title(html! { "Cluster" }, html! { "Which server answers, and how it is." }))
        section.card data-part="servers" aria-labelledby="servers" {
            h2 #servers { "Servers" }
            (servers(visit))
        }
        @if visit.sees_all() {
            section.card data-part="charts" aria-labelledby="lately" {
                h2 #lately { "The last ten minutes" }
                (charts(visit))
            }
        }
    };
    Ok(Page::new("Cluster", body).at(Place::Cluster).live("/console/live"))
}

fn servers(visit: &Visit) -> Markup {
    let health = visit.app.engine.health();
    let trouble = health.trouble();
    html! {
        div.stack {
            p {
                (state("good", Shape::Full, "leads"))
                @if visit.app.relay.is_some() {
                    " This server has answered. It leads those that share its store; whichever of them is asked passes \
                     on what it is asked."
                } @else {
                    " One machine: this server has its data for itself, and nobody else to follow. Several can share \
                     a store: "
                    code { "leasehold serve --store etcd://..." } "."
                }
            }
            dl.facts {
                dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
                @if visit.sees_all() {
                    dt { "Journal not in the tables yet" } dd { (bytes(health.n_bytes())) }
                    dt { "Well" }
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
