//! Creates a new store. No other code does: an emptied location must not become a store whose tokens start at 1.

use std::path::Path;

use super::backend::{Backend, BackendFailure, Entry};
use super::memory::Noted;
use super::value::{self, FORMAT, Id};
use crate::Error;

/// Creates a store, at a location without any entries.
pub fn init(backend: &dyn Backend) -> Result<(), Error> {
    let n_entries = backend.n_entries(true).map_err(BackendFailure::refused)?;
    if n_entries > 0 {
        return Err(taken(backend, n_entries));
    }
    check_apart(backend)?;
    let id = value::encode(&Id::new(leasehold_base::random::bytes(), 0, 0));
    let is_created = backend.create(&id).map_err(BackendFailure::refused)?;
    if is_created { Ok(()) } else { Err(taken(backend, 1)) }
}

/// Returns the error for a location that is not empty.
pub(super) fn taken(backend: &dyn Backend, n_entries: u64) -> Error {
    let (location, system) = (backend.location(), backend.system());
    Error::Refused(format!(
        "{location} is not empty in {system} ({n_entries} keys); choose an unused prefix"
    ))
}

/// Fails if the store would lie inside another store, which might delete unknown entries.
pub(super) fn check_apart(backend: &dyn Backend) -> Result<(), Error> {
    let Some((around, beside)) = backend.enclosing().map_err(BackendFailure::refused)? else {
        return Ok(());
    };
    Err(Error::Refused(format!(
        "{} is inside the store under {around}; choose a separate prefix, such as {beside}",
        backend.location(),
    )))
}

/// Reads the id of the store, decoded and as bytes. Returns `None` if there is no store. The error states in words why
/// the id cannot be read, at all or by this version.
pub(super) fn find(backend: &dyn Backend) -> Result<Option<(Id, Vec<u8>)>, String> {
    let Some(found) = backend.id().map_err(|failure| failure.to_string())? else {
        return Ok(None);
    };
    Ok(Some((read(backend, &found)?, found)))
}

/// Decodes the id of a store.
pub(super) fn read(backend: &dyn Backend, found: &[u8]) -> Result<Id, String> {
    serde_json::from_slice(found).map_err(|error| {
        format!(
            "cannot read the value of {}, which identifies the store under {}: {error}. Stop all servers, delete the \
             key ({}) and restore a backup (leasehold restore BACKUP --store ...)",
            backend.name_of(Entry::Id),
            backend.location(),
            backend.deletion(Some(Entry::Id))
        )
    })
}

/// Fails if this version cannot read the store.
pub(super) fn check_format(backend: &dyn Backend, id: &Id) -> Result<(), Error> {
    if id.format <= FORMAT {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the store under {} has format {}, but this program (version {}) reads only formats up to {FORMAT}, so it can \
         neither lead nor follow; install a newer version on this machine",
        backend.location(),
        id.format,
        env!("CARGO_PKG_VERSION")
    )))
}

/// Returns the error for a store that does not exist.
pub(super) fn missing(backend: &dyn Backend) -> Error {
    Error::Refused(format!(
        "there is no store under {} in {}. If there was one, restore a backup of it (leasehold restore BACKUP \
         --store ...); otherwise create one, whose tokens start at 1 (leasehold init --store)",
        backend.location(),
        backend.system()
    ))
}

/// Returns the error for a store that does not exist but that this server remembers.
pub(super) fn lost(backend: &dyn Backend, noted: &Noted) -> Error {
    Error::Refused(format!(
        "there is no store under {} in {}, but this server has seen {noted}; restore a backup of it (leasehold \
         restore BACKUP --store ...). A new store would grant the same tokens again",
        backend.location(),
        backend.system()
    ))
}

/// Returns the error for a data directory that belongs to a node of another store.
pub(super) fn foreign(data: &Path, backend: &dyn Backend, noted: &Noted, id: &Id) -> Error {
    let (data, store) = (data.display(), &id.store);
    let (location, system) = (backend.location(), backend.system());
    let deletion = backend.deletion(None);
    Error::Refused(format!(
        "{data} belongs to another store: it has a record of {noted}, but {location} in {system} contains {store}. If \
         that store was created because the other was lost, it grants the same tokens again: stop all servers, delete \
         it ({deletion}) and restore a backup of the other one (leasehold restore BACKUP --store ...). If this server \
         should join {store}, give it an empty data directory (--data)"
    ))
}
