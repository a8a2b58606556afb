//! Lease ids as text: the same in every dialect that proves a lease by its id.

use leasehold_core::{LeaseId, LeaseNumber, Secret};

/// `17.0f3a…`: the lease's number and its secret.
pub(super) fn render(id: LeaseId) -> String {
    format!("{}.{:032x}", id.number.0, u128::from_be_bytes(id.secret.0))
}

/// Whatever is not such an id is the id of no lease.
pub(super) fn parse(text: &str) -> Option<LeaseId> {
    let (number, secret) = text.split_once('.')?;
    let is_hex = secret.len() == 32 && secret.bytes().all(|b| b.is_ascii_hexdigit());
    let secret = u128::from_str_radix(secret, 16).ok().filter(|_| is_hex)?;
    let number = number.parse().ok().filter(|_| number.bytes().all(|b| b.is_ascii_digit()))?;
    Some(LeaseId { number: LeaseNumber(number), secret: Secret(secret.to_be_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_id_comes_back_and_nothing_else_is_one() {
        let id = LeaseId { number: LeaseNumber(17), secret: Secret([0x0F; 16]) };
        assert_eq!(parse(&render(id)), Some(id));
        for text in
            ["", "17", "17.", "+17.0f", "17.0f", "x.0f", "17.+f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
