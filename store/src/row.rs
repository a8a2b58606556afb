//! Decodes the rows of the state that [`super::change::write_row`] encodes.

use leasehold_core::{Change, Dialect, LapseRecord, LockRecord, Row};

use super::change::{self, read_key, read_owner, read_time, read_token};
use super::codec::{Damaged, Reader};

/// Decodes one row, except the first row of a state, which is stored elsewhere.
pub(super) fn read(r: &mut Reader<'_>) -> Result<Row, Damaged> {
    Ok(match r.byte()? {
        1 => Row::Namespace { name: r.shared()?, floor: read_token(r)? },
        2 => Row::Lock(LockRecord {
            lock: read_key(r)?,
            last_token: read_token(r)?,
            lapse: r.option(read_lapse)?,
        }),
        3 => match change::read(r)? {
            Change::SessionOpened(record) => Row::Session(*record),
            _ => return Err(Damaged("a row is not a session")),
        },
        4 => match change::read(r)? {
            Change::LeaseAdded(record) => Row::Lease(*record),
            _ => return Err(Damaged("a row is not a lease")),
        },
        _ => return Err(Damaged("a row has an unknown kind")),
    })
}

fn read_lapse(r: &mut Reader<'_>) -> Result<LapseRecord, Damaged> {
    Ok(LapseRecord {
        owner: read_owner(r)?,
        dialect: Dialect(r.byte()?),
        expired_at: read_time(r)?,
        grace_until: read_time(r)?,
    })
}
