//! Stands in for the store until it is here.

use crate::Fault;
use crate::gateway::random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

impl Owner {
    pub fn of_key(key: &str) -> Owner {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Owner(hasher.finish())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TurnId(u64, u64);

impl TurnId {
    pub fn root(&self) -> TurnId {
        TurnId(self.0, self.0)
    }
}

pub struct StoredTurn {
    pub id: TurnId,
    pub body: Vec<u8>,
}

impl StoredTurn {
    pub fn first(body: Vec<u8>) -> StoredTurn {
        let own = random();
        StoredTurn { id: TurnId(own, own), body }
    }

    pub fn after(parent: &TurnId, body: Vec<u8>) -> StoredTurn {
        StoredTurn { id: TurnId(parent.0, random()), body }
    }
}

#[derive(Debug)]
pub struct Store;

impl Store {
    pub fn is_shared(&self) -> bool {
        false
    }

    pub async fn put(&self, _: &Owner, _: &StoredTurn, _: &[String]) -> Result<(), Fault> {
        Ok(())
    }

    pub async fn find(&self, _: &Owner, _: &[String]) -> Result<Option<(usize, TurnId)>, Fault> {
        Ok(None)
    }

    pub async fn chain(&self, _: &Owner, _: &TurnId) -> Result<Option<Vec<StoredTurn>>, Fault> {
        Ok(None)
    }

    pub async fn forget(&self, _: &Owner, _: &str) -> Result<bool, Fault> {
        Ok(false)
    }
}
