//! Counts the keys in etcd without reading them, to check that all records and snapshot chunks that a start needs
//! exist.

use leasehold_etcd::{Op, Txn};

use super::cluster::Cluster;
use super::keys::Keys;
use super::snapshot::Manifest;
use super::value::{self, HeadValue};

const HEAD: usize = 0;
const MANIFEST: usize = 1;
const FIRST: usize = 2;
const RECORDS: usize = 3;
const PIECES: usize = 4;

/// Returns what is missing, in words, or `None` if nothing is. Records that are in this snapshot may be missing. The
/// error states why the check failed.
pub(super) fn missing(
    cluster: &dyn Cluster,
    keys: &Keys,
    manifest: Option<&Manifest>,
) -> Result<Option<String>, String> {
    let (records, name) = (keys.slots_from(0), manifest.map_or("", |manifest| &manifest.name));
    let pieces = keys.chunks(name);
    let txn = Txn::default()
        .then(Op::Get(keys.head()))
        .then(Op::Get(keys.manifest()))
        .then(Op::GetRange(records.0.clone(), records.1.clone(), 1))
        .then(Op::Count(records.0, records.1))
        .then(Op::Count(pieces.0, pieces.1));
    let found = cluster.txn(txn.request()).map_err(|error| error.to_string())?;
    let head = found.found(HEAD).ok_or("the journal head is missing")?;
    let head: HeadValue = value::decode(&head.key, &head.value)?;
    if let Some(manifest) = manifest {
        let put = found.found(MANIFEST).map(|found| found.value.as_slice());
        if put != Some(&value::encode(manifest)) {
            return Ok(Some("the snapshot manifest is not the one that was written".into()));
        }
        let (n_pieces, n_found) = (manifest.n_chunks, found.n_found(PIECES));
        if n_found != n_pieces {
            return Ok(Some(format!("only {n_found} of {n_pieces} pieces of the snapshot exist")));
        }
    }
    let first = found.found(FIRST).and_then(|slot| keys.seq_of(&slot.key));
    let through = manifest.map_or(0, |manifest| manifest.through.seq);
    let first = first.unwrap_or(head.seq + 1).min(through + 1);
    let (n_records, n_found) = ((head.seq + 1).saturating_sub(first), found.n_found(RECORDS));
    let is_whole = n_found == n_records;
    let words = || format!("only {n_found} of {n_records} journal records exist");
    Ok((!is_whole).then(words))
}
