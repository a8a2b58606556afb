//! Writes wrong proofs of existing leases to the audit files, if there are any.

use std::sync::Arc;

use leasehold_auth::By;
use leasehold_core::{Asker, Command, LeaseNumber, Outcome, Proof, Rejection, Revoke, Target};

use super::audit::Mismatch;
use super::writer::Writer;

/// The lease ids and numbers in a command, and its caller.
pub(super) struct ShownProofs {
    asker: Arc<Asker>,
    operation: &'static str,
    leases: Vec<Option<LeaseNumber>>,
}

impl Writer {
    /// Returns the proofs in `command`; `None` if none of them is audited.
    pub(super) fn shown(
        &self,
        asker: Option<&Arc<Asker>>,
        command: &Command,
    ) -> Option<ShownProofs> {
        self.options.audit.as_ref()?;
        let (operation, proofs) = match command {
            Command::Renew(renew) => ("renew", std::slice::from_ref(&renew.proof)),
            Command::RenewAll(renew) => ("renew", &*renew.proofs),
            Command::Amend(amend) => ("renew", std::slice::from_ref(&amend.proof)),
            Command::Confirm(confirm) => ("confirm", std::slice::from_ref(&confirm.proof)),
            Command::Release(release) => ("release", std::slice::from_ref(&release.proof)),
            Command::ReleaseAll(release) => ("release", &*release.proofs),
            Command::Revoke(Revoke { target: Target::Lease(proof, _), .. }) => {
                ("revoke", std::slice::from_ref(proof))
            }
            _ => return None,
        };
        let leases = proofs.iter().map(named).collect();
        Some(ShownProofs { asker: asker?.clone(), operation, leases })
    }

    /// Writes the wrong proofs to the audit files.
    pub(super) fn note_mismatches(
        &self,
        shown: &ShownProofs,
        outcome: &Result<Outcome, Rejection>,
    ) {
        match outcome {
            Err(Rejection::Member { n, why }) => self.note_mismatch(shown, *n, why),
            Err(why) if shown.leases.len() == 1 => self.note_mismatch(shown, 0, why),
            Ok(Outcome::ReleaseAll(results)) => {
                let refused = results.iter().enumerate();
                let refused = refused.filter_map(|(n, result)| Some((n, result.as_ref().err()?)));
                refused.for_each(|(n, why)| self.note_mismatch(shown, n, why));
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn note_mismatch(&self, shown: &ShownProofs, n: usize, why: &Rejection) {
        let is_wrong = matches!(why, Rejection::NotOwner | Rejection::NoSuchLease);
        let lease = shown.leases.get(n).copied().flatten().filter(|_| is_wrong);
        // A forgotten lease has no proof to compare with.
        let record = lease.and_then(|lease| self.machine.lease_record(lease));
        if let (Some((audit, _)), Some(record)) = (&self.options.audit, record) {
            let (by, operation, lease) =
                (By::from(&*shown.asker), shown.operation, record.number.0);
            let mismatch = Mismatch { by, operation, lock: record.lock, lease };
            audit.mismatched(&mismatch, self.clock.moment().wall_ms);
        }
    }
}

fn named(proof: &Proof) -> Option<LeaseNumber> {
    match proof {
        Proof::Id { id, .. } => Some(id.number),
        Proof::Number { number, .. } => Some(*number),
        Proof::Owner { .. } | Proof::Session { .. } => None,
    }
}
