//! The tokens of a lock grow from grant to grant.

/// The tokens of one lock that clients have received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tokens {
    highest: u64,
}

impl Tokens {
    /// Returns the highest token received so far.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Records that a client received a grant with `token`. `before` is the result of [`Self::highest`] when the client
    /// sent its request, or later if the grant is known to have followed. Returns whether the token has grown.
    pub fn granted(&mut self, token: u64, before: u64) -> bool {
        self.highest = self.highest.max(token);
        token > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_repeated_or_smaller_has_not_grown() {
        let mut tokens = Tokens::default();
        for (token, has_grown) in [(5, true), (5, false), (4, false), (6, true)] {
            let before = tokens.highest();
            assert_eq!(tokens.granted(token, before), has_grown, "{token} after {before}");
        }
    }

    #[test]
    fn concurrent_grants_may_be_received_in_any_order() {
        let mut tokens = Tokens::default();
        let before = tokens.highest();
        assert!(tokens.granted(2, before));
        assert!(
            tokens.granted(1, before),
            "its request was sent before the other grant was received"
        );
        assert_eq!(tokens.highest(), 2);
    }
}
