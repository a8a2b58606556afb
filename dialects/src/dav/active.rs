//! Locks as WebDAV clients see them. One WebDAV lock can consist of several leases that were granted together.

use std::collections::HashSet;
use std::sync::Arc;

use leasehold_auth::Caller;
use leasehold_core::{Group, LeaseNumber, LeaseView, LockKey, LockView, Mode, Secret, Timestamp};
use leasehold_engine::{ReadLocks, Secrets};
use serde::{Deserialize, Serialize};

use super::Dav;
use super::error::Refusal;
use super::place::href;
use super::xml::escape;
use crate::app::App;
use crate::content::{Extent, FilePath, Part, Reach, Scope, members_key, readers_key, tree_key};
use crate::grip::{self, Grip, Obstacle};
use crate::{Dialect, owner};

/// Metadata that is stored with the leases of a WebDAV lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    /// The path that the client locked.
    pub(super) path: String,
    /// `true` if the lock covers everything in the folder.
    pub(super) deep: bool,
    /// The `owner` element of the client, as XML.
    pub(super) owner: Option<String>,
}

/// A lock that is held.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub(super) root: FilePath,
    pub(super) reach: Reach,
    pub(super) scope: Scope,
    pub(super) lease: LeaseView,
    owner: Option<String>,
    /// `true` if the lock was acquired through WebDAV. No WebDAV client has the token of another dialect's lock, and a
    /// lock that a request acquires for itself has no token either.
    is_ours: bool,
}

impl Active {
    /// Returns the WebDAV lock that a lease belongs to. `is_tree` is set if the lease was found on the tree of a folder
    /// rather than on the node.
    fn of(at: &FilePath, lease: &LeaseView, is_tree: bool) -> Option<Self> {
        let note =
            lease.metadata.as_deref().and_then(|note| serde_json::from_slice::<Note>(note).ok());
        let note = note.filter(|_| lease.dialect == Dialect::Dav.number());
        let is_ours = note.is_some();
        let deep = note.as_ref().map_or(is_tree, |note| note.deep);
        Some(Self {
            root: at.clone(),
            reach: if deep { Reach::Tree } else { Reach::Itself },
            scope: if lease.mode == Mode::Exclusive { Scope::Exclusive } else { Scope::Shared },
            lease: lease.clone(),
            owner: note.and_then(|note| note.owner),
            is_ours,
        })
    }

    /// Returns the lock that was just granted.
    pub(super) fn granted(root: &FilePath, grip: &Grip) -> Option<Self> {
        Self::of(root, &grip.lease, false)
    }

    pub(super) fn token(&self) -> String {
        if self.is_ours {
            return token(self.lease.id.secret);
        }
        // This token only distinguishes the lock from others. Clients cannot use it.
        format!("{TOKEN}00000000-0000-0000-0000-{:012x}", self.lease.id.number.0)
    }

    /// Returns the approximate size of the rendered lock.
    pub(super) fn n_bytes(&self) -> usize {
        const BYTES: usize = 512;
        BYTES + 3 * self.root.as_str().len() + self.owner.as_ref().map_or(0, String::len)
    }

    /// Returns whether this caller can use the lock by showing its token.
    pub(super) fn is_usable(&self, caller: &Caller) -> bool {
        self.is_ours && caller.is(&self.lease.owner.principal)
    }

    pub(super) fn is_deep(&self) -> bool {
        self.reach == Reach::Tree
    }

    pub(super) fn grip(&self, app: &App) -> Grip {
        Grip::of(governing(app, &self.root, self.reach), self.lease.clone())
    }

    /// Returns a number that all leases of the lock share.
    fn number(&self) -> LeaseNumber {
        self.lease.group.map_or(self.lease.id.number, |Group { first, .. }| first)
    }

    /// Renders the lock as an XML element.
    pub(super) fn render(&self, now: Timestamp) -> String {
        let scope = match self.scope {
            Scope::Exclusive => "exclusive",
            Scope::Shared => "shared",
        };
        let depth = if self.is_deep() { "infinity" } else { "0" };
        let timeout = match self.lease.remaining(now) {
            Some(left) => format!("Second-{}", left.as_millis().div_ceil(1000)),
            None => "Infinite".into(),
        };
        let owner = match &self.owner {
            Some(owner) => owner.clone(),
            None => {
                let by = owner::shown(self.lease.dialect, &self.lease.owner);
                format!("<D:owner>{}</D:owner>", escape(&by))
            }
        };
        // It is not known here whether the path is a folder. A lock on everything in it shows that it is.
        let root = href(&self.root, self.is_deep());
        format!(
            "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope>\
             <D:depth>{depth}</D:depth>{owner}<D:timeout>{timeout}</D:timeout>\
             <D:locktoken><D:href>{}</D:href></D:locktoken>\
             <D:lockroot><D:href>{root}</D:href></D:lockroot></D:activelock>",
            self.token()
        )
    }
}

/// The parts of locks that are already covered by held locks.
pub(super) struct Covered {
    /// Folders that are locked with everything in them.
    deep: Vec<FilePath>,
    keys: HashSet<LockKey>,
}

impl Covered {
    /// Collects the parts that these locks cover. Locks of the same kind on the same path cover the same parts, so only
    /// one of them is used.
    pub(super) fn by(app: &App, locks: &[Active]) -> Self {
        let mut covered = Self { deep: Vec::new(), keys: HashSet::new() };
        let mut known: Vec<(&FilePath, Scope, Reach)> = Vec::new();
        for Active { root, scope, reach, .. } in locks {
            if known.contains(&(root, *scope, *reach)) {
                continue;
            }
            known.push((root, *scope, *reach));
            if *reach == Reach::Tree {
                covered.deep.push(root.clone());
            }
            let own = Extent::new(app, root, *scope, *reach);
            covered.keys.extend(own.parts().iter().map(|part| part.key.clone()));
            covered.keys.insert(members_key(app, root));
        }
        covered
    }

    /// Returns whether a held lock covers this part.
    pub(super) fn has(&self, part: &Part) -> bool {
        let is_inside = |root: &FilePath| part.at == *root || root.contains(&part.at);
        self.deep.iter().any(is_inside) || self.keys.contains(&part.key)
    }
}

/// Returns the locks for which a caller needs rights to lock this path.
pub(super) fn governing(app: &App, path: &FilePath, reach: Reach) -> Vec<LockKey> {
    let node = LockKey::new(app.dialect.files.namespace.clone(), path.as_str());
    let tree = (reach == Reach::Tree).then(|| tree_key(app, path));
    std::iter::once(node).chain(tree).collect()
}

/// Returns a random secret that is also a version 4 UUID, which becomes the lock token. All other bits are random.
pub(super) fn new_secret() -> Secret {
    let mut secret: [u8; 16] = leasehold_base::random::bytes();
    secret[6] = secret[6] & 0x0F | 0x40;
    secret[8] = secret[8] & 0x3F | 0x80;
    Secret(secret)
}

/// The secrets of the locks that a request shows. A lock with thousands of holders is read in part, but with all those
/// that have one of these secrets.
pub(super) fn secrets<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Secrets {
    Arc::new(tokens.into_iter().filter_map(secret).collect())
}

/// Returns whether this is the token of a lock, rather than a word like `DAV:no-lock`.
pub(super) fn is_token(token: &str) -> bool {
    token.starts_with(TOKEN)
}

fn secret(token: &str) -> Option<[u8; 16]> {
    let digits = token.strip_prefix(TOKEN)?.replace('-', "");
    let number = u128::from_str_radix(&digits, 16).ok()?;
    Some(number.to_be_bytes())
}

/// The scheme of all tokens.
const TOKEN: &str = "opaquelocktoken:";

fn token(Secret(secret): Secret) -> String {
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("{TOKEN}{a}-{b}-{c}-{d}-{e}")
}

/// Returns the locks that cover a path: locks on the path, and locks on everything in one of the folders around it. If
/// there are very many, it returns some of them, and all those with one of these secrets.
pub(super) async fn covering(
    dav: &Dav,
    caller: &Caller,
    path: &FilePath,
    secrets: &Secrets,
) -> Result<Vec<Active>, Refusal> {
    covering_as(dav, LockReader::Caller(caller), path, secrets).await
}

async fn covering_as(
    dav: &Dav,
    reader: LockReader<'_>,
    path: &FilePath,
    secrets: &Secrets,
) -> Result<Vec<Active>, Refusal> {
    // Folders deeper than this cannot be locked, because their lock would have too many parts.
    let folders: Vec<_> = path.ancestors().take(dav.app.limits.group_max).collect();
    let trees = folders.iter().map(|folder| tree_key(&dav.app, folder));
    let keys = std::iter::once(path.lock(&dav.app)).chain(trees).collect();
    let of = governing(&dav.app, path, Reach::Itself);
    let mut views = look(dav, reader, &of, (keys, secrets)).await?.into_iter();
    let mut all = Vec::new();
    if let Some(view) = views.next() {
        add(&mut all, path, &view, false);
    }
    for (folder, view) in folders.iter().zip(views) {
        add(&mut all, folder, &view, true);
    }
    // Several leases of the same lock count once.
    let mut known = HashSet::new();
    all.retain(|active| known.insert(active.number()));
    Ok(all)
}

/// Returns the locks on the path, without locks on the folders around it.
pub(super) async fn on_node(
    dav: &Dav,
    caller: &Caller,
    path: &FilePath,
    (of, secrets): (&[LockKey], &Secrets),
) -> Result<Vec<Active>, Refusal> {
    let mut all = Vec::new();
    let keys = vec![path.lock(&dav.app)];
    for view in look(dav, LockReader::Caller(caller), of, (keys, secrets)).await? {
        add(&mut all, path, &view, false);
    }
    Ok(all)
}

/// Writes to the audit files that a request showed a token with which its caller cannot use any lock on this path.
pub(super) async fn note_wrong_token(
    dav: &Dav,
    caller: &Caller,
    path: &FilePath,
    (operation, token): (&'static str, &str),
) {
    if dav.app.audit.is_none() {
        return;
    }
    let secrets = secrets([token]);
    let Ok(all) = covering_as(dav, LockReader::Audit(caller), path, &secrets).await else { return };
    let meant = all.iter().find(|active| active.token() == token);
    if let Some(active) = meant.or_else(|| all.iter().find(|active| active.is_ours)) {
        let (lock, number) = (active.root.lock(&dav.app), active.lease.id.number);
        dav.app.note_mismatch(caller, operation, (&lock, number));
    }
}

fn add(all: &mut Vec<Active>, at: &FilePath, view: &LockView, is_tree: bool) {
    // Clients with a lock inside the folder share its tree. A lease on the tree in another mode is a lock on everything
    // in the folder.
    let locks = view.holders.iter().filter(|lease| match lease.mode {
        Mode::Exclusive => true,
        Mode::Shared => !is_tree,
        Mode::Counted(_) => is_tree,
    });
    all.extend(locks.filter_map(|lease| Active::of(at, lease, is_tree)));
}

/// Returns whether anything in this folder is locked.
pub(super) async fn is_any_inside(
    dav: &Dav,
    caller: &Caller,
    folder: &FilePath,
) -> Result<bool, Refusal> {
    let of = governing(&dav.app, folder, Reach::Itself);
    let keys = vec![tree_key(&dav.app, folder), readers_key(&dav.app, folder)];
    let views = look(dav, LockReader::Caller(caller), &of, (keys, &Secrets::default())).await?;
    Ok(views.iter().any(|view| view.n_holders > 0))
}

#[derive(Clone, Copy)]
enum LockReader<'a> {
    Caller(&'a Caller),
    /// The audit log, for a request of this caller. The caller does not get the result.
    Audit(&'a Caller),
}

/// Reads the states of locks. A caller that can see the path can see the locks on it. For other callers there are none:
/// they can see the folders on the way, but not the locks.
async fn look(
    dav: &Dav,
    reader: LockReader<'_>,
    of: &[LockKey],
    (keys, secrets): (Vec<LockKey>, &Secrets),
) -> Result<Vec<LockView>, Refusal> {
    let read = ReadLocks { keys, secrets: secrets.clone() };
    let found = match reader {
        LockReader::Caller(caller) => grip::look_at_all(&dav.app, caller, of, read).await,
        LockReader::Audit(caller) => grip::audit_all(&dav.app, caller, read).await,
    };
    match found {
        Err(Obstacle::Denied(_)) => Ok(Vec::new()),
        found => found.map_err(|obstacle| Refusal::of_obstacle(&dav.app, obstacle)),
    }
}
