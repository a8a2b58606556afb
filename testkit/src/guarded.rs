//! A policy file, and the API keys of the principals it names.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use leasehold_server::auth::NewKey;
use tempfile::TempDir;

/// The files of a policy, in a separate directory. The rules must contain `key-files = ["keys.toml"]`.
pub struct Guarded {
    folder: TempDir,
    keys: BTreeMap<String, NewKey>,
}

impl Guarded {
    /// Creates the files with these rules, and a key for each of these names.
    pub fn new(rules: &str, names: &[&str]) -> Self {
        let keys = names.iter().map(|name| (name.to_string(), NewKey::draw())).collect();
        let guarded = Self { folder: crate::folder(), keys };
        std::fs::write(guarded.file(), rules).expect("a file");
        guarded.write_keys(|_| true);
        guarded
    }

    /// Returns the path of the policy file.
    pub fn file(&self) -> PathBuf {
        self.folder().join("auth.toml")
    }

    /// Returns the directory of the files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the key of this name, or an invalid key if the name is unknown.
    pub fn key(&self, name: &str) -> &str {
        self.keys.get(name).map_or("lh_none_none", |key| &key.text)
    }

    /// Removes a key from the files.
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
