//! The names of the protocols, as metrics and audit files show them.

use leasehold_core::Dialect;

/// The names of the protocols, by their numbers in the core. The server fills in the table, because this crate knows
/// none of the protocols.
#[derive(Clone, Copy, Debug)]
pub struct DialectNames(pub &'static [(Dialect, &'static str)]);

impl DialectNames {
    /// Returns the name of a protocol.
    pub fn of(self, dialect: Dialect) -> String {
        let known = self.0.iter().find(|(number, _)| *number == dialect);
        known.map_or_else(|| format!("dialect {}", dialect.0), |(_, name)| (*name).to_owned())
    }
}
