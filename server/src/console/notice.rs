//! What is said once, on the page that comes after a form: whoever reloads it, or sends its address to somebody, is not
//! told that it has just happened.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::sync::lock;

/// How many that nobody has read are kept: the oldest are forgotten.
const KEPT: usize = 256;

/// What is to be said, by an id that only who sent the form knows. Shared by all threads.
#[derive(Default)]
pub(crate) struct Notices(Mutex<VecDeque<(String, String)>>);

impl Notices {
    /// Keeps it for whoever has the id.
    pub(super) fn leave(&self, text: String) -> String {
        let id = crate::auth::hex(&crate::random::bytes::<16>());
        let mut kept = lock(&self.0);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((id.clone(), text));
        id
    }

    /// What this id stands for, if it was not said yet.
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
