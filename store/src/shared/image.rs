//! Encodes the state of a machine for a snapshot.

use leasehold_core::{LeaseNumber, Limits, Machine, Row, SessionNumber, Timestamp, Token};

use crate::codec::{Damaged, Reader, Writer};
use crate::{change, row};

/// The version of the encoding. Newer versions are rejected.
const VERSION: u8 = 1;

/// Encodes the whole state of a machine. Equal states have equal bytes.
pub(super) fn encode(machine: &Machine) -> Vec<u8> {
    let mut w = Writer::default();
    w.byte(VERSION);
    let rows = machine.export();
    w.number(rows.len() as u64);
    for row in &rows {
        match row {
            Row::Meta { next_lease, next_session, now, floor, maintenance } => {
                w.number(next_lease.0);
                w.number(next_session.0);
                w.number(now.as_nanos());
                w.number(floor.get());
                w.flag(*maintenance);
            }
            row => change::write_row(&mut w, row),
        }
    }
    w.0
}

/// Decodes a machine. The error states in words what is wrong with the bytes.
pub(super) fn decode(bytes: &[u8], limits: Limits, hash_seed: u128) -> Result<Machine, String> {
    let damaged = |Damaged(why): Damaged| format!("the snapshot is damaged: {why}");
    let mut r = Reader(bytes);
    if r.byte().map_err(damaged)? != VERSION {
        return Err("the snapshot was written by a newer version".into());
    }
    let n_rows = r.number().map_err(damaged)?;
    let mut importer = Machine::importer(limits, hash_seed);
    for n in 0..n_rows {
        let read = if n == 0 { read_meta(&mut r) } else { row::read(&mut r) };
        let row = read.map_err(damaged)?;
        importer.add(row).map_err(|error| format!("the snapshot contradicts itself: {error}"))?;
    }
    if !r.0.is_empty() {
        return Err("the snapshot is longer than it says".into());
    }
    Ok(importer.finish())
}

fn read_meta(r: &mut Reader<'_>) -> Result<Row, Damaged> {
    Ok(Row::Meta {
        next_lease: LeaseNumber(r.number()?),
        next_session: SessionNumber(r.number()?),
        now: Timestamp::from_nanos(r.number()?),
        floor: Token::ZERO.raised(r.number()?),
        maintenance: r.flag()?,
    })
}

#[cfg(test)]
mod tests {
    use leasehold_core::{
        Acquire, Dialect, LockKey, OpenSession, Owner, Secret, SessionDigest, Span,
    };

    use super::*;

    /// Returns a machine with active, waiting and ended leases, with sessions and with a grace period.
    fn machine() -> Machine {
        let mut machine = Machine::new(Limits::default(), 1);
        let at = |ms| Timestamp::ZERO + Span::from_millis(ms);
        let session = SessionDigest([7; 32]);
        machine.apply(
            at(1),
            OpenSession {
                digest: session,
                owner: Owner::new("p", "a"),
                dialect: Dialect(0),
                ttl: Span::from_secs(10),
                peer: None,
                credential: None,
            },
        );
        for (n, name) in ["a", "b", "a", "c"].into_iter().enumerate() {
            let owner = Owner::new("p", format!("o{n}").as_str());
            let acquire = Acquire {
                ttl: Some(Span::from_secs(5)),
                grace: Span::from_secs(5),
                wait: leasehold_core::Wait::Unattended(Span::from_secs(60)),
                request_id: Some(format!("r{n}").as_str().into()),
                ..Acquire::new(LockKey::new("ns", name), owner, Dialect(0), Secret([n as u8; 16]))
            };
            machine.apply(at(2 + n as u64), acquire);
        }
        let sweep = leasehold_core::Sweep { n_changes_max: 100 };
        machine.apply(at(6_000), sweep);
        machine
    }

    #[test]
    fn a_state_comes_back_as_it_was() {
        let machine = machine();
        let bytes = encode(&machine);
        let same = decode(&bytes, Limits::default(), 2).expect("a machine");
        assert_eq!(same.export(), machine.export());
        assert_eq!(encode(&same), bytes);
        for n in 0..bytes.len() {
            assert!(decode(&bytes[..n], Limits::default(), 2).is_err(), "cut to {n} bytes");
        }
        assert!(decode(&[&bytes[..], b"x"].concat(), Limits::default(), 2).is_err());
        assert!(decode(&[&[2], &bytes[1..]].concat(), Limits::default(), 2).is_err());
    }
}
