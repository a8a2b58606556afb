//! A policy, and the API keys of those it names.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use leasehold_auth::NewKey;
use tempfile::TempDir;

/// The files of a policy, in a folder of their own. Its rules say `key-files = ["keys.toml"]`.
pub struct Guarded {
    folder: TempDir,
    keys: BTreeMap<String, NewKey>,
}

impl Guarded {
    /// These rules, and a key for each of these names.
    pub fn new(rules: &str, names: &[&str]) -> Self {
        let keys = names.iter().map(|name| (name.to_string(), NewKey::draw())).collect();
        let guarded = Self { folder: crate::folder(), keys };
        std::fs::write(guarded.file(), rules).expect("a file");
        guarded.write_keys(|_| true);
        guarded
    }

    /// The policy's file.
    pub fn file(&self) -> PathBuf {
        self.folder().join("auth.toml")
    }

    /// The folder of all its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The key of this name; of a name nobody has, something that is none.
    pub fn key(&self, name: &str) -> &str {
        self.keys.get(name).map_or("lh_none_none", |key| &key.text)
    }

    /// Takes somebody's key out of the files.
    pub fn revoke(&self, name: &str) {
        self.write_keys(|known| known != name);
    }

    fn write_keys(&self, is_kept: impl Fn(&str) -> bool) {
        let kept = self.keys.iter().filter(|(name, _)| is_kept(name));
        let entry = |(name, key): (&String, &NewKey)| {
            let NewKey { id, sha256, .. } = key;
            format!("[[key]]\nname = \"{name}\"\nid = \"{id}\"\nsha256 = \"{sha256}\"\n")
        };
        let file = self.folder().join("keys.toml");
        std::fs::write(&file, kept.map(entry).collect::<String>()).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("rights");
    }
}
