//! Forwards connections of dialects that are not HTTP from followers to the leader, byte by byte.
//!
//! Such a connection starts with a line that describes the client. The client's data follows.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use leasehold_engine::EngineHandle;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::hop::Hop;
use super::relay::{HOLD_MAX, PAUSE, is_near};
use super::{Peers, Relay};
use crate::dialect::{self, Dialect};
use crate::http::Passage;
use crate::http::opening::FORWARDED;
use crate::http::request::Visitor;
use leasehold_store::Leader;

/// The rest of the first line, as JSON.
#[derive(Serialize, Deserialize)]
struct Opening {
    key: String,
    dialect: String,
    hop: Hop,
}

impl Relay {
    /// Parses the first line of a forwarded connection; `None` if it is not from a peer with the key.
    pub(crate) fn tunnelled(&self, line: &[u8]) -> Option<(Visitor, dialect::Listener)> {
        let Opening { key, dialect, hop } =
            serde_json::from_slice(line.strip_prefix(FORWARDED)?).ok()?;
        let dialect = Dialect::from_str(&dialect).ok()?.listener()?;
        let is_known = self.peers().is_key(key.as_bytes());
        is_known.then(|| (hop.visitor(), dialect))
    }

    /// Forwards a connection to the leader, until either end closes it or another server leads.
    pub(crate) async fn carry<S>(
        &self,
        engine: &EngineHandle,
        dialect: Dialect,
        visitor: &Visitor,
        line: &mut S,
    ) -> Passage
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if engine.is_leading() {
            return Passage::Here;
        }
        let until = Instant::now() + HOLD_MAX;
        let mut whereabouts = engine.whereabouts();
        while Instant::now() < until {
            let now = whereabouts.borrow_and_update().clone();
            if now.is_here {
                return Passage::Here;
            }
            let begun = match &now.leader {
                Some(leader) => {
                    timeout_at(until, begin(self.peers(), leader, dialect, visitor)).await
                }
                None => Ok(Err(io::ErrorKind::NotFound.into())),
            };
            if let Ok(Ok(mut there)) = begun {
                let another_leads = async {
                    let is_another =
                        |then: &leasehold_engine::Whereabouts| then.leader != now.leader;
                    let _ = whereabouts.wait_for(is_another).await;
                };
                tokio::select! {
                    _ = copy_bidirectional(line, &mut there) => {}
                    () = another_leads => {}
                    () = engine.stopped() => {}
                }
                return Passage::Over;
            }
            let pause = if now.leader.is_some() { PAUSE } else { Duration::from_secs(1) };
            tokio::select! {
                _ = whereabouts.changed() => {}
                () = sleep(pause) => {}
            }
        }
        Passage::Here
    }
}

async fn begin(
    peers: &Peers,
    leader: &Leader,
    dialect: Dialect,
    visitor: &Visitor,
) -> io::Result<TcpStream> {
    let there = leader.peering.as_ref().ok_or(io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect(&*there.address).await?;
    stream.set_nodelay(true)?;
    let (key, dialect) = (peers.key_of(there).to_owned(), dialect.name().to_owned());
    let hop = Hop::of(visitor);
    let hop = if is_near(there) { hop } else { hop.uncertified() };
    let opening = Opening { key, dialect, hop };
    let mut line = FORWARDED.to_vec();
    serde_json::to_writer(&mut line, &opening)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    Ok(stream)
}
