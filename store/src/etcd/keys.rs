//! The keys of a store. All of them are under one prefix, which contains no other keys.

use crate::shared::Entry;

/// The keys under one prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Keys {
    prefix: Box<str>,
}

/// A range of keys: the first key, and the key after the last.
pub(super) type Range = (Vec<u8>, Vec<u8>);

impl Keys {
    /// Normalizes the prefix to a path that starts and ends with a slash.
    pub(super) fn new(prefix: &str) -> Self {
        let inner = prefix.trim_matches('/');
        let prefix = if inner.is_empty() { "/".into() } else { format!("/{inner}/") };
        Self { prefix: prefix.into() }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the keys for every prefix that contains this one.
    pub(super) fn around(&self) -> Vec<Self> {
        let ends = self.prefix.match_indices('/').map(|(at, _)| at);
        let outer = ends.filter(|at| at + 1 < self.prefix.len());
        outer.map(|at| Self::new(&self.prefix[..at])).collect()
    }

    /// Returns a similar prefix that lies inside no other prefix.
    pub(super) fn beside(&self) -> String {
        format!("/{}", self.prefix.trim_matches('/').replace('/', "-"))
    }

    /// Returns the key of a named entry.
    pub(super) fn of_entry(&self, entry: Entry<'_>) -> Vec<u8> {
        match entry {
            Entry::Id => self.id(),
            Entry::Head => self.head(),
            Entry::Leader => self.leader(),
            Entry::Manifest => self.manifest(),
            Entry::Rewound => self.rewound(),
            Entry::Closed => self.closed(),
            Entry::Node(name) => self.node(name),
        }
    }

    /// Returns the key that identifies the store.
    pub(super) fn id(&self) -> Vec<u8> {
        self.of("id")
    }

    /// Returns the key of the leader. It exists while the leader's etcd lease lasts.
    pub(super) fn leader(&self) -> Vec<u8> {
        self.of("leader")
    }

    /// Returns the key of one server. It exists while that server runs.
    pub(super) fn node(&self, name: &str) -> Vec<u8> {
        self.of(&format!("node/{name}"))
    }

    /// Returns the key of the journal's head, which contains the position of the last record.
    pub(super) fn head(&self) -> Vec<u8> {
        self.of("head")
    }

    /// Returns the key that exists once a server has noticed that etcd was rolled back to an earlier state. While it
    /// exists, no server may lead.
    pub(super) fn rewound(&self) -> Vec<u8> {
        self.of("rewound")
    }

    /// Returns the key that pauses leader changes: while it exists, no server takes over. The current leader continues.
    pub(super) fn pause(&self) -> Vec<u8> {
        self.of("pause")
    }

    /// Returns the key that drains a node: while it exists, that node steps down and does not lead.
    pub(super) fn drain(&self, node: &str) -> Vec<u8> {
        self.of(&format!("drain/{node}"))
    }

    /// Returns the range of the drain keys of all nodes.
    pub(super) fn drains(&self) -> Range {
        (self.of("drain/"), self.of("drain0"))
    }

    /// Returns the range of the keys of all running servers.
    pub(super) fn nodes(&self) -> Range {
        (self.of("node/"), self.of("node0"))
    }

    /// Returns the rest of a key that starts with this word.
    pub(super) fn name_under<'k>(&self, word: &str, key: &'k [u8]) -> Option<&'k str> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&*self.prefix)?;
        name.strip_prefix(word)?.strip_prefix('/')
    }

    /// Returns the key that exists once the store has moved elsewhere. While it exists, no server may lead.
    pub(super) fn closed(&self) -> Vec<u8> {
        self.of("closed")
    }

    /// Returns the key of one journal record.
    pub(super) fn slot(&self, seq: u64) -> Vec<u8> {
        self.of(&format!("j/{seq:016x}"))
    }

    /// Returns the range of the records from this one on.
    pub(super) fn slots_from(&self, seq: u64) -> Range {
        // '0' comes after '/'.
        (self.slot(seq), self.of("j0"))
    }

    /// Returns the key of the manifest of the current snapshot.
    pub(super) fn manifest(&self) -> Vec<u8> {
        self.of("manifest")
    }

    /// Returns the key of one chunk of a snapshot.
    pub(super) fn chunk(&self, name: &str, n: u64) -> Vec<u8> {
        self.of(&format!("snap/{name}/{n:08x}"))
    }

    /// Returns the range of all chunks of a snapshot.
    pub(super) fn chunks(&self, name: &str) -> Range {
        (self.of(&format!("snap/{name}/")), self.of(&format!("snap/{name}0")))
    }

    /// Returns the range of all chunks of all snapshots.
    pub(super) fn snapshots(&self) -> Range {
        (self.of("snap/"), self.of("snap0"))
    }

    /// Returns the name of the snapshot that a key is a chunk of.
    pub(super) fn name_of(&self, key: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&*self.prefix)?;
        name.strip_prefix("snap/")?.split_once('/').map(|(name, _)| name.into())
    }

    /// Returns the range of all keys of the store.
    pub(super) fn all(&self) -> Range {
        let mut end = self.prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (self.of(""), end)
    }

    /// Returns the number of the record that a key belongs to.
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
