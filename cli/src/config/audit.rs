//! Settings of the audit file.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use leasehold_server::audit::{self, OnFailure, Options};

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Audit")]
pub(super) struct AuditArgs {
    /// Write an audit log to FILE: who did what, from where and by which rule, one JSON object per line. Acts of
    /// operators go to FILE.admin, refusals to FILE.refusals and FILE.unknown.
    #[arg(long, env = "LEASEHOLD_AUDIT_FILE")]
    audit_file: Option<PathBuf>,
    /// Size in bytes at which the server rotates each audit file: FILE becomes FILE.1.
    #[arg(long, env = "LEASEHOLD_AUDIT_SIZE_MAX", default_value_t = audit::BYTES_MAX,
          value_parser = clap::value_parser!(u64).range(4096..))]
    audit_size_max: u64,
    /// Number of rotated files to keep of each audit file.
    #[arg(long, env = "LEASEHOLD_AUDIT_KEEP", default_value_t = audit::KEEP)]
    audit_keep: usize,
    /// If the audit file cannot be written: `refuse` grants, revocations and acts of operators, or only `warn` and
    /// count lost lines.
    #[arg(long, env = "LEASEHOLD_AUDIT_FAILURE", default_value_t = OnFailure::Refuse, value_name = "refuse|warn")]
    audit_failure: OnFailure,
    /// Maximum refused requests of known principals in the audit per second; other clients have as many. The rest are
    /// only counted.
    #[arg(long, env = "LEASEHOLD_AUDIT_REFUSALS_PER_SECOND", default_value_t = audit::REFUSALS_PER_SECOND,
          value_parser = clap::value_parser!(u32).range(1..))]
    audit_refusals_per_second: u32,
    /// Maximum refused requests in the audit per second, of one principal or of one address without a valid credential.
    #[arg(long, env = "LEASEHOLD_AUDIT_REFUSALS_PER_CLIENT", default_value_t = audit::REFUSALS_PER_CLIENT,
          value_parser = clap::value_parser!(u32).range(1..))]
    audit_refusals_per_client: u32,
}

impl AuditArgs {
    pub(super) fn options(&self) -> Option<Options> {
        Some(Options {
            file: self.audit_file.clone()?,
            bytes_max: self.audit_size_max,
            keep: self.audit_keep,
            failure: self.audit_failure,
            refusals_per_second: self.audit_refusals_per_second,
            refusals_per_client: self.audit_refusals_per_client,
        })
    }
}
