//! Notices that are shown once, on the page that follows a form. If the user reloads that page or shares its URL, the
//! notice is not shown again.

use std::collections::VecDeque;
use std::sync::Mutex;

use leasehold_base::sync::lock;

/// Maximum number of unread notices; the oldest are dropped.
const KEPT: usize = 256;

/// Unread notices with their ids. An id is random, and only the browser that sent the form knows it. All threads share
/// the notices.
#[derive(Default)]
pub(crate) struct Notices(Mutex<VecDeque<(String, String)>>);

impl Notices {
    /// Stores a notice and returns its id.
    pub(super) fn leave(&self, text: String) -> String {
        let id = leasehold_auth::hex(&leasehold_base::random::bytes::<16>());
        let mut kept = lock(&self.0);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((id.clone(), text));
        id
    }

    /// Returns the notice with this id and removes it. Returns `None` if it was already shown or dropped.
    pub(super) fn take(&self, id: &str) -> Option<String> {
        let mut kept = lock(&self.0);
        let at = kept.iter().position(|(own, _)| own == id)?;
        kept.remove(at).map(|(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_not_said_again_and_the_oldest_are_forgotten() {
        let notices = Notices::default();
        let first = notices.leave("first".into());
        let ids: Vec<_> = (0..KEPT).map(|n| notices.leave(n.to_string())).collect();
        assert_eq!(notices.take(&first), None);
        assert_eq!(notices.take(&ids[7]).as_deref(), Some("7"));
        assert_eq!(notices.take(&ids[7]), None);
        assert_eq!(notices.take(""), None);
        assert_eq!(notices.take(&ids[KEPT - 1]), Some((KEPT - 1).to_string()));
    }
}
