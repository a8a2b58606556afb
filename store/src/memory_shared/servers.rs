//! The servers, and what operators request.

use super::{Leased, MemoryShared, lease_id};
use crate::shared::{BackendFailure, Entries, Lease, NodePut, Requests, Servers};

impl Servers for MemoryShared {
    fn put_node(
        &self,
        name: &str,
        value: &[u8],
        before: Option<&[u8]>,
        lease: Lease,
    ) -> Result<NodePut, BackendFailure> {
        self.change(|state| {
            let found = state.nodes.get(name);
            if found.map(|node| node.value.as_slice()) != before {
                let (value, is_kept) =
                    found.map_or_else(Default::default, |node| (node.value.clone(), true));
                return NodePut::Differs { value, is_kept };
            }
            let node = Leased { value: value.to_vec(), lease: Some(lease.id) };
            state.nodes.insert(name.to_owned(), node);
            NodePut::Done
        })
    }

    fn requests(&self) -> Result<Requests, BackendFailure> {
        Ok(self.state().requests())
    }

    fn drain(
        &self,
        node: &str,
        word: &str,
        lease: Option<Lease>,
        replaces: bool,
    ) -> Result<(), BackendFailure> {
        self.change(|state| {
            if replaces || !state.drained.contains_key(node) {
                let request = Leased { value: word.to_owned(), lease: lease_id(lease) };
                state.drained.insert(node.to_owned(), request);
            }
        })
    }

    fn pause(&self) -> Result<(), BackendFailure> {
        self.change(|state| state.is_paused = true)
    }

    fn withdraw(&self, node: Option<&str>) -> Result<bool, BackendFailure> {
        self.change(|state| match node {
            Some(node) => state.drained.remove(node).is_some(),
            None => std::mem::take(&mut state.is_paused),
        })
    }

    fn forget(&self, node: &str) -> Result<(), BackendFailure> {
        self.change(|state| {
            state.nodes.remove(node);
            state.drained.remove(node);
        })
    }

    fn entries(&self) -> Result<Entries, BackendFailure> {
        let state = self.state();
        Ok(Entries {
            id: state.id.clone(),
            head: Ok(state.head),
            leader: state.leader_entry(),
            manifest: state.manifest.as_ref().map(|manifest| manifest.value.clone()),
            requests: state.requests(),
            rewound: state.rewound.clone(),
            closed: state.closed.clone(),
        })
    }
}
