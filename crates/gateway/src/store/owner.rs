use std::fmt;

use sha2::{Digest, Sha256};

/// To whom turns belong: the digest of an API key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub(super) [u8; 32]);

impl Owner {
    /// Returns the owner who has a key. Without keys, everybody is the owner of the key "".
    pub fn of_key(key: &str) -> Owner {
        // It is not the digest that checks keys: a reader of the store cannot compare the two.
        Owner(Sha256::new().chain_update(b"owner").chain_update(key).finalize().into())
    }

    /// Returns what stands for a name of this owner. Another owner's name has another digest.
    pub(crate) fn digest(&self, name: &str) -> [u8; 32] {
        Sha256::new().chain_update(self.0).chain_update(name).finalize().into()
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Owner")
    }
}
