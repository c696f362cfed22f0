//! Rules of one-sided reading that the simulator breaks on purpose, to see that its checker notices.

/// A rule to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Halves of transactions are not looked for in what was read.
    NoSiblings,
    /// Keys of one shard are not looked at a second time.
    NoSecondLook,
    /// Time that passes during a read over several shards is not noticed.
    NoEpochs,
    /// Regions are read although the session carries proofs for their owners (PROTOCOL rule 24).
    ReadDespiteProofs,
    /// Of several transactions whose version of a key is missing, the oldest one's is taken (rule 14).
    MendWithOldest,
    /// The session does not learn whom was read from (rule 2).
    ForgetTransactions,
    /// The header of a large collection is not looked at again after its items.
    NoHeaderRecheck,
}

#[cfg(feature = "sim")]
impl Fault {
    /// All of them, and their names on the simulator's command line.
    pub const ALL: [(&'static str, Self); 7] = [
        ("no-siblings", Self::NoSiblings),
        ("no-second-look", Self::NoSecondLook),
        ("no-epochs", Self::NoEpochs),
        ("read-despite-proofs", Self::ReadDespiteProofs),
        ("mend-with-oldest", Self::MendWithOldest),
        ("forget-transactions", Self::ForgetTransactions),
        ("no-header-recheck", Self::NoHeaderRecheck),
    ];
}

/// At most one [`Fault`]; none without the feature `sim`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults(#[cfg(feature = "sim")] pub Option<Fault>);

impl Faults {
    #[inline]
    pub fn has(self, fault: Fault) -> bool {
        #[cfg(feature = "sim")]
        return self.0 == Some(fault);
        #[cfg(not(feature = "sim"))]
        {
            let _ = fault;
            false
        }
    }
}
