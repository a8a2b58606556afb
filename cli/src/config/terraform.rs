//! Settings of the Terraform `http` backend.

use clap::Args as ClapArgs;
use leasehold_core::Limits;
use leasehold_server::dialect::terraform;

use crate::duration::DurationArg;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Terraform")]
pub(super) struct TerraformArgs {
    /// The namespace of the locks of states.
    #[arg(long, env = "LEASEHOLD_TERRAFORM_NAMESPACE", default_value = "terraform")]
    pub(super) terraform_namespace: String,
    /// How long a state stays locked unless its holder writes it [default: until it is unlocked].
    #[arg(long, env = "LEASEHOLD_TERRAFORM_LOCK_TTL")]
    terraform_lock_ttl: Option<DurationArg>,
    /// Number of versions that the server keeps of a state.
    #[arg(long, env = "LEASEHOLD_TERRAFORM_VERSIONS", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    terraform_versions: u32,
    /// Maximum size of a state, in bytes.
    #[arg(long, env = "LEASEHOLD_TERRAFORM_STATE_BYTES_MAX", default_value_t = 256 << 20,
          value_parser = clap::value_parser!(u64).range(1..))]
    terraform_state_bytes_max: u64,
}

impl TerraformArgs {
    /// Checks the settings against the limits.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), String> {
        let Some(ttl) = self.terraform_lock_ttl else { return Ok(()) };
        if ttl.0.is_zero() {
            return Err("--terraform-lock-ttl: must be more than 0".into());
        }
        if ttl.span() > limits.ttl_max {
            return Err("--terraform-lock-ttl is longer than --ttl-max".into());
        }
        Ok(())
    }

    pub(super) fn options(&self) -> terraform::Options {
        terraform::Options {
            namespace: self.terraform_namespace.as_str().into(),
            lock_ttl: self.terraform_lock_ttl.map(DurationArg::span),
            versions: self.terraform_versions as usize,
            state_bytes_max: self.terraform_state_bytes_max,
        }
    }
}
