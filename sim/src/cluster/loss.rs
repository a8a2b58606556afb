//! Simulates the loss of a record that is not in a snapshot yet.

use std::time::Duration;

use leasehold_etcd::{Op, Txn};
use leasehold_store::shared::Snapshots;

use super::{ClusterWorld, Node, PREFIX};
use crate::etcd::Request;
use crate::time::{SECOND, Time};

/// The seed of the run, the time at which a record is lost, and the time by which all nodes must be up to date again.
const LOSES: (u64, Time, Time) = (1, 10 * SECOND, 40 * SECOND);

/// Checks that the leader continues, and that a node that has to read the whole journal waits until there is a snapshot
/// from the leader's memory, which contains the lost record. Then all nodes have the same state again.
pub fn loses_a_record() -> Result<(), String> {
    let mut world = ClusterWorld::new(LOSES.0, true);
    let check_every = Duration::from_secs(5);
    world.troubles.snapshots = Snapshots { check_every, ..Snapshots::every(u64::MAX) };
    world.end_at = LOSES.1;
    world.run();
    let leader = world.nodes.iter().position(Node::leads).ok_or("no server leads")?;
    let (seq, n_epochs) = (world.journal.seq(), world.journal.n_epochs);
    let slot = format!("{PREFIX}j/{:016x}", seq / 2).into_bytes();
    let delete = Request::Txn(Txn::default().then(Op::Delete(slot)).request());
    world.etcd.apply(&delete, world.now(), 0).map_err(|error| error.to_string())?;
    let other = (leader + 1) % world.nodes.len();
    world.kill(other);
    world.nodes[other].folder.wipe();
    world.end_at = LOSES.2;
    world.run();
    if world.etcd.get(format!("{PREFIX}rewound").as_bytes()).is_some() {
        return Err("a lost record is taken for a store that was put back".into());
    }
    if world.journal.n_epochs != n_epochs {
        return Err("the leader did not go on".into());
    }
    let read = world.nodes[other].remembers().unwrap_or(0);
    if read <= seq {
        return Err(format!("n{other} has read up to {read}, and there were {seq} before"));
    }
    let (_, differing) = world.journal.compared();
    differing.into_iter().next().map_or(Ok(()), Err)
}
