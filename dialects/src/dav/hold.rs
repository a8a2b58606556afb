//! The locks that a request holds while it changes files: locks whose tokens it shows, and locks that it acquires
//! itself for the parts that those do not cover.

use std::collections::HashSet;

use leasehold_auth::{Caller, Permitted};
use leasehold_core::{LockKey, Owner, Timestamp};
use leasehold_engine::{Secrets, Undelivered};

use super::active::{
    Active, Covered, covering, governing, is_token, new_secret, note_wrong_token, on_node, secrets,
};
use super::condition::{If, Wanted};
use super::error::Refusal;
use super::place;
use super::{Asked, Dav, METHODS};
use crate::audit::{Act, Kind};
use crate::content::{self, Content, Extent, FilePath, Found, Reach, Scope, ToRead};
use crate::files::condition;
use crate::grip::{Grip, Terms};
use crate::{Dialect, owner};

/// Maximum files and folders that one header `If` names.
const ADDRESSES_MAX: usize = 16;

/// A path to change.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) path: FilePath,
    pub(super) reach: Reach,
    /// `true` if the path is created or removed, so that its parent folder changes too.
    pub(super) is_member: bool,
}

/// The locks held during a change. When it is dropped, the locks that the request acquired itself are released.
pub(super) struct Hold {
    dav: Dav,
    caller: Caller,
    /// Locks of the client whose tokens the request shows.
    pub(super) shown: Vec<Active>,
    taken: Option<Grip>,
    deadline: Option<Timestamp>,
}

impl Hold {
    /// Checks the conditions of the request and acquires all locks that it needs for these targets, except for the
    /// parts that are covered by locks whose tokens it shows.
    pub(super) async fn take(
        dav: &Dav,
        asked: &Asked,
        targets: &[Target],
    ) -> Result<Self, Refusal> {
        let conditions = conditions(asked)?;
        let checked = check(dav, asked, &conditions).await;
        let shown = shown(dav, asked, &conditions, targets).await?;
        note_foreign_token(dav, asked, &conditions, &shown).await;
        checked?;
        let app = &dav.app;
        let needed = targets.iter().fold(Extent::none(app), |needed, target| {
            let Target { path, reach, is_member } = target;
            needed.and(Extent::to_change(app, path, *reach, *is_member))
        });
        let covered = Covered::by(app, &shown);
        let needed = needed.without(|part| covered.has(part));
        let of = targets.iter().flat_map(|target| governing(app, &target.path, target.reach));
        Self::with(dav, asked, of.collect(), &needed, shown).await
    }

    /// Acquires the lock to add a path to its parent folder. Used when a client locks a path that does not exist.
    pub(super) async fn of_parent(
        dav: &Dav,
        asked: &Asked,
        path: &FilePath,
    ) -> Result<Self, Refusal> {
        let conditions = conditions(asked)?;
        let target = Target { path: path.clone(), reach: Reach::Itself, is_member: true };
        let shown = shown(dav, asked, &conditions, std::slice::from_ref(&target)).await?;
        let needed = Extent::none(&dav.app).with_parent(path);
        let covered = Covered::by(&dav.app, &shown);
        let needed = needed.without(|part| covered.has(part));
        Self::with(dav, asked, governing(&dav.app, path, Reach::Itself), &needed, shown).await
    }

    async fn with(
        dav: &Dav,
        asked: &Asked,
        of: Vec<LockKey>,
        needed: &Extent,
        shown: Vec<Active>,
    ) -> Result<Self, Refusal> {
        let caller = asked.caller.clone();
        let mut hold = Self { dav: dav.clone(), caller, shown, taken: None, deadline: None };
        if needed.is_empty() {
            return Ok(hold);
        }
        let terms = Terms {
            owner: writer(asked),
            dialect: Dialect::Dav,
            ttl: dav.app.dialect.files.lock_ttl,
            session: None,
            metadata: None,
            secret: new_secret(),
            peer: asked.counted.0,
        };
        let taken = Grip::take(&dav.app, &asked.caller, of, needed, terms).await;
        let (grip, undelivered) =
            taken.map_err(|obstacle| Refusal::of_obstacle(&dav.app, obstacle))?;
        // From here on the request releases the lock itself.
        undelivered.into_iter().for_each(Undelivered::delivered);
        hold.taken = Some(grip);
        Ok(hold)
    }

    /// Returns whether other clients can hold the same locks and change the same files in the meantime. Then the checks
    /// that followed the acquisition must be repeated when it is this request's turn.
    pub(super) fn is_shared(&self) -> bool {
        self.shown.iter().any(|active| active.scope == Scope::Shared)
    }

    /// Runs `work` if all locks are still held and will be held long enough.
    pub(super) async fn commit<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&dyn Content) -> Result<T, content::Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.secure().await?;
        let (engine, deadline) = (self.dav.app.engine.clone(), self.deadline);
        // The locks are valid for some time, but the thread might be paused for longer.
        let is_safe = move || deadline.is_none_or(|deadline| engine.now() < deadline);
        let done =
            self.dav.store.blocking(move |content| is_safe().then(|| work(content)).transpose());
        done.await?.ok_or_else(|| self.lost())
    }

    async fn secure(&mut self) -> Result<(), Refusal> {
        let app = &self.dav.app;
        let shown: Vec<_> = self.shown.iter().map(|active| active.grip(app)).collect();
        let grips: Vec<_> = shown.iter().chain(&self.taken).collect();
        let secured = Grip::secure(app, &self.caller, &grips).await;
        match secured.map_err(|obstacle| Refusal::of_obstacle(app, obstacle))? {
            Ok(deadline) => {
                self.deadline = deadline;
                Ok(())
            }
            Err(_) => Err(self.lost()),
        }
    }

    /// Returns the refusal for a lock that was lost before the change was made.
    fn lost(&self) -> Refusal {
        let name = self.shown.first().map_or("/", |active| active.root.as_str());
        let why = "the lock was lost (released, revoked or expired) before the change was complete; nothing was \
                   changed";
        Refusal::by_lock(name, why.into())
    }

    /// Writes a change to the audit files.
    pub(super) fn note(&self, act: &'static str, path: &FilePath, more: impl FnOnce(Act) -> Act) {
        let app = &self.dav.app;
        let lock = LockKey::new(app.dialect.files.namespace.clone(), path.as_str());
        app.note_of(Kind::Content, &self.caller, act, |act| more(act.on(&lock)));
    }

    /// Releases the client's locks on a removed path and on everything in it.
    pub(super) async fn forget(&self, path: &FilePath) -> Result<(), Refusal> {
        for active in &self.shown {
            if active.root == *path || path.contains(&active.root) {
                active.grip(&self.dav.app).release(&self.dav.app, &self.caller).await?;
            }
        }
        Ok(())
    }

    /// Releases the locks that the request acquired itself. Call it before sending the response.
    pub(super) async fn give_back(mut self) -> Result<(), Refusal> {
        if let Some(taken) = self.taken.take() {
            taken.release(&self.dav.app, &self.caller).await?;
        }
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(taken) = &self.taken {
            taken.drop_later(&self.dav.app, &self.caller);
        }
    }
}

/// Prefix of the owner name of a request that acquires locks itself; the method follows.
const REQUEST: &str = "webdav ";

/// Returns the owner of locks that the request acquires itself.
fn writer(asked: &Asked) -> Owner {
    owner::of(&asked.caller, &format!("{REQUEST}{}", asked.parts.method))
}

/// Returns whether the owner is a request, which releases its lock when it is answered.
pub(super) fn is_request(instance: &str) -> bool {
    let method = instance.strip_prefix(REQUEST);
    method.is_some_and(|method| METHODS.split(',').any(|known| known == method))
}

/// Parses the header `If` of the request.
pub(super) fn conditions(asked: &Asked) -> Result<If, Refusal> {
    let mut values = asked.parts.headers.get_all("if").iter();
    let Some(value) = values.next() else { return Ok(If::default()) };
    if values.next().is_some() {
        return Err(Refusal::invalid("there is more than one header If"));
    }
    let text = value.to_str().map_err(|_| Refusal::invalid("the header If is not plain text"))?;
    If::parse(text)
}

/// Checks that all conditions of at least one list hold.
pub(super) async fn check(dav: &Dav, asked: &Asked, conditions: &If) -> Result<(), Refusal> {
    if conditions.lists.is_empty() {
        return Ok(());
    }
    // Several lists can be about the same file, so the facts are kept.
    let mut known: Vec<ResourceFacts> = Vec::new();
    let mut is_gone = false;
    let secrets = secrets(conditions.tokens());
    for list in &conditions.lists {
        let about = match &list.about {
            Some(address) => match place::resource(address, &asked.parts.headers) {
                Ok(path) => path,
                // Nothing is known about URLs of other servers, so the list does not hold.
                Err(_) => continue,
            },
            None => asked.path.clone(),
        };
        let at = match known.iter().position(|known| known.path == about) {
            Some(at) => at,
            None if known.len() == ADDRESSES_MAX => {
                let why =
                    format!("the header If names more than {ADDRESSES_MAX} files and folders");
                return Err(Refusal::invalid(why));
            }
            None => {
                known.push(ResourceFacts { path: about, tokens: None, tag: None });
                known.len() - 1
            }
        };
        let mut holds = true;
        for term in &list.terms {
            let is_so = known[at].is(dav, &asked.caller, (&term.wanted, &secrets)).await?;
            if is_so == term.is_not {
                is_gone |= matches!(&term.wanted, Wanted::Token(_)) && !term.is_not;
                holds = false;
                break;
            }
        }
        if holds {
            return Ok(());
        }
    }
    let why = match is_gone {
        true => {
            "no lock on this path has the token in the header If: the lock expired, was revoked or unlocked, or is on \
             another path; nothing was changed"
        }
        false => "no list of the header If holds; nothing was changed",
    };
    Err(Refusal::precondition(why))
}

/// The facts about a file or folder that the header `If` names: looked up once, and only if needed.
struct ResourceFacts {
    path: FilePath,
    tokens: Option<HashSet<String>>,
    tag: Option<Option<String>>,
}

impl ResourceFacts {
    async fn is(
        &mut self,
        dav: &Dav,
        caller: &Caller,
        (wanted, secrets): (&Wanted, &Secrets),
    ) -> Result<bool, Refusal> {
        Ok(match wanted {
            Wanted::Token(token) => {
                if self.tokens.is_none() {
                    let all = covering(dav, caller, &self.path, secrets).await?;
                    self.tokens = Some(all.iter().map(Active::token).collect());
                }
                self.tokens.as_ref().is_some_and(|all| all.contains(token))
            }
            Wanted::Tag(tag) => {
                if self.tag.is_none() {
                    self.tag = Some(tag_of(dav, caller, &self.path).await?);
                }
                self.tag.as_ref().is_some_and(|found| found.as_ref() == Some(tag))
            }
        })
    }
}

async fn tag_of(dav: &Dav, caller: &Caller, path: &FilePath) -> Result<Option<String>, Refusal> {
    let path: Permitted<ToRead> = match caller.permit(ToRead::new(&dav.app, path.clone())) {
        Ok(path) => path,
        Err(_) => return Ok(None),
    };
    let found = dav.store.blocking(move |content| content.find(&path)).await?;
    Ok(match found {
        Some(Found::File(facts, _)) => Some(condition::tag(&facts)),
        Some(Found::Folder) | None => None,
    })
}

/// Writes to the audit files that a write showed a token with which its caller holds no lock on any target.
async fn note_foreign_token(dav: &Dav, asked: &Asked, conditions: &If, shown: &[Active]) {
    let own: HashSet<String> = shown.iter().map(Active::token).collect();
    let token = conditions.tokens().find(|token| is_token(token) && !own.contains(*token));
    if let Some(token) = token {
        note_wrong_token(dav, &asked.caller, &asked.path, ("write", token)).await;
    }
}

/// Returns the caller's locks on the targets whose tokens the request shows.
async fn shown(
    dav: &Dav,
    asked: &Asked,
    conditions: &If,
    targets: &[Target],
) -> Result<Vec<Active>, Refusal> {
    let (mut shown, mut known) = (Vec::new(), HashSet::new());
    let tokens: HashSet<&str> = conditions.tokens().collect();
    if tokens.is_empty() {
        return Ok(shown);
    }
    let secrets = secrets(tokens.iter().copied());
    for target in targets {
        let mut found = covering(dav, &asked.caller, &target.path, &secrets).await?;
        if let Some(parent) = target.path.parent().filter(|_| target.is_member) {
            let of = governing(&dav.app, &target.path, Reach::Itself);
            found.extend(on_node(dav, &asked.caller, &parent, (&of, &secrets)).await?);
        }
        for active in found {
            let token = active.token();
            let is_shown = active.is_usable(&asked.caller) && tokens.contains(&*token);
            if is_shown && known.insert(token) {
                shown.push(active);
            }
        }
    }
    Ok(shown)
}
