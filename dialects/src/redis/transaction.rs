//! Transactions are not supported: none of the commands in one is executed.

use super::reply::Reply;

/// The state of a transaction. Most clients send a whole transaction before they read the first reply. So after
/// `MULTI` no command is executed until the client ends the transaction; otherwise locks would be acquired that the
/// client does not know it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Transaction {
    is_open: bool,
}

impl Transaction {
    /// Returns the reply to a command that is not executed because of its position, or `None` if it is executed.
    pub(super) fn answer(&mut self, name: &str) -> Option<Reply> {
        match (name, self.is_open) {
            ("multi", false) => {
                self.is_open = true;
                Some(Reply::error(
                    "MULTI is not supported: this server has no transactions and executes nothing up to EXEC. Send \
                     the commands without MULTI (redis-py: pipeline(transaction=False))",
                ))
            }
            ("exec", true) => {
                self.is_open = false;
                let why = "EXECABORT Transaction discarded: MULTI is not supported here; nothing was executed";
                Some(Reply::Error(why.into()))
            }
            ("discard", true) => {
                self.is_open = false;
                Some(Reply::OK)
            }
            ("exec", false) => Some(Reply::error("EXEC without MULTI")),
            ("discard", false) => Some(Reply::error("DISCARD without MULTI")),
            // A client that disconnects leaves no transaction open.
            ("quit", _) | (_, false) => None,
            (_, true) => Some(Reply::error(
                "not executed: the command came after MULTI, which is not supported here; EXEC or DISCARD ends the \
                 transaction",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_done_between_multi_and_its_end() {
        for end in ["exec", "discard"] {
            let mut refused = Transaction::default();
            assert_eq!(refused.answer("set"), None);
            for name in ["multi", "set", "multi", "other", "auth", end] {
                assert!(refused.answer(name).is_some(), "{name}");
            }
            assert_eq!(refused.answer("set"), None, "after {end}");
            assert!(refused.answer(end).is_some_and(|reply| reply.is_error()), "nothing is open");
        }
    }

    #[test]
    fn quit_is_executed_inside_a_transaction() {
        let mut refused = Transaction::default();
        assert!(refused.answer("multi").is_some());
        assert_eq!(refused.answer("quit"), None);
    }
}
