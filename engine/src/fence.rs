//! Checks a fencing token against all holders of a lock, of which a view shows only some.

use leasehold_core::{LockKey, Rejection, Settle, Token};

use super::batch::Batch;
use super::read::Look;
use super::writer::Writer;

/// Asks whether a lease with this token holds the lock.
#[derive(Clone, Debug)]
pub struct CheckToken {
    /// Which lock.
    pub key: LockKey,
    /// Which token.
    pub token: Token,
}

/// What is known of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenState {
    /// A lease with this token holds the lock.
    pub is_held: bool,
    /// The token of the latest grant.
    pub last_token: Token,
}

impl Look for CheckToken {
    type Found = Result<TokenState, Rejection>;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> Self::Found {
        let Self { key, token } = self;
        writer.apply(Settle(key.clone()), batch)?;
        let is_held = writer.machine.is_held_with(&key, token);
        Ok(TokenState { is_held, last_token: writer.machine.last_token(&key) })
    }
}
