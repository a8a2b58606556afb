//! Counts the entries of a store without reading them, to check that all records and snapshot chunks that a start needs
//! exist.

use super::backend::{Backend, Census, Entry};
use super::snapshot::Manifest;
use super::value;

/// Returns what is missing, in words, or `None` if nothing is. Records that are in this snapshot may be missing. The
/// error states why the check failed.
pub(super) fn missing(
    backend: &dyn Backend,
    known: Option<&Manifest>,
) -> Result<Option<String>, String> {
    let name = known.map_or("", |manifest| &manifest.name);
    let census = backend.census(name).map_err(|failure| failure.to_string())?;
    let Census { head, manifest: found, first_record, n_records: n_found, n_chunks } = census;
    let head = head.map_err(|why| value::unreadable(backend, Entry::Head, &why))?;
    let seq = head.ok_or("the journal head is missing")?.place.seq;
    if let Some(manifest) = known {
        if found != Some(value::encode(manifest)) {
            return Ok(Some("the snapshot manifest is not the one that was written".into()));
        }
        let n_pieces = manifest.n_chunks;
        if n_chunks != n_pieces {
            return Ok(Some(format!("only {n_chunks} of {n_pieces} pieces of the snapshot exist")));
        }
    }
    let through = known.map_or(0, |manifest| manifest.through.seq);
    let first = first_record.unwrap_or(seq + 1).min(through + 1);
    let n_records = (seq + 1).saturating_sub(first);
    let is_whole = n_found == n_records;
    let words = || format!("only {n_found} of {n_records} journal records exist");
    Ok((!is_whole).then(words))
}
