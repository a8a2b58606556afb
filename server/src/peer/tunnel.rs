//! Connections of dialects that are not HTTP: whoever does not lead passes them on to the one that does, byte by byte.
//!
//! Such a connection begins with a line that says whose it is. What follows is the client's.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::hop::Hop;
use super::relay::{HOLD_MAX, PAUSE, is_near};
use super::{Peers, Relay};
use crate::dialect::{self, Dialect};
use crate::door::Visitor;
use crate::engine::EngineHandle;
use crate::store::Leader;

/// What the first line begins with. HTTP/2 begins otherwise.
pub(crate) const OPENING: &[u8] = b"LEASEHOLD ";
/// The longest first line.
pub(crate) const OPENING_BYTES_MAX: usize = 16 * 1024;

/// The rest of the first line.
#[derive(Serialize, Deserialize)]
struct Opening {
    key: String,
    dialect: String,
    hop: Hop,
}

/// Whose connection it is.
pub(crate) struct Tunnelled {
    pub(crate) visitor: Visitor,
    pub(crate) dialect: dialect::Listener,
}

/// How passing a connection on ended.
pub(crate) enum Passage {
    /// It is to be answered here: this server leads, or nobody does.
    Here,
    /// It is over.
    Over,
}

impl Relay {
    /// Whose connection begins with this line; `None`: not that of a server that shows the key.
    pub(crate) fn tunnelled(&self, line: &[u8]) -> Option<Tunnelled> {
        let Opening { key, dialect, hop } =
            serde_json::from_slice(line.strip_prefix(OPENING)?).ok()?;
        let dialect = Dialect::from_str(&dialect).ok()?.listener()?;
        let is_known = self.peers().is_key(key.as_bytes());
        is_known.then(|| Tunnelled { visitor: hop.visitor(), dialect })
    }

    /// Passes a connection on to the one that leads, until one of its ends has enough or another leads.
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
                    let is_another = |then: &crate::engine::Whereabouts| then.leader != now.leader;
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
    let mut line = OPENING.to_vec();
    serde_json::to_writer(&mut line, &opening)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    Ok(stream)
}
