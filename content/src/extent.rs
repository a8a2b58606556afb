//! Which locks make up a lock on a path.
//!
//! A file or folder has one lock, its node, named like its path. A folder has three more: its tree (`PATH/`) and its
//! readers (`PATH/.`) for everything in it, and its members (`PATH/..`) for the list of its content. Those of the root,
//! `/`, are `//`, `//.` and `//..`. No file can have such a name. A lock on a path is several of these, taken together
//! or not at all:
//!
//! | | on the path itself | on each folder around it |
//! | --- | --- | --- |
//! | exclusive | node exclusive | tree shared |
//! | shared | node shared | readers shared |
//! | exclusive, with all that is in it | node, tree and readers exclusive | tree shared |
//! | shared, with all that is in it | node shared, tree counted | readers shared |
//!
//! So locks in different places do not conflict, and a lock on a folder with all that is in it conflicts with every
//! lock inside that cannot coexist with it. A lock on a folder without its content takes the folder's members too.
//! Adding something to a folder or removing it takes the members as well, counted: many clients can do that at the same
//! time, but not while the folder is locked. A lock on a name that does not exist takes only the node, so it locks
//! nothing below that name, even if a folder of that name is made later.

use std::fmt::Write;
use std::sync::Arc;

use leasehold_core::{LockKey, Mode, is_share_name};
use sha2::{Digest, Sha256};

use super::Naming;
use super::path::FilePath;

/// The path of the topmost folder, which is its node like any other path.
const ROOT: &str = "/";
/// The suffixes of a path in the names of its tree, its readers and its members.
const TREE: &str = "/";
const READERS: &str = "/.";
const MEMBERS: &str = "/..";

/// Whether other clients can hold a lock on the same path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// No other lock can be held at the same time.
    Exclusive,
    /// Other shared locks can be held at the same time.
    Shared,
}

impl Scope {
    fn mode(self) -> Mode {
        match self {
            Scope::Exclusive => Mode::Exclusive,
            Scope::Shared => Mode::Shared,
        }
    }
}

/// How far a lock on a path reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The file or folder, without its content.
    Itself,
    /// The folder and everything in it.
    Tree,
}

/// The locks that make up a lock on a path, in the order in which they are acquired: the node first, then the folders
/// around it, starting at the root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    namespace: Arc<str>,
    bytes_max: usize,
    n_holders_max: u32,
    /// Maximum parts of one lock.
    n_parts_max: usize,
    parts: Vec<Part>,
    /// How many parts a path needs, if these are too many. Then no part is made, because each costs a hash of the path.
    n_too_many: Option<usize>,
}

/// One of the locks that make up a lock on a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The lock.
    pub key: LockKey,
    /// The mode in which it is taken.
    pub mode: Mode,
    /// The file or folder whose node, tree or readers it is.
    pub at: FilePath,
}

impl Extent {
    /// Returns the locks that make up a lock on a path.
    pub fn new(names: &impl Naming, path: &FilePath, scope: Scope, reach: Reach) -> Self {
        let mut extent = Self::none(names);
        extent.add_place(path, scope, reach);
        extent
    }

    /// Returns an extent without any locks.
    pub fn none(names: &impl Naming) -> Self {
        Self {
            namespace: names.namespace().clone(),
            bytes_max: names.limits().name_bytes_max,
            n_holders_max: names.limits().holders_max,
            n_parts_max: names.limits().group_max,
            parts: Vec::new(),
            n_too_many: None,
        }
    }

    /// Returns the locks that a client needs to change the file or folder at a path. Pass `is_member` if the request
    /// creates or removes it, because then its parent folder changes too.
    pub fn to_change(names: &impl Naming, path: &FilePath, reach: Reach, is_member: bool) -> Self {
        let extent = Self::new(names, path, Scope::Exclusive, reach);
        if is_member { extent.with_parent(path) } else { extent }
    }

    /// Adds the lock that permits adding `path` to its parent folder or removing it from there.
    pub fn with_parent(mut self, path: &FilePath) -> Self {
        if let Some(parent) = path.parent() {
            let counted = Mode::Counted(self.n_holders_max);
            self.add_at(&parent, &node(&parent), MEMBERS, counted);
        }
        self
    }

    /// Adds the lock on the members of a folder.
    pub fn with_members(mut self, folder: &FilePath, scope: Scope) -> Self {
        self.add_at(folder, &node(folder), MEMBERS, scope.mode());
        self
    }

    /// Returns the locks of both extents. If both contain the same lock, the stricter mode counts.
    pub fn and(mut self, other: Self) -> Self {
        self.n_too_many = self.n_too_many.max(other.n_too_many);
        other.parts.into_iter().for_each(|part| self.add(part));
        self
    }

    /// Returns the extent without the parts for which `is_covered` returns `true`.
    pub fn without(mut self, is_covered: impl Fn(&Part) -> bool) -> Self {
        self.parts.retain(|part| !is_covered(part));
        self
    }

    /// Returns the locks.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns whether there is nothing to acquire. An extent with too many parts is not empty.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.n_too_many.is_none()
    }

    /// Checks that one lock can have all parts; otherwise returns how many are needed and allowed.
    pub fn check_size(&self) -> Result<(), (usize, usize)> {
        match self.n_too_many.unwrap_or(self.parts.len()) {
            n if n > self.n_parts_max => Err((n, self.n_parts_max)),
            _ => Ok(()),
        }
    }

    fn add_place(&mut self, path: &FilePath, scope: Scope, reach: Reach) {
        let n = 1 + path.depth();
        if n > self.n_parts_max {
            self.n_too_many = self.n_too_many.max(Some(n));
            return;
        }
        let around = match scope {
            Scope::Exclusive => TREE,
            Scope::Shared => READERS,
        };
        self.add_at(path, &node(path), "", scope.mode());
        for folder in path.ancestors() {
            self.add_at(&folder, &node(&folder), around, Mode::Shared);
        }
        match (reach, scope) {
            (Reach::Itself, _) => {}
            (Reach::Tree, Scope::Exclusive) => {
                self.add_at(path, &node(path), TREE, Mode::Exclusive);
                self.add_at(path, &node(path), READERS, Mode::Exclusive);
            }
            (Reach::Tree, Scope::Shared) => {
                let counted = Mode::Counted(self.n_holders_max);
                self.add_at(path, &node(path), TREE, counted);
            }
        }
    }

    fn add_at(&mut self, at: &FilePath, text: &str, suffix: &str, mode: Mode) {
        let key = self.key(text, suffix);
        self.add(Part { key, mode, at: at.clone().into_node() });
    }

    fn add(&mut self, part: Part) {
        match self.parts.iter_mut().find(|known| known.key == part.key) {
            Some(known) => known.mode = stricter(known.mode, part.mode),
            None => self.parts.push(part),
        }
    }

    fn key(&self, text: &str, suffix: &str) -> LockKey {
        LockKey::new(self.namespace.clone(), fitted(text, suffix, self.bytes_max))
    }
}

/// Returns the maximum number of names in a path that a request can create or remove. The lock needs one part for each
/// folder around the path, one for the path and one for the members of its parent.
pub fn depth_max(names: &impl Naming) -> usize {
    names.limits().group_max.saturating_sub(2)
}

/// Returns the lock on the file or folder at a path.
pub(super) fn node_key(names: &impl Naming, path: &FilePath) -> LockKey {
    let name = fitted(&node(path), "", names.limits().name_bytes_max);
    LockKey::new(names.namespace().clone(), name)
}

/// Returns the lock on everything in the folder at a path.
pub fn tree_key(names: &impl Naming, folder: &FilePath) -> LockKey {
    let name = fitted(&node(folder), TREE, names.limits().name_bytes_max);
    LockKey::new(names.namespace().clone(), name)
}

/// Returns the lock of the clients that hold a shared lock inside the folder at a path.
pub fn readers_key(names: &impl Naming, folder: &FilePath) -> LockKey {
    let name = fitted(&node(folder), READERS, names.limits().name_bytes_max);
    LockKey::new(names.namespace().clone(), name)
}

/// Returns the lock on the members of a folder.
pub fn members_key(names: &impl Naming, folder: &FilePath) -> LockKey {
    let name = fitted(&node(folder), MEMBERS, names.limits().name_bytes_max);
    LockKey::new(names.namespace().clone(), name)
}

/// Returns whether this is the lock name of a folder's tree, readers or members. No file or folder has such a name.
pub fn is_tree(name: &str) -> bool {
    is_share_name(name)
}

/// Returns a path without its final slash; the root stays `/`.
fn node(path: &FilePath) -> String {
    let stem = path.as_str().trim_end_matches('/');
    if stem.is_empty() { ROOT.into() } else { stem.into() }
}

/// Returns a lock name of at most `bytes_max` bytes. If the text is too long, the name consists of its first characters
/// and a hash of the whole text.
fn fitted(text: &str, suffix: &str, bytes_max: usize) -> String {
    if text.len() + suffix.len() <= bytes_max {
        return format!("{text}{suffix}");
    }
    let hash: [u8; 32] = Sha256::digest(text).into();
    let hash = hash.iter().fold(String::from("#"), |mut hash, byte| {
        let _ = write!(hash, "{byte:02x}");
        hash
    });
    let n_kept = bytes_max.saturating_sub(hash.len() + suffix.len());
    let n_kept = text.floor_char_boundary(n_kept);
    format!("{}{hash}{suffix}", &text[..n_kept])
}

fn stricter(one: Mode, other: Mode) -> Mode {
    let rank = |mode| match mode {
        Mode::Exclusive => 2,
        Mode::Counted(_) => 1,
        Mode::Shared => 0,
    };
    if rank(one) >= rank(other) { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Extent {
        let (bytes_max, n_holders_max, n_parts_max) = (512, 9, 64);
        let (parts, n_too_many) = (Vec::new(), None);
        Extent { namespace: "f".into(), bytes_max, n_holders_max, n_parts_max, parts, n_too_many }
    }

    #[test]
    fn no_part_is_made_for_a_path_that_needs_too_many() {
        for (n, needed) in [(63, Ok(())), (64, Err((65, 64))), (2_000, Err((2_001, 64)))] {
            let mut extent = none();
            let path = FilePath::parse(&"/a".repeat(n)).expect("a path");
            extent.add_place(&path, Scope::Exclusive, Reach::Itself);
            let extent = none().and(extent);
            assert_eq!(extent.check_size(), needed, "{n}");
            assert_eq!(extent.parts().is_empty(), needed.is_err(), "{n}");
            assert!(!extent.is_empty(), "{n}");
        }
    }

    fn parts(path: &str, scope: Scope, reach: Reach) -> Vec<(String, Mode)> {
        let mut extent = none();
        extent.add_place(&FilePath::parse(path).expect("a path"), scope, reach);
        extent.parts.into_iter().map(|part| (part.key.name.into(), part.mode)).collect()
    }

    #[test]
    fn a_lock_takes_its_node_and_the_trees_around_it() {
        use Mode::{Exclusive, Shared};
        let of = |names: &[(&str, Mode)]| -> Vec<(String, Mode)> {
            names.iter().map(|(name, mode)| (String::from(*name), *mode)).collect()
        };
        let file = of(&[("/a/b", Exclusive), ("//", Shared), ("/a/", Shared)]);
        assert_eq!(parts("/a/b", Scope::Exclusive, Reach::Itself), file);
        assert_eq!(parts("/a/b/", Scope::Exclusive, Reach::Itself), file);
        let shared = of(&[("/a/b", Shared), ("//.", Shared), ("/a/.", Shared)]);
        assert_eq!(parts("/a/b", Scope::Shared, Reach::Itself), shared);
        let deep =
            of(&[("/a", Exclusive), ("//", Shared), ("/a/", Exclusive), ("/a/.", Exclusive)]);
        assert_eq!(parts("/a", Scope::Exclusive, Reach::Tree), deep);
        let both = of(&[("/a", Shared), ("//.", Shared), ("/a/", Mode::Counted(9))]);
        assert_eq!(parts("/a", Scope::Shared, Reach::Tree), both);
        let root = of(&[("/", Exclusive), ("//", Exclusive), ("//.", Exclusive)]);
        assert_eq!(parts("/", Scope::Exclusive, Reach::Tree), root);
    }

    #[test]
    fn all_parts_but_those_of_paths_are_shares() {
        for path in ["/", "/a", "/a/b"] {
            let path = FilePath::parse(path).expect("a path");
            let mut extent = none();
            extent.add_place(&path, Scope::Exclusive, Reach::Tree);
            let extent = extent.with_parent(&path).with_members(&path, Scope::Shared);
            let parts = extent.parts().iter();
            let named: Vec<_> = parts.map(|part| &*part.key.name).filter(|n| !is_tree(n)).collect();
            assert_eq!(named, [path.as_str()]);
        }
    }

    #[test]
    fn long_names_stay_different_and_keep_what_they_end_with() {
        let long = |last: &str| format!("/{}/{last}", "a".repeat(600));
        let names = [
            fitted(&long("x"), "", 512),
            fitted(&long("y"), "", 512),
            fitted(&long("x"), TREE, 512),
            fitted(&long("x"), READERS, 512),
            fitted(&long("x"), MEMBERS, 512),
        ];
        assert!(names.iter().all(|name| name.len() <= 512));
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
        assert!(names[2..].iter().all(|name| is_tree(name)) && !is_tree(&names[0]));
    }
}
