//! Lease ids as text, in the form shared by all dialects where the id proves the lease.

use std::fmt::Write;

use leasehold_core::{LeaseId, LeaseNumber, Secret};

/// Maximum digits of a lease number.
const N_NUMBER_MAX: usize = 20;
/// The number of hexadecimal digits in a secret.
const N_SECRET: usize = 32;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Formats an id as `17.0f3a…`: the lease's number and its secret.
pub(super) fn render(id: LeaseId) -> String {
    let mut text = String::with_capacity(N_NUMBER_MAX + 1 + N_SECRET);
    // Writing to a string cannot fail.
    let _ = write!(text, "{}.", id.number.0);
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    text.extend(id.secret.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    text
}

/// Parses a lease id; `None` if the text is not one.
pub(super) fn parse(text: &str) -> Option<LeaseId> {
    let (number, secret) = text.split_once('.')?;
    let digits: &[u8; N_SECRET] = secret.as_bytes().try_into().ok()?;
    let mut secret = Secret([0; N_SECRET / 2]);
    for (byte, pair) in secret.0.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    let number = number.parse().ok().filter(|_| number.bytes().all(|b| b.is_ascii_digit()))?;
    Some(LeaseId { number: LeaseNumber(number), secret })
}

/// Returns the value of a hexadecimal digit.
fn value(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_id_is_parsed_back_and_other_text_is_rejected() {
        let id = LeaseId { number: LeaseNumber(17), secret: Secret([0x0F; 16]) };
        assert_eq!(parse(&render(id)), Some(id));
        for text in
            ["", "17", "17.", "+17.0f", "17.0f", "x.0f", "17.+f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
