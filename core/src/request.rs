//! Request ids: a repeated request finds the effect of the first instead of having a second one.

/// What a client asked, so that asking again can be told from asking something else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Which kind of request: ids of different operations never meet.
    pub operation: Operation,
    /// Chosen by the client.
    pub id: Box<str>,
    /// Of everything else in it but the wait.
    pub fingerprint: u64,
}

/// The operations a request id can belong to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the commands of the same names")]
pub enum Operation {
    Acquire,
    Renew,
    Release,
}

/// FNV-1a. Stored in journals, so it may never change; collisions hurt only whoever makes them, because ids
/// are looked up per owner.
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    /// Length first, so that moving a byte from one field to the next changes the result.
    pub(crate) fn text(mut self, text: &[u8]) -> Self {
        self.write(&(text.len() as u64).to_le_bytes());
        self.write(text);
        self
    }

    pub(crate) fn number(mut self, number: u64) -> Self {
        self.write(&number.to_le_bytes());
        self
    }

    pub(crate) fn done(self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}
