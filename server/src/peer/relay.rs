//! Forwards requests to the leader, and answers forwarded requests.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::header::{CONNECTION, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use axum::http::request::Parts;
use axum::http::uri::{Authority, Scheme};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use leasehold_api::Code;
use leasehold_base::clock;
use leasehold_core::{LeaseNumber, mutant};
use leasehold_engine::{EngineHandle, Undelivered, Whereabouts};
use tokio::time::{Instant, sleep, timeout};

use super::again::Source;
use super::hop::Hop;
use super::refusal::{lost, no_leader, not_leading, stranger, uncertified};
use super::repeat::{AGAIN_AFTER, Doubt, Ended, ended, is_repeatable_wait};
use super::under_way::UnderWay;
use super::uplink::{Loss, Sent, Uplink, grants};
use super::{GRANT, HELD_MS, HOP, ID, KEY, NOT_LEADING, OURS, Peers, SEQ};
use crate::app::Following;
use crate::app::failure;
use crate::door::Door;
use crate::http::request::{Answer, Visitor};
use leasehold_store::{Leader, Peering};

/// How long a request waits for a leader.
pub(super) const HOLD_MAX: Duration = Duration::from_secs(5);
/// Pause before another try if the leader could not be reached or does not lead yet.
pub(super) const PAUSE: Duration = Duration::from_millis(25);
/// How long forwarded requests can continue when this server stops.
const SEE_OFF_MAX: Duration = Duration::from_secs(1);
/// Requests whose responses were lost at the same time are answered one by one at this interval, so that other requests
/// are served in the meantime: when a leader fails, tens of thousands can be affected.
const LOST_EVERY: Duration = Duration::from_micros(200);
/// Maximum size of a response that grants a lease.
const GRANT_BYTES_MAX: usize = 1 << 20;

/// Forwards the requests of one serving thread.
pub(crate) struct Relay {
    peers: Arc<Peers>,
    uplink: Uplink,
    under_way: UnderWay,
    /// Number of lost responses that the leader has not been told of yet.
    n_lost: AtomicU32,
}

/// A request that the leader answers.
struct Passed {
    visitor: Visitor,
    head: Parts,
    body: Source,
    /// When the request arrived.
    received: clock::Instant,
    until: Instant,
    doubt: Doubt,
}

impl Relay {
    pub(crate) fn new(peers: Arc<Peers>) -> Self {
        let uplink = Uplink::new(peers.clone());
        Self { peers, uplink, under_way: UnderWay::default(), n_lost: AtomicU32::new(0) }
    }

    /// Creates a relay for another thread.
    pub(crate) fn another(&self) -> Self {
        Self { under_way: self.under_way.clone(), ..Self::new(self.peers.clone()) }
    }

    pub(super) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Returns whether the leader can be reached.
    pub(crate) async fn is_led(&self, engine: &EngineHandle) -> bool {
        self.last_record(engine).await.is_some()
    }

    /// Waits until this follower has read the leader's journal up to now, or cannot know how far that is.
    async fn read_up_to_now(&self, engine: &EngineHandle) {
        if engine.is_following()
            && let Some(seq) = self.last_record(engine).await
        {
            engine.follow_to(seq).await;
        }
    }

    async fn last_record(&self, engine: &EngineHandle) -> Option<u64> {
        let leader = engine.whereabouts().borrow().leader.clone();
        self.uplink.last_of(leader.as_deref()?.peering.as_ref()?).await
    }

    /// Forwards the request to the leader. Answers it here if this server becomes the leader.
    pub(crate) async fn pass_on(
        &self,
        door: &Door,
        visitor: Visitor,
        request: Request<Body>,
    ) -> Answer {
        let engine = &door.app().engine;
        let (head, body) = request.into_parts();
        let (received, until) = (engine.instant(), Instant::now() + HOLD_MAX);
        let (body, doubt) = (Source::new(body), Doubt::default());
        let passed = Passed { visitor, head, body, received, until, doubt };
        let is_safe = passed.head.method.is_safe();
        let stopped = async {
            engine.stopped().await;
            sleep(SEE_OFF_MAX).await;
        };
        tokio::select! {
            biased;
            answer = self.find_answer(door, passed) => answer,
            () = stopped => lost(is_safe).into(),
        }
    }

    async fn find_answer(&self, door: &Door, mut passed: Passed) -> Answer {
        let engine = &door.app().engine;
        let mut whereabouts = engine.whereabouts();
        loop {
            let now = whereabouts.borrow_and_update().clone();
            if now.is_here && engine.is_leading() {
                return passed.answer_here(door).await;
            }
            if let Some(leader) = now.leader.as_deref()
                && let Some(there) = &leader.peering
            {
                if passed.visitor.link.certificate.is_some() && !is_near(there) {
                    return uncertified(leader).into();
                }
                if let Some(answer) = self.ask(engine, (leader, there), &mut passed).await {
                    return answer;
                }
            }
            if Instant::now() >= passed.until {
                return passed.in_vain().into();
            }
            let pause = match now.leader {
                Some(_) if passed.doubt.is_left() => AGAIN_AFTER,
                Some(_) => PAUSE,
                None => HOLD_MAX,
            };
            tokio::select! {
                _ = whereabouts.changed() => {}
                () = sleep(pause.min(passed.until - Instant::now())) => {}
            }
            if passed.doubt.is_left() {
                // Many waits might continue at the same time.
                let place = PlaceInLine::behind(&self.n_lost);
                sleep(LOST_EVERY * place.n_before).await;
            }
        }
    }

    /// Returns the leader's answer, or `None` if that server does not lead or cannot be reached and has not processed
    /// the request.
    async fn ask(
        &self,
        engine: &EngineHandle,
        (leader, there): (&Leader, &Peering),
        passed: &mut Passed,
    ) -> Option<Answer> {
        let Some(request) = passed.to_send(engine) else {
            return Some(passed.in_vain().into());
        };
        let sent = tokio::select! {
            biased;
            sent = self.uplink.send(there, request) => sent,
            // The old leader is unlikely to answer anymore.
            () = another_leads(engine, there) => Sent::Overtaken,
        };
        match sent {
            Sent::Unsent => None,
            Sent::Lost(_) | Sent::Overtaken if mutant!(LostIsRepeated) => None,
            Sent::Lost(loss) if passed.can_be_repeated() => {
                passed.is_in_doubt(leader, Some(loss));
                None
            }
            Sent::Overtaken if passed.can_be_repeated() => {
                passed.is_in_doubt(leader, None);
                None
            }
            sent @ (Sent::Lost(_) | Sent::Overtaken) => {
                // Dropping it makes the leader abandon the request immediately.
                drop(sent);
                self.led_again(engine, there).await;
                Some(lost(passed.head.method.is_safe()).into())
            }
            Sent::Answered(response, _) if response.headers().contains_key(NOT_LEADING) => {
                if response.status() == StatusCode::FORBIDDEN {
                    self.uplink.is_stranger(there);
                }
                None
            }
            Sent::Answered(response, id) if grants(&response) => {
                Some(self.deliver((there, id), response).await)
            }
            Sent::Answered(response, _)
                if response.status() == StatusCode::SERVICE_UNAVAILABLE
                    && passed.can_be_repeated() =>
            {
                match ended(response, passed.doubt.is_left()).await {
                    Ended::Answer(response) => Some(response.into()),
                    Ended::Undecided => {
                        passed.is_in_doubt(leader, None);
                        None
                    }
                }
            }
            Sent::Answered(response, _) => Some(response.map(Body::new).into()),
        }
    }

    /// Waits after a lost connection until there is a leader again, or a time limit passes.
    ///
    /// Clients get the error only then: otherwise all of them would retry at the same time and delay the new leader.
    async fn led_again(&self, engine: &EngineHandle, there: &Peering) {
        let place = PlaceInLine::behind(&self.n_lost);
        match self.uplink.reach(there).await {
            Ok(()) => return,
            // That server process is gone. A timeout means that no other server took over in time.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = timeout(HOLD_MAX, led_by_another(engine, there)).await;
            }
            // The network failed. Noticing that has already taken long enough.
            Err(_) => {}
        }
        sleep(LOST_EVERY * place.n_before).await;
    }

    /// Returns the answer for the client. If it is not delivered, the leader releases the grant in it.
    async fn deliver(&self, (there, id): (&Peering, u64), response: Response<Incoming>) -> Answer {
        let (uplink, there) = (self.uplink.clone(), there.clone());
        let undelivered = Undelivered::elsewhere(move || uplink.give_up(there, id));
        let (mut head, body) = response.into_parts();
        head.headers.remove(GRANT);
        match to_bytes(Body::new(body), GRANT_BYTES_MAX).await {
            Ok(body) => {
                Answer::new(Response::from_parts(head, Body::from(body)), Some(undelivered))
            }
            // Dropping the guard releases the grant.
            Err(_) => lost(false).into(),
        }
    }

    /// Answers a request from a peer. Rejects clients that do not send the key.
    pub(crate) async fn attend<B>(
        &self,
        door: &Door,
        Visitor { is_restricted, stream, .. }: Visitor,
        mut request: Request<B>,
    ) -> Answer
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        if !self.peers.is_shown(request.headers()) {
            return stranger().into();
        }
        let engine = &door.app().engine;
        request.headers_mut().remove(KEY);
        let Some(hop) = request.headers_mut().remove(HOP) else {
            return self.obey(engine, &request).into();
        };
        let number = |name: &HeaderName, headers: &mut HeaderMap| -> Option<u64> {
            headers.remove(name)?.to_str().ok()?.parse().ok()
        };
        let held_ms = number(&HELD_MS, request.headers_mut());
        let held_ms = held_ms.filter(|_| !mutant!(HeldTimeIgnored)).unwrap_or(0);
        let id = number(&ID, request.headers_mut());
        let (Some(hop), Some(id)) = (Hop::decode(hop.as_bytes()), id) else {
            let why = "the other server has another version";
            return failure(StatusCode::BAD_REQUEST, Code::InvalidRequest, why).into();
        };
        if !engine.is_leading() {
            return not_leading().into();
        }
        let received = engine.instant().before(Duration::from_millis(held_ms));
        let mut visitor = hop.visitor();
        visitor.is_restricted |= is_restricted;
        visitor.stream = stream;
        let under_way = self.under_way.begin(id);
        let mut answer = tokio::select! {
            biased;
            () = under_way.gone() => return StatusCode::NO_CONTENT.into_response().into(),
            answer = door.attend(visitor, request, Some(received)) => answer,
        };
        if let Some((epoch, LeaseNumber(lease))) =
            answer.undelivered.as_ref().and_then(Undelivered::grant)
            && let Ok(grant) = HeaderValue::from_str(&format!("{epoch}-{lease}"))
        {
            let undelivered = answer.undelivered.take();
            answer.undelivered = undelivered.and_then(|undelivered| under_way.grants(undelivered));
            answer.response.headers_mut().insert(GRANT, grant);
        }
        answer
    }

    /// Handles a request that a peer sends on its own behalf.
    fn obey<B>(&self, engine: &EngineHandle, request: &Request<B>) -> Response {
        let words: Vec<_> = request.uri().path().split('/').skip(1).collect();
        let number = |text: &str| text.parse::<u64>().ok();
        match (request.method(), words.as_slice()) {
            (&Method::GET, ["leads"]) if engine.is_leading() => {
                let seq = HeaderValue::from(engine.told_through());
                return (StatusCode::NO_CONTENT, [(SEQ, seq)]).into_response();
            }
            (&Method::GET, ["leads"]) => return not_leading(),
            (&Method::POST, ["gone", id]) => {
                if let Some(id) = number(id) {
                    self.under_way.give_up(id);
                }
            }
            _ => return failure(StatusCode::NOT_FOUND, Code::NotFound, "no such path"),
        }
        StatusCode::NO_CONTENT.into_response()
    }
}

/// A position among requests that wait for the same event; given up when dropped.
struct PlaceInLine<'a> {
    all: &'a AtomicU32,
    n_before: u32,
}

impl<'a> PlaceInLine<'a> {
    fn behind(all: &'a AtomicU32) -> Self {
        Self { all, n_before: all.fetch_add(1, Relaxed) }
    }
}

impl Drop for PlaceInLine<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Relaxed);
    }
}

impl Passed {
    /// Returns whether the request is a wait that another leader can continue.
    fn can_be_repeated(&self) -> bool {
        self.head.method == Method::POST && self.body.is(is_repeatable_wait)
    }

    /// This leader did not report the outcome: the wait continues at the next leader, or at the same one later.
    fn is_in_doubt(&mut self, leader: &Leader, loss: Option<Loss>) {
        self.until = self.doubt.arises(leader.seat, loss, self.until);
    }

    /// Returns the response if no leader answers.
    fn in_vain(&self) -> Response {
        if self.doubt.is_left() { lost(false) } else { no_leader() }
    }

    /// Answers the request here, because this server has become the leader.
    async fn answer_here(self, door: &Door) -> Answer {
        let Self { visitor, head, body, received, .. } = self;
        match body.begin() {
            Some(body) => {
                door.attend(visitor, Request::from_parts(head, body), Some(received)).await
            }
            None => no_leader().into(),
        }
    }

    /// Returns the request to send to the leader; `None` if the start of its body is no longer kept.
    fn to_send(&self, engine: &EngineHandle) -> Option<Request<Body>> {
        let mut request = Request::new(Body::new(self.body.begin()?));
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = whole_uri(&self.head)?;
        *request.headers_mut() = self.head.headers.clone();
        let headers = request.headers_mut();
        // Headers that apply only to the client's connection.
        let own =
            self.head.headers.get_all(CONNECTION).iter().filter_map(|names| names.to_str().ok());
        let own: Vec<_> = own.flat_map(|names| names.split(',')).map(str::trim).collect();
        own.into_iter().for_each(|name| drop(headers.remove(name)));
        for name in [CONNECTION, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
            headers.remove(name);
        }
        for name in ["keep-alive", "proxy-connection"] {
            headers.remove(name);
        }
        OURS.iter().for_each(|name| drop(headers.remove(name)));
        headers.insert(HOP, Hop::of(&self.visitor).encode());
        // Rounded down, so that no client overestimates its lease.
        let held_ms = engine.instant().since(self.received).as_millis() as u64;
        headers.insert(HELD_MS, held_ms.into());
        Some(request)
    }
}

/// Returns shortly after a server other than `than` has become the leader.
async fn another_leads(engine: &EngineHandle, than: &Peering) {
    led_by_another(engine, than).await;
    sleep(SEE_OFF_MAX).await;
}

async fn led_by_another(engine: &EngineHandle, than: &Peering) {
    let is_another = |now: &Whereabouts| {
        let theirs = now.leader.as_ref().and_then(|leader| leader.peering.as_ref());
        now.is_here || theirs.is_some_and(|theirs| theirs != than)
    };
    let mut whereabouts = engine.whereabouts();
    if whereabouts.wait_for(is_another).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns the URI with the host that the request was for, as HTTP/2 requires.
fn whole_uri(head: &Parts) -> Option<Uri> {
    let named = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = named.and_then(|host| host.parse::<Authority>().ok());
    let mut parts = head.uri.clone().into_parts();
    parts.authority = authority.or(parts.authority).or_else(|| "localhost".parse().ok());
    parts.scheme = Some(Scheme::HTTP);
    Uri::from_parts(parts).ok()
}

/// Returns whether the peer is on the local machine, so that the connection needs no encryption.
pub(super) fn is_near(there: &Peering) -> bool {
    there.address.parse::<SocketAddr>().is_ok_and(|at| at.ip().to_canonical().is_loopback())
}

impl Following for Relay {
    fn catch_up<'a>(
        &'a self,
        engine: &'a EngineHandle,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.read_up_to_now(engine))
    }
}
