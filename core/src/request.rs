//! Request ids: a repeated request finds the effect of the first one instead of having a second effect.

/// A request with an id. The fingerprint tells a repeated request from a different one with the same id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The kind of request. Each kind has separate ids.
    pub operation: Operation,
    /// The id, chosen by the client.
    pub id: Box<str>,
    /// A hash of the rest of the request, without the length of its wait.
    pub fingerprint: u64,
}

/// The kinds of requests that can have an id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the commands of the same names")]
pub enum Operation {
    Acquire,
    Renew,
    Release,
}

/// An FNV-1a hash. It is stored in journals, so it must never change. Ids are looked up per owner, so a client that
/// causes collisions harms only itself.
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    /// Adds a text. Its length comes first, so that moving a byte from one field to the next changes the hash.
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
