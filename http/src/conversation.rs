//! A connection of a dialect with a dedicated listener: bytes in, bytes out.
//!
//! Such a connection has the same slot limits, TLS, PROXY header, worker thread and idle timeout as an HTTP connection.
//! A grant counts as delivered once the system has accepted the bytes of its reply.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use leasehold_engine::Undelivered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Options;
use super::activity::{Activity, InProgress};
use super::aside::Aside;
use super::connection::{idle_too_long, unwelcome};
use super::intake::Counted;
use super::line::Line;
use super::opening::Opened;
use super::places::Place;
use super::{Handler, Passage};
use crate::request::Visitor;

/// Minimum bytes to read at a time.
const PIECE_BYTES: usize = 16 * 1024;
/// Idle timeout if none is configured: longer than any client lives.
pub(super) const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A connection, as its dialect sees it.
pub struct Conversation {
    line: Line,
    visitor: Visitor,
    activity: Arc<Activity>,
    /// Set while the requests that were read last are being answered.
    in_progress: Option<InProgress>,
    answer_timeout: Duration,
    stop: watch::Receiver<bool>,
}

/// The result of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// More bytes were received.
    More,
    /// The client sends no more, or the server stops.
    End,
    /// Nothing was received in time.
    Late,
}

impl Conversation {
    /// The client.
    pub fn visitor(&self) -> &Visitor {
        &self.visitor
    }

    /// Reads more bytes from the client. Call this when all complete requests are answered; `into` has the rest.
    pub async fn hear(&mut self, into: &mut BytesMut, until: Option<Instant>) -> Heard {
        self.in_progress = None;
        self.activity.has_left(into.len());
        into.reserve(PIECE_BYTES);
        let late = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let heard = tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => Heard::End,
            read = self.line.read_buf(into) => match read {
                Ok(1..) => Heard::More,
                Ok(0) | Err(_) => Heard::End,
            },
            () = late => Heard::Late,
        };
        self.in_progress = (heard == Heard::More).then(|| self.activity.begin_whole());
        heard
    }

    /// Sends bytes. Each grant is delivered by the bytes up to its position. Returns `false` if the client no longer
    /// reads.
    pub async fn say(&mut self, bytes: &[u8], grants: Vec<(usize, Undelivered)>) -> bool {
        self.activity.intake.clear();
        for (n_bytes, undelivered) in grants {
            self.line.outgoing().hand_over_up_to(undelivered, n_bytes as u64);
        }
        let saying = async {
            self.line.write_all(bytes).await?;
            self.line.flush().await
        };
        matches!(tokio::time::timeout(self.answer_timeout, saying).await, Ok(Ok(())))
    }
}

/// Serves a connection that another server forwards, as if the client had connected here. Closes it if this server does
/// not lead either.
pub(super) async fn serve_for_peer<H: Handler>(
    opened: Opened,
    place: Place,
    handler: H,
    stop: watch::Receiver<bool>,
) {
    let line = opened.first_line.as_deref().unwrap_or_default();
    let Some((visitor, protocol)) = handler.forwarded(line) else { return };
    let places = place.places().clone();
    drop(place);
    let Ok(place) = places.enter(visitor.peer) else { return };
    let is_restricted = visitor.is_restricted || place.is_restricted();
    let visitor = Visitor { is_restricted, remembered: Some(Arc::default()), ..visitor };
    converse(Opened { visitor, ..opened }, place, handler, protocol, stop).await;
}

/// Serves a connection until the dialect or a limit ends it. If another server leads, forwards it to that server.
pub(super) async fn serve<H: Handler>(
    mut opened: Opened,
    place: Place,
    handler: H,
    protocol: H::Protocol,
    stop: watch::Receiver<bool>,
) {
    if let Some(passing) = handler.pass_on(protocol, &opened.visitor, &mut opened.line) {
        let in_progress = place.activity.begin_whole();
        let passage = tokio::select! {
            () = place.activity.until_shed() => return,
            passage = passing => passage,
        };
        drop(in_progress);
        if matches!(passage, Passage::Over) {
            return;
        }
    }
    converse(opened, place, handler, protocol, stop).await;
}

async fn converse<H: Handler>(
    opened: Opened,
    place: Place,
    handler: H,
    protocol: H::Protocol,
    stop: watch::Receiver<bool>,
) {
    let Opened { line, visitor, demand, .. } = opened;
    let is_certified = visitor.link.certificate.is_some();
    let (wire, outgoing) = (line.wire().clone(), line.outgoing().clone());
    let idle_timeout = handler.idle_timeout(protocol).unwrap_or(FOREVER);
    let options = Options { idle_timeout, ..handler.options().clone() };
    let counted = Counted::new(place.activity.clone(), place.places().clone());
    let conversation = Conversation {
        line: line.counted(counted),
        visitor,
        activity: place.activity.clone(),
        in_progress: None,
        answer_timeout: options.answer_timeout,
        stop,
    };
    let mut ending = Aside::new(async {
        tokio::select! {
            () = unwelcome(demand, is_certified) => {}
            () = idle_too_long(&place.activity, &options, place.is_restricted()) => {}
            () = place.activity.until_shed() => {}
        }
    });
    let is_done = tokio::select! {
        biased;
        () = &mut ending => false,
        () = handler.converse(protocol, conversation) => true,
    };
    outgoing.over();
    drop(ending);
    let lingering = is_done.then(|| place.leave(&wire)).flatten();
    if let Some(lingering) = lingering {
        lingering.finish().await;
    }
}
