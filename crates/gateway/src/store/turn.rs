use std::fmt;

use axum::body::Bytes;
use sha2::{Digest, Sha256};

use super::StoreFault;
use super::moment::moment;
use crate::clock::{now, random};

/// A finished turn of a conversation: what it added to its parent.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredTurn {
    /// Its id.
    pub id: TurnId,
    /// The turn before it.
    pub parent: Option<TurnId>,
    /// When it ended, in seconds since 1970.
    pub created: i64,
    /// What the gateway keeps of it. A clone shares it.
    pub body: Bytes,
}

impl StoredTurn {
    /// Returns the first turn of a new conversation.
    pub fn first(body: Vec<u8>) -> StoredTurn {
        let own = number();
        StoredTurn { id: TurnId { root: own, own }, parent: None, created: now(), body: kept(body) }
    }

    /// Returns a turn that continues another.
    pub fn after(parent: &TurnId, body: Vec<u8>) -> StoredTurn {
        let id = TurnId { root: parent.root, own: number() };
        StoredTurn { id, parent: Some(parent.clone()), created: now(), body: kept(body) }
    }

    /// Returns the bytes that are stored: a checksum, the parent's own number, the time, and the body.
    /// The script `chain.lua` reads the parent.
    pub(super) fn to_record(&self) -> Vec<u8> {
        let mut record = vec![0; CHECK];
        match &self.parent {
            Some(parent) => record.extend(hex(parent.own).into_bytes()),
            None => record.extend(NO_PARENT),
        }
        record.extend(self.created.to_be_bytes());
        record.extend(&self.body);
        let check = checksum(&self.id, &record[CHECK..]);
        record[..CHECK].copy_from_slice(&check);
        record
    }

    /// Reads what was stored for an id.
    pub(super) fn of_record(id: &TurnId, record: &[u8]) -> Result<StoredTurn, StoreFault> {
        let read = || {
            let (check, rest) = record.split_first_chunk::<CHECK>()?;
            if *check != checksum(id, rest) {
                return None;
            }
            let (parent, rest) = rest.split_first_chunk::<32>()?;
            let (created, body) = rest.split_first_chunk::<8>()?;
            let parent = match parent == NO_PARENT {
                true => None,
                false => Some(TurnId { root: id.root, own: of_hex(std::str::from_utf8(parent).ok()?)? }),
            };
            let created = i64::from_be_bytes(*created);
            Some(StoredTurn { id: id.clone(), parent, created, body: Bytes::copy_from_slice(body) })
        };
        read().ok_or_else(|| StoreFault::Damaged("a turn does not have the bytes that were written".into()))
    }

    /// Checks that the id and the parent fit, since both can be set.
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        let fits = match &self.parent {
            None => self.id.own == self.id.root,
            Some(parent) => self.id.own != self.id.root && self.id.root == parent.root && self.id.own != parent.own,
        };
        if fits { Ok(()) } else { Err(StoreFault::Gone) }
    }
}

impl fmt::Debug for StoredTurn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The body is a client's content, and not for logs.
        write!(formatter, "StoredTurn({:?} after {:?}, {} bytes)", self.id, self.parent, self.body.len())
    }
}

/// The id of a turn, which also tells its conversation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TurnId {
    pub(super) root: u128,
    pub(super) own: u128,
}

impl TurnId {
    /// Returns the id of the first turn of the conversation.
    pub fn root(&self) -> TurnId {
        TurnId { root: self.root, own: self.root }
    }

    /// Reads what [`TurnId`] displays.
    ///
    /// ```
    /// use rolecall_gateway::{StoredTurn, TurnId};
    /// let id = StoredTurn::first(Vec::new()).id;
    /// assert_eq!(TurnId::of_text(&id.to_string()), Some(id));
    /// assert_eq!(TurnId::of_text("7"), None);
    /// ```
    pub fn of_text(text: &str) -> Option<TurnId> {
        let (root, own) = text.split_at_checked(32)?;
        Some(TurnId { root: of_hex(root)?, own: of_hex(own)? })
    }

    pub(super) fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.root.to_be_bytes());
        bytes[16..].copy_from_slice(&self.own.to_be_bytes());
        bytes
    }

    pub(super) fn of_bytes(bytes: &[u8; 32]) -> TurnId {
        let number = |range: &[u8]| range.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
        TurnId { root: number(&bytes[..16]), own: number(&bytes[16..]) }
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}{:032x}", self.root, self.own)
    }
}

impl fmt::Debug for TurnId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// Returns a body without room for more.
fn kept(body: Vec<u8>) -> Bytes {
    body.into_boxed_slice().into()
}

/// How many bytes a checksum has.
const CHECK: usize = 8;

/// How many bytes a record has before the body.
pub(super) const RECORD_HEAD: usize = CHECK + 32 + 8;

/// What stands for the parent of a first turn.
const NO_PARENT: &[u8; 32] = b"--------------------------------";

fn checksum(id: &TurnId, rest: &[u8]) -> [u8; CHECK] {
    let digest: [u8; 32] = Sha256::new().chain_update(id.to_bytes()).chain_update(rest).finalize().into();
    std::array::from_fn(|at| digest[at])
}

/// Returns a number that no other turn has. It begins with the time, in microseconds: what is stored one after
/// another is found side by side, so that few pages of a file change.
fn number() -> u128 {
    u128::from(moment()) << 64 | u128::from(random())
}

pub(super) fn hex(number: u128) -> String {
    format!("{number:032x}")
}

fn of_hex(text: &str) -> Option<u128> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if is_hex { u128::from_str_radix(text, 16).ok() } else { None }
}
