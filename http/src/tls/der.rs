//! Parses what the TLS library does not expose of a certificate: names that it ignores, and the expiry date.
//!
//! Only verified certificates get here, so a parse error is a reason to reject a certificate.

use leasehold_base::calendar;

const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;
const OCTETS: u8 = 0x04;
const SHORT_TIME: u8 = 0x17;
const LONG_TIME: u8 = 0x18;
/// `[3]` in the signed part: the extensions.
const EXTENSIONS: u8 = 0xa3;
/// The object identifier 2.5.29.17: subject alternative names.
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1d, 0x11];
/// `[2]` (DNS name) and `[6]` (URI) in the subject alternative names.
const DNS: u8 = 0x82;
const URI: u8 = 0x86;

/// The parsed facts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Said {
    /// The number of DNS names and of URIs, whether or not they are well-formed.
    pub(super) n_dns: usize,
    pub(super) n_uris: usize,
    /// When it expires, in epoch milliseconds.
    pub(super) ends_ms: i64,
}

/// Parses a certificate; `None` if it is malformed.
pub(super) fn read(certificate: &[u8]) -> Option<Said> {
    let (whole, _) = item(certificate)?;
    let (signed, _) = item(whole.of(SEQUENCE)?)?;
    let mut said = Said::default();
    let mut n_sequences = 0;
    for part in items(signed.of(SEQUENCE)?) {
        let part = part?;
        match part.tag {
            // The sequence contains algorithm, issuer, validity, subject and key.
            SEQUENCE => {
                n_sequences += 1;
                if n_sequences == 3 {
                    said.ends_ms = ends_ms(items(part.content).nth(1)??)?;
                }
            }
            EXTENSIONS => count_names(part.content, &mut said)?,
            _ => {}
        }
    }
    (n_sequences >= 5).then_some(said)
}

fn count_names(extensions: &[u8], said: &mut Said) -> Option<()> {
    let (all, _) = item(extensions)?;
    for extension in items(all.of(SEQUENCE)?) {
        let mut parts = items(extension?.of(SEQUENCE)?);
        if parts.next()??.of(OBJECT_ID)? != SUBJECT_ALT_NAME {
            continue;
        }
        // An optional `critical` flag can be between the two.
        let value = parts.last()??.of(OCTETS)?;
        for name in items(item(value)?.0.of(SEQUENCE)?) {
            match name?.tag {
                DNS => said.n_dns += 1,
                URI => said.n_uris += 1,
                _ => {}
            }
        }
    }
    Some(())
}

/// Parses `270213000000Z`, or the same with a four-digit year.
fn ends_ms(time: Item<'_>) -> Option<i64> {
    let text = str::from_utf8(time.content).ok()?.strip_suffix('Z')?;
    let (year, rest) = match time.tag {
        SHORT_TIME => {
            let year: i64 = text.get(..2)?.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
        }
        LONG_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let pair = |n: usize| rest.get(2 * n..2 * n + 2).and_then(|two| two.parse::<i64>().ok());
    let days = calendar::days(year, pair(0)?, pair(1)?)?;
    // The certificate is still valid during the second that it names.
    let seconds = (pair(2)? * 60 + pair(3)?) * 60 + pair(4)? + 1;
    (rest.len() == 10).then_some((days * 86_400 + seconds) * 1000)
}

#[derive(Clone, Copy)]
struct Item<'a> {
    tag: u8,
    content: &'a [u8],
}

impl<'a> Item<'a> {
    fn of(self, tag: u8) -> Option<&'a [u8]> {
        (self.tag == tag).then_some(self.content)
    }
}

/// Iterates over the items in `bytes`; yields `None` at malformed data.
fn items(mut bytes: &[u8]) -> impl Iterator<Item = Option<Item<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let next = item(bytes);
        bytes = next.as_ref().map_or(&[][..], |(_, rest)| *rest);
        Some(next.map(|(item, _)| item))
    })
}

/// Returns the first item in `bytes`, and the bytes after it.
fn item(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (&[tag, short], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        // The length follows in this many bytes.
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(short - 0x80))?;
            (length.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((Item { tag, content }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
        let n = content.len();
        let length = if n < 0x80 { vec![n as u8] } else { vec![0x82, (n >> 8) as u8, n as u8] };
        [&[tag][..], &length, content].concat()
    }

    fn certificate(ends: (u8, &str), names: &[(u8, &str)]) -> Vec<u8> {
        let names = names.iter().flat_map(|(tag, name)| wrapped(*tag, name.as_bytes()));
        let names = wrapped(OCTETS, &wrapped(SEQUENCE, &names.collect::<Vec<_>>()));
        let named = [wrapped(OBJECT_ID, &SUBJECT_ALT_NAME), vec![1, 1, 0xff], names].concat();
        let other = [wrapped(OBJECT_ID, &[0x55, 0x1d, 0x13]), wrapped(OCTETS, &[0x30, 0])].concat();
        let extensions = [wrapped(SEQUENCE, &other), wrapped(SEQUENCE, &named)].concat();
        let time = |(tag, text): (u8, &str)| wrapped(tag, text.as_bytes());
        let validity = [time((SHORT_TIME, "700101000000Z")), time(ends)].concat();
        let empty = || wrapped(SEQUENCE, &[]);
        let signed = [
            wrapped(0xa0, &[2, 1, 2]),
            vec![2, 1, 7],
            empty(),
            empty(),
            wrapped(SEQUENCE, &validity),
            empty(),
            empty(),
            wrapped(EXTENSIONS, &wrapped(SEQUENCE, &extensions)),
        ];
        let whole = [wrapped(SEQUENCE, &signed.concat()), empty(), vec![3, 1, 0]].concat();
        wrapped(SEQUENCE, &whole)
    }

    #[test]
    fn every_name_counts_whatever_stands_in_it() {
        let names =
            [(DNS, "web-1"), (DNS, "we b"), (URI, "spiffe://a"), (0x87, "\u{1}"), (DNS, "")];
        let said = read(&certificate((SHORT_TIME, "270213000000Z"), &names)).expect("one");
        assert_eq!((said.n_dns, said.n_uris), (3, 1));
        assert_eq!(said.ends_ms, 20_862 * 86_400_000 + 1000);
        let long = "x".repeat(300);
        let said = read(&certificate((LONG_TIME, "20270213000000Z"), &[(URI, &long)]));
        let expected = Said { n_dns: 0, n_uris: 1, ends_ms: 20_862 * 86_400_000 + 1000 };
        assert_eq!(said, Some(expected));
    }

    #[test]
    fn malformed_certificates_are_rejected() {
        let whole = certificate((LONG_TIME, "20270213000000Z"), &[(DNS, "web-1")]);
        for n in 0..whole.len() {
            assert_eq!(read(&whole[..n]), None, "{n} of {} bytes", whole.len());
        }
        for ends in ["2702130000Z", "270213000000", "27021300000xZ"] {
            assert_eq!(read(&certificate((SHORT_TIME, ends), &[])), None, "{ends}");
        }
    }
}
