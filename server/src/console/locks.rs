//! The list of locks in all namespaces that the user can read, with search, filters, sorting and pages.

use axum::response::Response;
use leasehold_auth::View;
use leasehold_core::{LapseRecord, LeaseView, LockKey, LockView, Owner, Span, Timestamp};
use leasehold_engine::{FoundLocks, LockQuery, Order, ReadLock, SearchLocks, Stand};
use maud::{Markup, html};
use serde::Deserialize;

use super::cursor;
use super::sample::Samples;
use super::visit::{Trouble, Visit, address, of_lock};
use crate::dialect::{self, Dialect};
use crate::http::page::{Page, Place, Shape, Text, ago, count, left, name, state, tag, title};
use crate::http::spelled::{meant, spelled};

const PAGE: usize = 50;
/// Maximum length of the search text, in bytes.
const SEARCH_BYTES_MAX: usize = 200;

const STANDS: [(&str, Stand); 4] = [
    ("held", Stand::Held),
    ("waiting", Stand::Waiting),
    ("grace", Stand::Grace),
    ("free", Stand::Free),
];
const ORDERS: [(&str, Order); 5] = [
    ("name", Order::Name),
    ("ends", Order::Ends),
    ("held", Order::Held),
    ("waiters", Order::Waiters),
    ("waited", Order::Waited),
];

/// Query parameters. Browsers send empty values for form fields without input.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Params {
    q: String,
    namespace: String,
    state: String,
    protocol: String,
    sort: String,
    cursor: String,
}

pub(super) async fn show(visit: Visit) -> Response {
    visit.answer(page(&visit).await)
}

async fn page(visit: &Visit) -> Result<Page, Trouble> {
    visit.check_known()?;
    let params: Params = visit.params()?;
    let found = search(visit, query(&params)?).await?;
    let rows = rows(visit, &found).await?;
    let now = visit.app.engine.now();
    let next =
        (found.n_before + rows.len() < found.n_matches).then(|| found.places.last()).flatten();
    // `before` contains up to one lock more than a page. If it does, the previous page starts after the first of them;
    // otherwise the previous page is the first page.
    let before = (found.n_before > 0).then(|| match found.before.len() > PAGE {
        true => found.before.first().map(cursor::of).unwrap_or_default(),
        false => String::new(),
    });
    let body = html! {
        (title(html! { "Locks" }, html! { "All locks, with holders and waiters." }))
        div data-part="tiles" { (tiles(visit, &found)) }
        (find(&params, &found))
        div data-part="locks" {
            @if rows.is_empty() {
                div.card.empty { (nothing(&params, &found)) }
            } @else {
                div.table {
                    table {
                        caption.unseen { "Locks" }
                        (head(&params))
                        tbody { @for (key, view) in &rows { (row(key, view, now)) } }
                    }
                }
                div.pages {
                    span { (range(&found, rows.len())) }
                    nav aria-label="Pages of the list" {
                        @if !params.cursor.is_empty() {
                            a href=(Text(&params.with("cursor", ""))) { "First page" } " "
                        }
                        @if let Some(before) = before {
                            a rel="prev" href=(Text(&params.with("cursor", &before))) { "Previous page" } " "
                        }
                        @if let Some(last) = next {
                            a rel="next" href=(Text(&params.with("cursor", &cursor::of(last)))) { "Next page" }
                        }
                    }
                }
            }
        }
    };
    Ok(Page::new("Locks", body).at(Place::Locks).live("/console/live"))
}

impl Params {
    /// Returns the URL of this list with one parameter changed. It starts at the first page.
    fn with(&self, name: &str, value: &str) -> String {
        let all = [
            ("q", &*self.q),
            ("namespace", &*self.namespace),
            ("state", &*self.state),
            ("protocol", &*self.protocol),
            ("sort", &*self.sort),
            ("cursor", ""),
        ];
        let changed = all.map(|(own, was)| (own, if own == name { value } else { was }));
        address("/console", &changed)
    }
}

/// Returns the value for a word, `None` for an empty parameter, or an error that lists the known words.
fn one_of<T: Copy>(what: &str, word: &str, known: &[(&str, T)]) -> Result<Option<T>, Trouble> {
    if word.is_empty() {
        return Ok(None);
    }
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, found)| *found);
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let wrong = || Trouble::Wrong(format!("{what}: must be one of {}", names()));
    found.map(Some).ok_or_else(wrong)
}

fn query(params: &Params) -> Result<LockQuery, Trouble> {
    if params.q.len() > SEARCH_BYTES_MAX {
        let (n, max) = (params.q.len(), SEARCH_BYTES_MAX);
        return Err(Trouble::Wrong(format!("q: must be at most {max} bytes, got {n}")));
    }
    let protocols: Vec<_> = dialect::ALL.iter().map(|known| (known.name(), *known)).collect();
    let namespace = Some(meant(&params.namespace)).filter(|namespace| !namespace.is_empty());
    Ok(LockQuery {
        search: params.q.trim().to_lowercase().into(),
        namespace: namespace.map(|namespace| (*namespace).into()),
        stand: one_of("state", &params.state, &STANDS)?,
        dialect: one_of("protocol", &params.protocol, &protocols)?.map(Dialect::number),
        order: one_of("sort", &params.sort, &ORDERS)?.unwrap_or_default(),
        after: cursor::parse(&params.cursor)?,
        n_max: PAGE,
    })
}

/// Finds, sorts and counts locks.
async fn search(visit: &Visit, query: LockQuery) -> Result<FoundLocks, Trouble> {
    // Limits how many searches run at the same time.
    let _sending = visit.app.answers.long(&visit.client)?;
    let of_paths = Some(visit.app.dialect.files.namespace.clone());
    let ask = SearchLocks { query, view: View::default(), of_paths };
    Ok(visit.app.engine.search(visit.caller.permit(ask)?).await?)
}

/// Reads the current state of the locks on this page.
async fn rows(visit: &Visit, found: &FoundLocks) -> Result<Vec<(LockKey, Box<LockView>)>, Trouble> {
    read(visit, found.places.iter().map(|place| place.key.clone())).await
}

/// Reads the state of several locks.
pub(super) async fn read(
    visit: &Visit,
    keys: impl Iterator<Item = LockKey>,
) -> Result<Vec<(LockKey, Box<LockView>)>, Trouble> {
    let mut together = visit.app.engine.together();
    let mut calls = Vec::new();
    for key in keys {
        let ask = visit.caller.permit(ReadLock { key: key.clone(), n_queue_max: 1 })?;
        calls.push((key, together.ask(ask)));
    }
    together.send();
    let mut rows = Vec::with_capacity(calls.len());
    for (key, call) in calls {
        rows.push((key, call.await??));
    }
    Ok(rows)
}

/// Renders the number of locks in each state. Users who can see all namespaces also get charts of recent samples.
fn tiles(visit: &Visit, found: &FoundLocks) -> Markup {
    let samples = visit.sees_all().then(|| visit.app.samples.latest());
    let trace = |of: fn(&super::sample::Sample) -> f64| {
        samples.as_ref().map(|samples| super::chart::spark(samples, of))
    };
    let all = [
        ("Leases held", found.counts.n_holders, trace(|sample| sample.n_held as f64)),
        ("Leases waiting", found.counts.n_waiters, trace(|sample| sample.n_waiting as f64)),
        ("Locks in grace", found.counts.n_in_grace, None),
        ("Locks", found.counts.n_locks, None),
    ];
    html! {
        ul.tiles {
            @for (what, n, trace) in all {
                li { span.figure { (count(n)) } span.what { (what) } @if let Some(trace) = trace { (trace) } }
            }
            @if let Some(samples) = &samples {
                li {
                    span.figure { (Samples::rate(samples)) }
                    span.what { "Grants per second" }
                    (super::chart::spark(samples, |sample| sample.granted_per_s))
                }
            }
        }
    }
}

/// Renders the search form.
fn find(params: &Params, found: &FoundLocks) -> Markup {
    let namespace = meant(&params.namespace);
    let namespaces = found.namespaces.iter().map(|namespace| &**namespace);
    let other = Some(&*namespace).filter(|own| !own.is_empty() && !found.namespaces.contains(*own));
    let namespaces: Vec<_> = other.into_iter().chain(namespaces).map(spelled).collect();
    let namespaces: Vec<_> = namespaces.iter().map(|namespace| &**namespace).collect();
    let protocols: Vec<_> = dialect::ALL.iter().map(|known| known.name()).collect();
    let states = STANDS.map(|(word, _)| word);
    html! {
        form.find method="get" action="/console" role="search" {
            label.wide {
                "Search names and owners"
                input #search type="search" name="q" value=(Text(&params.q)) maxlength=(SEARCH_BYTES_MAX)
                    placeholder="deploy, vm-7, ..." autocomplete="off" spellcheck="false";
            }
            (choice("Namespace", "namespace", &spelled(&namespace), &namespaces))
            (choice("State", "state", &params.state, &states))
            (choice("Protocol", "protocol", &params.protocol, &protocols))
            @if !params.sort.is_empty() { input type="hidden" name="sort" value=(Text(&params.sort)); }
            button.main { "Search" }
        }
    }
}

fn choice(word: &str, field: &str, chosen: &str, known: &[&str]) -> Markup {
    html! {
        label {
            (word)
            select name=(field) {
                option value="" { "All" }
                @for option in known {
                    option value=(Text(option)) selected[*option == chosen] { (Text(option)) }
                }
            }
        }
    }
}

/// Renders the column headings. Sortable columns have a link that sorts the list.
fn head(params: &Params) -> Markup {
    let column = |word: &str, sort: Option<&str>| {
        let chosen = if params.sort.is_empty() { "name" } else { &*params.sort };
        let is_sorted = sort == Some(chosen);
        html! {
            th scope="col" aria-sort=[is_sorted.then_some("ascending")] {
                @match sort {
                    Some(sort) => a href=(Text(&params.with("sort", sort))) {
                        (word) @if is_sorted { span aria-hidden="true" { " ↓" } }
                    },
                    None => (word),
                }
            }
        }
    };
    html! {
        thead {
            tr {
                (column("Lock", Some("name")))
                (column("State", None))
                (column("Holder", None))
                (column("Time left", Some("ends")))
                (column("Held for", Some("held")))
                (column("Waiting", Some("waiters")))
                (column("Longest wait", Some("waited")))
                (column("Protocol", None))
            }
        }
    }
}

fn row(key: &LockKey, view: &LockView, now: Timestamp) -> Markup {
    let latest = view.holders.first();
    let grace = reserved(view, now);
    let wait = view.queue.first().map(|first| now.since(first.created_at).as_millis());
    html! {
        tr data-key={ (Text(&key.namespace)) "/" (Text(&key.name)) } {
            th scope="row" {
                a href=(Text(&of_lock(&key.namespace, &key.name))) { (name(&key.name)) }
                " " (tag(&key.namespace))
            }
            td { (standing(view, now)) }
            td data-label=[latest.map(|_| "held by")] {
                @if let Some(lease) = latest {
                    (owner(lease.dialect, &lease.owner))
                    @if view.n_holders > 1 { span.dim { " and " (count(view.n_holders - 1)) " more" } }
                } @else if let Some(lapse) = grace {
                    span.dim { "for " } (owner(lapse.dialect, &lapse.owner))
                }
            }
            td.keep { (time_left(latest, grace, now)) }
            td.keep data-label=[latest.map(|_| "for")] {
                @if let Some(lease) = latest { (ago(now.since(lease.granted_at).as_millis())) }
            }
            td data-label=[(view.n_waiting > 0).then_some("waiting")] {
                @if view.n_waiting > 0 { (count(view.n_waiting)) }
            }
            td.keep data-label=[wait.map(|_| "waits")] { @if let Some(wait) = wait { (ago(wait)) } }
            td { (protocol(view, now)) }
        }
    }
}

/// Returns the last holder if the lock is in grace, so that only this owner can acquire it.
pub(super) fn reserved(view: &LockView, now: Timestamp) -> Option<&LapseRecord> {
    view.lapse.as_ref().filter(|lapse| view.holders.is_empty() && now < lapse.grace_until)
}

/// Renders the state of a lock.
pub(super) fn standing(view: &LockView, now: Timestamp) -> Markup {
    match (view.holders.is_empty(), reserved(view, now), view.n_waiting) {
        (false, _, _) => state("held", Shape::Full, "held"),
        (true, Some(_), _) => state("grace", Shape::Half, "grace"),
        (true, None, 0) => state("free", Shape::Ring, "free"),
        (true, None, _) => state("waiting", Shape::Hourglass, "waited for"),
    }
}

/// Renders the name of an owner, and the authenticated principal if there is one.
pub(super) fn owner(dialect: leasehold_core::Dialect, owner: &Owner) -> Markup {
    html! {
        (name(&dialect::shown(dialect, owner)))
        @if let Some(principal) = dialect::vouched(owner) {
            @if *principal != *owner.instance { " " (tag(principal)) }
        }
    }
}

pub(super) fn time_left(
    lease: Option<&LeaseView>,
    grace: Option<&LapseRecord>,
    now: Timestamp,
) -> Markup {
    match (lease, grace) {
        (Some(lease), _) => match lease.remaining(now) {
            Some(ms) => left(ms.as_millis(), lease.ttl.map(Span::as_millis)),
            None => html! { span.dim { "until released" } },
        },
        (None, Some(lapse)) => {
            let whole = lapse.grace_until.since(lapse.expired_at).as_millis();
            left(lapse.grace_until.since(now).as_millis(), Some(whole))
        }
        (None, None) => html! {},
    }
}

/// Renders the protocol of the holder, of the first waiter, or of the last holder during grace.
fn protocol(view: &LockView, now: Timestamp) -> Markup {
    let leases = view.holders.first().or(view.queue.first()).map(|lease| lease.dialect);
    let grace = reserved(view, now).map(|lapse| lapse.dialect);
    html! {
        @if let Some(dialect) = grace.or(leases) { span.tag { (dialect::name_of(dialect)) } }
    }
}

fn nothing(params: &Params, found: &FoundLocks) -> Markup {
    let is_searched = [&params.q, &params.namespace, &params.state, &params.protocol];
    html! {
        @if found.counts.n_locks == 0 {
            p { "There is no lock that you may read." }
            p { a href="/console/take" { "Acquire the first lock" } }
        } @else if is_searched.iter().any(|it| !it.is_empty()) || !params.cursor.is_empty() {
            p { "None of " (count(found.counts.n_locks)) " locks is like that." }
            p { a href="/console" { "Show all" } }
        }
    }
}

fn range(found: &FoundLocks, n_rows: usize) -> String {
    let (first, last) = (found.n_before + 1, found.n_before + n_rows);
    format!("{} to {} of {}", count(first), count(last), count(found.n_matches))
}
