//! The start of a page of locks, as a URL parameter. It contains only the name and rank of a lock that the user has
//! seen.

use leasehold_core::LockKey;
use leasehold_engine::Place;

use super::visit::Trouble;
use crate::dialect::cursor;

/// Maximum length: the hexadecimal digits of a namespace, a name and some punctuation.
const BYTES_MAX: usize = 16 * 1024;

pub(super) fn of(place: &Place) -> String {
    let Place { rank, key } = place;
    // Serializing strings and numbers cannot fail.
    let text = serde_json::to_string(&(rank, &*key.namespace, &*key.name)).unwrap_or_default();
    cursor::of(&text)
}

pub(super) fn parse(text: &str) -> Result<Option<Place>, Trouble> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = (text.len() <= BYTES_MAX).then(|| cursor::parse(text)).flatten();
    let parsed = parsed.and_then(|text| serde_json::from_str::<(u64, String, String)>(&text).ok());
    let place =
        parsed.map(|(rank, namespace, name)| Place { rank, key: LockKey::new(namespace, name) });
    let wrong = || Trouble::Wrong("cursor: not a cursor of this server".into());
    place.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_place_and_nothing_else_is_one() {
        let place = Place { rank: u64::MAX, key: LockKey::new("shöp", "a\"b\u{0}/c") };
        assert!(matches!(parse(&of(&place)), Ok(Some(found)) if found == place));
        assert!(matches!(parse(""), Ok(None)));
        let long = "5b".repeat(BYTES_MAX);
        for wrong in ["x", "5b5d", "5B", "5b302c2261225d", &long] {
            assert!(matches!(parse(wrong), Err(Trouble::Wrong(_))), "{wrong}");
        }
    }
}
