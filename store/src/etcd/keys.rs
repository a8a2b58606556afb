//! The keys of a store. Everything it has is under one prefix, and nothing else may be.

/// Under one prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Keys {
    prefix: Box<str>,
}

/// A range of keys: the first, and the one after the last.
pub(super) type Range = (Vec<u8>, Vec<u8>);

impl Keys {
    /// A prefix is a path: it begins and ends with a slash.
    pub(super) fn new(prefix: &str) -> Self {
        let inner = prefix.trim_matches('/');
        let prefix = if inner.is_empty() { "/".into() } else { format!("/{inner}/") };
        Self { prefix: prefix.into() }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Those of every prefix that this one is under.
    pub(super) fn around(&self) -> Vec<Self> {
        let ends = self.prefix.match_indices('/').map(|(at, _)| at);
        let outer = ends.filter(|at| at + 1 < self.prefix.len());
        outer.map(|at| Self::new(&self.prefix[..at])).collect()
    }

    /// A prefix like this one that is under none.
    pub(super) fn beside(&self) -> String {
        format!("/{}", self.prefix.trim_matches('/').replace('/', "-"))
    }

    /// Which store it is.
    pub(super) fn id(&self) -> Vec<u8> {
        self.of("id")
    }

    /// Who leads, as long as its lease lasts.
    pub(super) fn leader(&self) -> Vec<u8> {
        self.of("leader")
    }

    /// One of the servers, as long as it is there.
    pub(super) fn node(&self, name: &str) -> Vec<u8> {
        self.of(&format!("node/{name}"))
    }

    /// How far the journal goes.
    pub(super) fn head(&self) -> Vec<u8> {
        self.of("head")
    }

    /// There is something that was put back to an earlier state: nobody may lead.
    pub(super) fn rewound(&self) -> Vec<u8> {
        self.of("rewound")
    }

    /// Nobody takes the seat as long as this is here. Whoever has it keeps it.
    pub(super) fn pause(&self) -> Vec<u8> {
        self.of("pause")
    }

    /// This node gives the seat up, and does not take it, as long as this is here.
    pub(super) fn drain(&self, node: &str) -> Vec<u8> {
        self.of(&format!("drain/{node}"))
    }

    /// The same of all nodes.
    pub(super) fn drains(&self) -> Range {
        (self.of("drain/"), self.of("drain0"))
    }

    /// All servers that are there.
    pub(super) fn nodes(&self) -> Range {
        (self.of("node/"), self.of("node0"))
    }

    /// What a key is called that begins with this word.
    pub(super) fn name_under<'k>(&self, word: &str, key: &'k [u8]) -> Option<&'k str> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&*self.prefix)?;
        name.strip_prefix(word)?.strip_prefix('/')
    }

    /// The store has moved elsewhere: nobody may lead.
    pub(super) fn closed(&self) -> Vec<u8> {
        self.of("closed")
    }

    /// One record of the journal.
    pub(super) fn slot(&self, seq: u64) -> Vec<u8> {
        self.of(&format!("j/{seq:016x}"))
    }

    /// The records from this one on.
    pub(super) fn slots_from(&self, seq: u64) -> Range {
        // '0' comes after '/'.
        (self.slot(seq), self.of("j0"))
    }

    /// The snapshot that counts.
    pub(super) fn manifest(&self) -> Vec<u8> {
        self.of("manifest")
    }

    /// One piece of a snapshot.
    pub(super) fn chunk(&self, name: &str, n: u64) -> Vec<u8> {
        self.of(&format!("snap/{name}/{n:08x}"))
    }

    /// All pieces of a snapshot.
    pub(super) fn chunks(&self, name: &str) -> Range {
        (self.of(&format!("snap/{name}/")), self.of(&format!("snap/{name}0")))
    }

    /// All pieces of all snapshots.
    pub(super) fn snapshots(&self) -> Range {
        (self.of("snap/"), self.of("snap0"))
    }

    /// Which snapshot a key is a piece of.
    pub(super) fn name_of(&self, key: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&*self.prefix)?;
        name.strip_prefix("snap/")?.split_once('/').map(|(name, _)| name.into())
    }

    /// Everything.
    pub(super) fn all(&self) -> Range {
        let mut end = self.prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (self.of(""), end)
    }

    /// Which record a key is.
    pub(super) fn seq_of(&self, key: &[u8]) -> Option<u64> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&*self.prefix)?;
        u64::from_str_radix(name.strip_prefix("j/")?, 16).ok()
    }

    fn of(&self, name: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), name.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_path() {
        for (given, prefix) in
            [("", "/"), ("/", "/"), ("a", "/a/"), ("/a/", "/a/"), ("a/b", "/a/b/"), ("//a", "/a/")]
        {
            assert_eq!(Keys::new(given).prefix(), prefix, "{given}");
        }
    }

    #[test]
    fn a_prefix_is_under_others() {
        let around = |prefix: &str| -> Vec<_> {
            Keys::new(prefix).around().iter().map(|keys| keys.prefix().to_owned()).collect()
        };
        assert_eq!(around("/"), Vec::<String>::new());
        assert_eq!(around("a"), ["/"]);
        assert_eq!(around("a/b/c"), ["/", "/a/", "/a/b/"]);
        assert_eq!(Keys::new("a/b").beside(), "/a-b");
    }

    #[test]
    fn records_are_in_the_order_of_their_numbers() {
        let keys = Keys::new("a");
        assert_eq!(keys.slot(255), b"/a/j/00000000000000ff");
        assert!(keys.slot(9) < keys.slot(10) && keys.slot(u64::MAX) < keys.slots_from(0).1);
        assert_eq!(keys.seq_of(&keys.slot(77)), Some(77));
        assert_eq!(keys.seq_of(&keys.head()), None);
        let (first, end) = keys.all();
        assert_eq!(keys.name_of(&keys.chunk("1-a", 5)).as_deref(), Some("1-a"));
        let (from, to) = keys.chunks("1-a");
        assert!(from < keys.chunk("1-a", 0) && keys.chunk("1-a", u64::MAX) < to);
        assert!(!(from..to).contains(&keys.chunk("1-ab", 0)));
        for key in [
            keys.manifest(),
            keys.chunk("1-a", 0),
            keys.id(),
            keys.leader(),
            keys.node("n1"),
            keys.head(),
            keys.slot(3),
            keys.rewound(),
            keys.closed(),
            keys.pause(),
            keys.drain("n1"),
        ] {
            assert!(first <= key && key < end);
        }
    }
}
