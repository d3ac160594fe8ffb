//! The tables of the embedded store, and what is done with them in one transaction.

use std::collections::{BTreeMap, HashSet};

use redb::{Database, ReadableTable, StorageError, Table, TableDefinition, TableError, WriteTransaction};

use super::costs::{CONVERSATION_BYTES, NAME_BYTES, turn_bytes};
use super::file::Trouble;
use super::filter::Filter;
use super::moment::{Moment, moment};
use super::{Bounds, Owner, StoreFault, StoredTurn, TurnId};

/// What is expected of a file: it changes when older code could not read it.
const VERSION: u64 = 1;

/// The version of the file, and the bytes of all conversations.
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// Records of turns, by id.
const TURNS: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("turns");
/// Ids of turns, by digests of names.
const NAMES: TableDefinition<&[u8; 32], &[u8; 32]> = TableDefinition::new("names");
/// The digests of names of a conversation, after its root.
const NAMES_OF: TableDefinition<&[u8; 48], ()> = TableDefinition::new("names_of");
/// Conversations, by root.
const CONVERSATIONS: TableDefinition<u128, &[u8; 56]> = TableDefinition::new("conversations");
/// Conversations in the order in which they were last used.
const BY_USE: TableDefinition<(u64, u128), ()> = TableDefinition::new("by_use");

/// The moments at which conversations were used, by root.
pub type Uses = BTreeMap<u128, Moment>;

/// Reports whether a conversation may still be read: by its root, and when it was used as far as the tables know.
pub type Lives<'a> = dyn Fn(u128, Moment) -> bool + 'a;

/// Creates the tables in an empty database.
pub fn create(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert("version", VERSION)?;
        meta.insert("bytes", 0)?;
        transaction.open_table(TURNS)?;
        transaction.open_table(NAMES)?;
        transaction.open_table(NAMES_OF)?;
        transaction.open_table(CONVERSATIONS)?;
        transaction.open_table(BY_USE)?;
    }
    Ok(transaction.commit()?)
}

/// Checks that a database has the tables.
pub fn check(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_read()?;
    let version = transaction.open_table(META)?.get("version")?.map(|version| version.value());
    transaction.open_table(TURNS)?;
    transaction.open_table(NAMES)?;
    transaction.open_table(NAMES_OF)?;
    transaction.open_table(CONVERSATIONS)?;
    transaction.open_table(BY_USE)?;
    match version {
        Some(VERSION) => Ok(()),
        version => Err(redb::Error::UpgradeRequired(u8::try_from(version.unwrap_or(0)).unwrap_or(u8::MAX))),
    }
}

/// Returns a filter of all names.
pub fn filter(database: &Database) -> Result<Filter, Trouble> {
    let names = database.begin_read()?.open_table(NAMES)?;
    // The length in a damaged table may be anything.
    let mut filter = Filter::new(names.iter()?.count());
    for entry in names.iter()? {
        filter.add(entry?.0.value());
    }
    Ok(filter)
}

/// Returns the first name that leads to a turn, of digests with their numbers.
pub fn find(
    database: &Database,
    owner: &Owner,
    names: &[(usize, [u8; 32])],
    lives: &Lives<'_>,
) -> Result<Option<(usize, TurnId)>, Trouble> {
    let transaction = database.begin_read()?;
    let by_name = transaction.open_table(NAMES)?;
    let conversations = transaction.open_table(CONVERSATIONS)?;
    for (index, name) in names {
        let Some(id) = by_name.get(name)? else { continue };
        let id = TurnId::of_bytes(id.value());
        if ConversationRecord::get(&conversations, &id, owner)?.is_some_and(|known| lives(id.root, known.used)) {
            return Ok(Some((*index, id)));
        }
    }
    Ok(None)
}

/// Returns a turn and all before it, from the first on.
pub fn chain(
    database: &Database,
    owner: &Owner,
    id: &TurnId,
    lives: &Lives<'_>,
) -> Result<Option<Vec<StoredTurn>>, Trouble> {
    let transaction = database.begin_read()?;
    let conversation = ConversationRecord::get(&transaction.open_table(CONVERSATIONS)?, id, owner)?;
    let Some(conversation) = conversation.filter(|known| lives(id.root, known.used)) else { return Ok(None) };
    let turns = transaction.open_table(TURNS)?;
    let mut chain: Vec<StoredTurn> = Vec::new();
    let mut next = Some(id.clone());
    while let Some(id) = next {
        let record = turns.get(&id.to_bytes())?;
        let Some(record) = record.filter(|_| chain.len() as u64 <= conversation.turns) else {
            return match chain.is_empty() {
                true => Ok(None),
                false => Err(StoreFault::Damaged("a turn has no parent".into()).into()),
            };
        };
        let turn = StoredTurn::of_record(&id, record.value())?;
        next = turn.parent.clone();
        chain.push(turn);
    }
    chain.reverse();
    Ok(Some(chain))
}

/// The tables of a transaction that writes.
pub struct Tables<'a> {
    meta: Table<'a, &'static str, u64>,
    turns: Table<'a, &'static [u8; 32], &'static [u8]>,
    names: Table<'a, &'static [u8; 32], &'static [u8; 32]>,
    names_of: Table<'a, &'static [u8; 48], ()>,
    conversations: Table<'a, u128, &'static [u8; 56]>,
    by_use: Table<'a, (u64, u128), ()>,
}

impl<'a> Tables<'a> {
    pub fn open(transaction: &'a WriteTransaction) -> Result<Tables<'a>, TableError> {
        Ok(Tables {
            meta: transaction.open_table(META)?,
            turns: transaction.open_table(TURNS)?,
            names: transaction.open_table(NAMES)?,
            names_of: transaction.open_table(NAMES_OF)?,
            conversations: transaction.open_table(CONVERSATIONS)?,
            by_use: transaction.open_table(BY_USE)?,
        })
    }

    /// Notes when conversations were used.
    pub fn touch(&mut self, uses: &Uses) -> Result<(), StorageError> {
        for (root, used) in uses {
            let known = self.conversations.get(root)?.map(|bytes| ConversationRecord::of_bytes(bytes.value()));
            if let Some(known) = known
                && known.used < *used
            {
                self.set(*root, Some(&known), ConversationRecord { used: *used, ..known })?;
            }
        }
        Ok(())
    }

    /// Keeps a turn with its names, and removes conversations until the bounds are kept. Returns when it was
    /// kept.
    pub fn put(
        &mut self,
        owner: &Owner,
        turn: &StoredTurn,
        names: &[String],
        bounds: &Bounds,
    ) -> Result<Moment, Trouble> {
        turn.check()?;
        let (id, root) = (turn.id.to_bytes(), turn.id.root);
        let known = self.conversations.get(root)?.map(|bytes| ConversationRecord::of_bytes(bytes.value()));
        let is_owned = known.is_none_or(|known| known.owner == owner.0);
        let has_parent = match &turn.parent {
            Some(parent) => self.turns.get(&parent.to_bytes())?.is_some(),
            None => true,
        };
        if !is_owned || !has_parent {
            return Err(StoreFault::Gone.into());
        }
        let is_new = self.turns.get(&id)?.is_none();
        let record = turn.to_record();
        let digests: HashSet<[u8; 32]> = names.iter().map(|name| owner.digest(name)).collect();
        let mut new_names = 0;
        for digest in &digests {
            new_names += u64::from(self.names_of.get(&joined(root, digest))?.is_none());
        }
        let before =
            known.unwrap_or(ConversationRecord { owner: owner.0, bytes: CONVERSATION_BYTES, used: 0, turns: 0 });
        let more = if is_new { turn_bytes(record.len()) } else { 0 };
        let bytes = before.bytes + more + new_names * NAME_BYTES;
        if bytes > bounds.most_bytes {
            return Err(StoreFault::TooLarge { bytes, most: bounds.most_bytes }.into());
        }
        if is_new {
            self.turns.insert(&id, record.as_slice())?;
        }
        for digest in &digests {
            let old = self.names.insert(digest, &id)?.map(|old| TurnId::of_bytes(old.value()).root);
            if let Some(old) = old
                && old != root
            {
                self.lose_name(old, digest)?;
            }
            self.names_of.insert(&joined(root, digest), ())?;
        }
        let used = self.next_moment()?;
        let turns = before.turns + u64::from(is_new);
        self.set(root, known.as_ref(), ConversationRecord { bytes, used, turns, ..before })?;
        self.shrink(root, bounds)?;
        Ok(used)
    }

    /// Takes a name away, with the turns that no name leads to any more. Returns when, if it was known.
    pub fn forget(&mut self, owner: &Owner, name: &str) -> Result<Option<Moment>, StorageError> {
        let digest = owner.digest(name);
        let id = self.names.remove(&digest)?.map(|id| TurnId::of_bytes(id.value()));
        let Some(TurnId { root, .. }) = id else { return Ok(None) };
        let now = self.next_moment()?;
        self.lose_name(root, &digest)?;
        self.sweep(root)?;
        Ok(Some(now))
    }

    /// Removes conversations that were not used since a moment.
    pub fn expire(&mut self, oldest: Moment) -> Result<(), StorageError> {
        while let Some((used, root)) = self.first_but(None)?
            && used < oldest
        {
            self.remove(root)?;
        }
        Ok(())
    }

    /// Removes the conversations that were used least recently until all have as few bytes as allowed.
    fn shrink(&mut self, but: u128, bounds: &Bounds) -> Result<(), StorageError> {
        while self.bytes()? > bounds.most_bytes
            && let Some((_, root)) = self.first_but(Some(but))?
        {
            self.remove(root)?;
        }
        Ok(())
    }

    /// Returns the conversation that was used least recently, but for one.
    fn first_but(&self, but: Option<u128>) -> Result<Option<(Moment, u128)>, StorageError> {
        for entry in self.by_use.iter()? {
            let (used, root) = entry?.0.value();
            if Some(root) != but {
                return Ok(Some((used, root)));
            }
        }
        Ok(None)
    }

    /// Removes a conversation.
    fn remove(&mut self, root: u128) -> Result<(), StorageError> {
        for digest in self.digests(root)? {
            self.names.remove(&digest)?;
            self.names_of.remove(&joined(root, &digest))?;
        }
        for id in self.ids(root)? {
            self.turns.remove(&id)?;
        }
        let known = self.conversations.remove(root)?.map(|bytes| ConversationRecord::of_bytes(bytes.value()));
        if let Some(known) = known {
            self.by_use.remove((known.used, root))?;
            self.add_bytes(known.bytes, 0)?;
        }
        Ok(())
    }

    /// Removes the turns of a conversation that no name leads to.
    fn sweep(&mut self, root: u128) -> Result<(), StorageError> {
        let digests = self.digests(root)?;
        if digests.is_empty() {
            return self.remove(root);
        }
        let mut reached: HashSet<[u8; 32]> = HashSet::new();
        for digest in digests {
            let mut next = self.names.get(&digest)?.map(|id| *id.value());
            while let Some(id) = next
                && reached.insert(id)
            {
                let record = self.turns.get(&id)?;
                let turn = record.map(|record| StoredTurn::of_record(&TurnId::of_bytes(&id), record.value()));
                // What is damaged is reported when it is read.
                next = turn.and_then(Result::ok).and_then(|turn| turn.parent).map(|parent| parent.to_bytes());
            }
        }
        let (mut bytes, mut turns) = (0, 0);
        for id in self.ids(root)?.into_iter().filter(|id| !reached.contains(id)) {
            if let Some(record) = self.turns.remove(&id)? {
                bytes += turn_bytes(record.value().len());
                turns += 1;
            }
        }
        self.change(root, |known| ConversationRecord {
            bytes: known.bytes.saturating_sub(bytes),
            turns: known.turns.saturating_sub(turns),
            ..known
        })
    }

    fn lose_name(&mut self, root: u128, digest: &[u8; 32]) -> Result<(), StorageError> {
        let is_known = self.names_of.remove(&joined(root, digest))?.is_some();
        match is_known {
            true => {
                self.change(root, |known| ConversationRecord { bytes: known.bytes.saturating_sub(NAME_BYTES), ..known })
            }
            false => Ok(()),
        }
    }

    fn digests(&self, root: u128) -> Result<Vec<[u8; 32]>, StorageError> {
        let range = self.names_of.range::<&[u8; 48]>(&joined(root, &[0; 32])..=&joined(root, &[255; 32]))?;
        let digest = |key: &[u8; 48]| std::array::from_fn(|at| key[16 + at]);
        range.map(|entry| Ok(digest(entry?.0.value()))).collect()
    }

    fn ids(&self, root: u128) -> Result<Vec<[u8; 32]>, StorageError> {
        let of = |own| TurnId { root, own }.to_bytes();
        self.turns.range::<&[u8; 32]>(&of(0)..=&of(u128::MAX))?.map(|entry| Ok(*entry?.0.value())).collect()
    }

    fn change(
        &mut self,
        root: u128,
        change: impl FnOnce(ConversationRecord) -> ConversationRecord,
    ) -> Result<(), StorageError> {
        let known = self.conversations.get(root)?.map(|bytes| ConversationRecord::of_bytes(bytes.value()));
        match known {
            Some(known) => self.set(root, Some(&known), change(known)),
            None => Ok(()),
        }
    }

    fn set(
        &mut self,
        root: u128,
        known: Option<&ConversationRecord>,
        new: ConversationRecord,
    ) -> Result<(), StorageError> {
        if let Some(known) = known.filter(|known| known.used != new.used) {
            self.by_use.remove((known.used, root))?;
        }
        if known.is_none_or(|known| known.used != new.used) {
            self.by_use.insert((new.used, root), ())?;
        }
        self.conversations.insert(root, &new.to_bytes())?;
        self.add_bytes(known.map_or(0, |known| known.bytes), new.bytes)
    }

    fn bytes(&self) -> Result<u64, StorageError> {
        Ok(self.meta.get("bytes")?.map_or(0, |bytes| bytes.value()))
    }

    fn add_bytes(&mut self, less: u64, more: u64) -> Result<(), StorageError> {
        let bytes = self.bytes()?.saturating_sub(less).saturating_add(more);
        self.meta.insert("bytes", bytes)?;
        Ok(())
    }

    /// Returns now, or later if the clock went back: the order of uses must hold.
    fn next_moment(&self) -> Result<Moment, StorageError> {
        let last = self.by_use.last()?.map_or(0, |entry| entry.0.value().0);
        Ok(moment().max(last.saturating_add(1)))
    }
}

/// What is known of a conversation.
#[derive(Clone, Copy)]
struct ConversationRecord {
    owner: [u8; 32],
    bytes: u64,
    used: Moment,
    turns: u64,
}

impl ConversationRecord {
    fn get(
        table: &impl ReadableTable<u128, &'static [u8; 56]>,
        id: &TurnId,
        owner: &Owner,
    ) -> Result<Option<ConversationRecord>, StorageError> {
        let known = table.get(id.root)?.map(|bytes| ConversationRecord::of_bytes(bytes.value()));
        Ok(known.filter(|known| known.owner == owner.0))
    }

    fn to_bytes(self) -> [u8; 56] {
        let mut bytes = [0; 56];
        bytes[..32].copy_from_slice(&self.owner);
        for (at, number) in [self.bytes, self.used, self.turns].into_iter().enumerate() {
            bytes[32 + 8 * at..40 + 8 * at].copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    fn of_bytes(bytes: &[u8; 56]) -> ConversationRecord {
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|index| bytes[at + index]));
        let owner = std::array::from_fn(|at| bytes[at]);
        ConversationRecord { owner, bytes: number(32), used: number(40), turns: number(48) }
    }
}

fn joined(root: u128, digest: &[u8; 32]) -> [u8; 48] {
    let mut key = [0; 48];
    key[..16].copy_from_slice(&root.to_be_bytes());
    key[16..].copy_from_slice(digest);
    key
}
