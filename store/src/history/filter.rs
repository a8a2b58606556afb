//! A Bloom filter of the locks and owners in a block, so that a query for one lock unpacks few blocks.

/// Bits per entry. With four probes, about one block in forty is unpacked in vain.
const BITS_PER_ENTRY: usize = 10;
const PROBES: u64 = 4;

/// A lock or owner that queries can name, as a hash. It is the same in every build, because it is stored on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Trait(u64);

impl Trait {
    pub(super) fn lock(namespace: &str, name: &str) -> Self {
        Self::of(b'l', [namespace, name])
    }

    pub(super) fn owner(instance: &str) -> Self {
        Self::of(b'o', [instance])
    }

    /// FNV-1a, with a separator that no text contains, and then mixed, because its low bits are weak.
    fn of<'a>(kind: u8, texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = 0xCBF2_9CE4_8422_2325;
        let mut add =
            |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        add(kind);
        for text in texts {
            text.bytes().for_each(&mut add);
            add(0xFF);
        }
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self(hash ^ (hash >> 29))
    }

    fn probes(self, n_bits: u64) -> impl Iterator<Item = u64> {
        let (first, step) = (self.0, self.0.rotate_left(32) | 1);
        (0..PROBES).map(move |n| first.wrapping_add(n.wrapping_mul(step)) % n_bits)
    }
}

/// Returns the filter of a block with these entries.
pub(super) fn build(mut entries: Vec<Trait>) -> Vec<u8> {
    entries.sort_unstable();
    entries.dedup();
    let n_bytes = (entries.len() * BITS_PER_ENTRY).div_ceil(8).max(8);
    let mut filter = vec![0; n_bytes];
    for entry in entries {
        for bit in entry.probes(n_bytes as u64 * 8) {
            filter[(bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
    filter
}

/// Returns whether the block might contain this entry. If false, it certainly does not.
pub(super) fn may_have(filter: &[u8], wanted: Trait) -> bool {
    let n_bits = filter.len() as u64 * 8;
    n_bits == 0
        || wanted.probes(n_bits).all(|bit| filter[(bit / 8) as usize] & (1 << (bit % 8)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_it_is_found_and_little_else() {
        let name = |n: u32| Trait::lock("default", &format!("lock-{n}"));
        let filter = build((0..1000).map(name).collect());
        assert!((0..1000).all(|n| may_have(&filter, name(n))));
        let n_wrong = (1000..11_000).filter(|n| may_have(&filter, name(*n))).count();
        assert!(n_wrong < 500, "{n_wrong} of 10,000");
        assert!(Trait::lock("a", "bc") != Trait::lock("ab", "c"));
    }
}
