//! The names of owners as they are shown, each kept once however many locks its owner has.

use memchr::memmem::Finder;

use super::texts::Texts;

/// Owners whose texts are next to each other.
const CHUNK_LEN: usize = 64;
/// Marks the numbers of owners whose name proves the lock, so that only its beginning is shown.
const IS_PROOF: u32 = 1 << 31;

/// The texts of owners by number.
#[derive(Default)]
pub(super) struct Owners {
    /// Two texts for each owner: its name as it is shown, and its principal.
    shown: Vec<Texts>,
    proofs: Vec<Texts>,
}

/// The numbers of owners that a search found.
pub(super) struct Hits {
    shown: Vec<u64>,
    proofs: Vec<u64>,
}

/// Returns the number of an owner in a slot of the machine.
pub(super) fn number(at: usize, is_proof: bool) -> u32 {
    at as u32 | if is_proof { IS_PROOF } else { 0 }
}

impl Owners {
    pub(super) fn set(&mut self, number: u32, shown: &str, principal: &str) {
        let chunks = if number & IS_PROOF == 0 { &mut self.shown } else { &mut self.proofs };
        let at = (number & !IS_PROOF) as usize;
        let (chunk, at) = (at / CHUNK_LEN, at % CHUNK_LEN);
        if chunks.len() <= chunk {
            chunks.resize_with(chunk + 1, Texts::default);
        }
        let texts = &mut chunks[chunk];
        while texts.len() < 2 * (at + 1) {
            texts.insert(texts.len(), "");
        }
        texts.set(2 * at, shown);
        texts.set(2 * at + 1, principal);
    }

    /// Returns the owners that a search finds, or `None` without any.
    pub(super) fn find(&self, finder: &Finder<'_>) -> Option<Hits> {
        let hits = Hits { shown: hits(&self.shown, finder), proofs: hits(&self.proofs, finder) };
        (!hits.shown.is_empty() || !hits.proofs.is_empty()).then_some(hits)
    }

    /// Returns the bytes of memory used.
    pub(super) fn n_bytes(&self) -> usize {
        let all = self.shown.iter().chain(&self.proofs);
        all.map(|texts| size_of::<Texts>() + texts.n_bytes()).sum()
    }
}

impl Hits {
    pub(super) fn has(&self, number: u32) -> bool {
        let words = if number & IS_PROOF == 0 { &self.shown } else { &self.proofs };
        let at = (number & !IS_PROOF) as usize;
        words.get(at / CHUNK_LEN).is_some_and(|word| word >> (at % CHUNK_LEN) & 1 == 1)
    }
}

/// Returns a word for each chunk up to the last one with a hit.
fn hits(chunks: &[Texts], finder: &Finder<'_>) -> Vec<u64> {
    let mut words = Vec::new();
    for (n, texts) in chunks.iter().enumerate() {
        let mut word = 0_u64;
        texts.find(finder, |text| word |= 1 << (text / 2));
        if word != 0 {
            words.resize(n, 0);
            words.push(word);
        }
    }
    words
}
