//! Texts stored back to back in one buffer, so that one pass searches them all.

/// Ends each part of a text. It occurs in no UTF-8 text, so no search finds anything across it.
const END: u8 = 0xff;

/// Some texts. Each is followed by its small letters, if those differ.
#[derive(Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    /// Where each text begins.
    starts: Vec<u32>,
}

impl Texts {
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    fn end(&self, n: usize) -> usize {
        self.starts.get(n + 1).map_or(self.bytes.len(), |start| *start as usize)
    }

    /// Returns a text as it was inserted.
    pub(super) fn get(&self, n: usize) -> &str {
        let bytes = &self.bytes[self.starts[n] as usize..self.end(n)];
        let end = memchr::memchr(END, bytes).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).unwrap_or_default()
    }

    pub(super) fn insert(&mut self, n: usize, text: &str) {
        let at = self.starts.get(n).map_or(self.bytes.len(), |start| *start as usize);
        let stored = stored(text);
        self.bytes.splice(at..at, stored.iter().copied());
        self.starts.insert(n, at as u32);
        for start in &mut self.starts[n + 1..] {
            *start += stored.len() as u32;
        }
    }

    pub(super) fn remove(&mut self, n: usize) {
        let (start, end) = (self.starts[n] as usize, self.end(n));
        self.bytes.drain(start..end);
        self.starts.remove(n);
        for later in &mut self.starts[n..] {
            *later -= (end - start) as u32;
        }
    }

    /// Replaces a text, if it is another.
    pub(super) fn set(&mut self, n: usize, text: &str) {
        if self.get(n) != text {
            self.remove(n);
            self.insert(n, text);
        }
    }

    /// Moves the texts from `n` on to a new list.
    pub(super) fn split_off(&mut self, n: usize) -> Self {
        let at = self.starts[n];
        let starts = self.starts.split_off(n).into_iter().map(|start| start - at).collect();
        let bytes = self.bytes.split_off(at as usize);
        self.bytes.shrink_to_fit();
        Self { bytes, starts }
    }

    /// Calls `each` with the number of every text that contains what is searched for, in any case, in order.
    pub(super) fn find(&self, finder: &memchr::memmem::Finder<'_>, mut each: impl FnMut(usize)) {
        let (mut from, mut n) = (0, 0);
        while let Some(at) = finder.find(&self.bytes[from..]) {
            let at = (from + at) as u32;
            n += self.starts[n..].partition_point(|start| *start <= at) - 1;
            each(n);
            from = self.end(n);
            n += 1;
            if n == self.starts.len() {
                return;
            }
        }
    }

    /// Returns the bytes of memory used.
    pub(super) fn n_bytes(&self) -> usize {
        self.bytes.capacity() + self.starts.capacity() * size_of::<u32>()
    }
}

fn stored(text: &str) -> Vec<u8> {
    let mut stored = Vec::with_capacity(2 * text.len() + 2);
    stored.extend_from_slice(text.as_bytes());
    stored.push(END);
    // Nearly all names are plain.
    let is_small = text.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase());
    if !is_small {
        let small: String = text.chars().flat_map(char::to_lowercase).collect();
        if small != text {
            stored.extend_from_slice(small.as_bytes());
            stored.push(END);
        }
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &Texts, needle: &str) -> Vec<usize> {
        let mut found = Vec::new();
        texts.find(&memchr::memmem::Finder::new(needle), |n| found.push(n));
        found
    }

    #[test]
    fn each_text_is_found_once_and_none_across_two() {
        let mut texts = Texts::default();
        for (n, text) in ["deploy", "ÄPFEL/Deploy", "", "build", "deploy-deploy"].iter().enumerate()
        {
            texts.insert(n, text);
        }
        assert_eq!((texts.get(1), texts.get(2), texts.len()), ("ÄPFEL/Deploy", "", 5));
        assert_eq!(found(&texts, "deploy"), [0, 1, 4]);
        assert_eq!(found(&texts, "äpfel"), [1]);
        assert_eq!(found(&texts, "deploybuild"), [0_usize; 0]);
        texts.set(2, "x-deploy");
        texts.remove(0);
        assert_eq!((found(&texts, "deploy"), texts.get(3)), (vec![0, 1, 3], "deploy-deploy"));
        let rest = texts.split_off(1);
        assert_eq!((found(&texts, "deploy"), found(&rest, "deploy")), (vec![0], vec![0, 2]));
        assert_eq!(rest.get(1), "build");
    }
}
