use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use super::costs::{CONVERSATION_BYTES, NAME_BYTES, turn_bytes};
use super::moment::{Moment, before, moment};
use super::turn::RECORD_HEAD;
use super::{Bounds, Owner, StoreFault, StoredTurn, TurnId};
use crate::store::spread::Spread;

/// A store in memory, which ends with the process.
#[derive(Clone)]
pub struct Memory {
    /// `None` after it was closed.
    kept: Arc<Mutex<Option<MemoryState>>>,
    bounds: Bounds,
}

#[derive(Default)]
struct MemoryState {
    /// By root.
    conversations: Spread<u128, MemoryConversation>,
    /// By digests of names.
    names: Spread<[u8; 32], TurnId>,
    /// The conversations in the order in which they were last used.
    by_use: BTreeSet<(Moment, u128)>,
    /// What all of them cost.
    bytes: u64,
}

struct MemoryConversation {
    owner: Owner,
    used: Moment,
    bytes: u64,
    turns: HashMap<u128, StoredTurn>,
    names: HashSet<[u8; 32]>,
}

/// How often conversations that are too old are removed, if nothing else is done.
const IDLE: Duration = Duration::from_secs(60);

impl Memory {
    /// Makes a store, from which a task removes what is too old until the store is dropped.
    pub fn new(bounds: Bounds) -> Memory {
        let kept = Arc::new(Mutex::new(Some(MemoryState::default())));
        let watched = Arc::downgrade(&kept);
        tokio::spawn(async move {
            loop {
                sleep(bounds.most_age.clamp(Duration::from_secs(1), IDLE)).await;
                let Some(kept) = watched.upgrade() else { return };
                // An error says that it was closed.
                if (Memory { kept, bounds }).with(|_| ()).is_err() {
                    return;
                }
            }
        });
        Memory { kept, bounds }
    }

    pub fn put(&self, owner: &Owner, turn: &StoredTurn, names: &[String]) -> Result<Moment, StoreFault> {
        self.with(|kept| kept.put(owner, turn, names, &self.bounds))?
    }

    pub fn find(&self, owner: &Owner, names: &[String]) -> Result<Option<(usize, TurnId)>, StoreFault> {
        self.with(|kept| {
            let turn = |name: &String| kept.names.get(&owner.digest(name));
            let found = names.iter().enumerate().find_map(|(at, name)| Some((at, turn(name)?)));
            let (at, id) = found.map(|(at, id)| (at, id.clone()))?;
            kept.touch(id.root);
            Some((at, id))
        })
    }

    pub fn chain(&self, owner: &Owner, turn: &TurnId) -> Result<Option<Vec<StoredTurn>>, StoreFault> {
        self.with(|kept| {
            let conversation = kept.conversations.get(&turn.root).filter(|known| known.owner == *owner)?;
            let mut chain = vec![conversation.turns.get(&turn.own)?.clone()];
            while let Some(parent) = chain.last().and_then(|last| last.parent.as_ref()) {
                chain.push(conversation.turns.get(&parent.own)?.clone());
            }
            chain.reverse();
            kept.touch(turn.root);
            Some(chain)
        })
    }

    pub fn forget(&self, owner: &Owner, name: &str) -> Result<Option<Moment>, StoreFault> {
        self.with(|kept| {
            let name = owner.digest(name);
            let id = kept.names.remove(&name)?;
            let now = kept.next_moment();
            kept.lose_name(id.root, &name);
            kept.sweep(id.root);
            Some(now)
        })
    }

    pub fn close(&self) {
        *self.lock() = None;
    }

    /// Works on what is kept, without what is too old.
    fn with<T>(&self, work: impl FnOnce(&mut MemoryState) -> T) -> Result<T, StoreFault> {
        let mut kept = self.lock();
        let kept = kept.as_mut().ok_or_else(|| StoreFault::Down("it was closed".into()))?;
        kept.expire(before(self.bounds.most_age));
        Ok(work(kept))
    }

    fn lock(&self) -> MutexGuard<'_, Option<MemoryState>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryState {
    fn put(
        &mut self,
        owner: &Owner,
        turn: &StoredTurn,
        names: &[String],
        bounds: &Bounds,
    ) -> Result<Moment, StoreFault> {
        turn.check()?;
        let root = turn.id.root;
        let known = self.conversations.get(&root);
        let has_turn = |id: &TurnId| known.is_some_and(|known| known.turns.contains_key(&id.own));
        let is_owned = known.is_none_or(|known| known.owner == *owner);
        if !is_owned || !turn.parent.as_ref().is_none_or(has_turn) {
            return Err(StoreFault::Gone);
        }
        let is_new = !has_turn(&turn.id);
        let names: HashSet<[u8; 32]> = names.iter().map(|name| owner.digest(name)).collect();
        let has_name = |name: &[u8; 32]| known.is_some_and(|known| known.names.contains(name));
        let new_names = names.iter().filter(|name| !has_name(name)).count() as u64;
        let more = if is_new { turn_bytes(RECORD_HEAD + turn.body.len()) } else { 0 } + new_names * NAME_BYTES;
        let bytes = known.map_or(CONVERSATION_BYTES, |known| known.bytes) + more;
        if bytes > bounds.most_bytes {
            return Err(StoreFault::TooLarge { bytes, most: bounds.most_bytes });
        }
        self.bytes += bytes - known.map_or(0, |known| known.bytes);
        for name in &names {
            let old = self.names.insert(*name, turn.id.clone());
            if let Some(old) = old.filter(|old| old.root != root) {
                self.lose_name(old.root, name);
            }
        }
        let conversation = self.conversations.get_or_insert_with(root, || MemoryConversation::of(*owner));
        conversation.bytes = bytes;
        conversation.names.extend(names);
        if is_new {
            conversation.turns.insert(turn.id.own, turn.clone());
        }
        let used = self.touch(root);
        self.shrink(root, bounds);
        Ok(used)
    }

    /// Notes that a conversation is used, and returns when.
    fn touch(&mut self, root: u128) -> Moment {
        let used = self.next_moment();
        if let Some(known) = self.conversations.get_mut(&root) {
            self.by_use.remove(&(known.used, root));
            known.used = used;
            self.by_use.insert((used, root));
        }
        used
    }

    /// Removes the conversations that were not used since a moment.
    fn expire(&mut self, oldest: Moment) {
        while let Some((used, root)) = self.by_use.first().copied()
            && used < oldest
        {
            self.remove(root);
        }
    }

    /// Removes the conversations that were used least recently until all cost as few bytes as allowed.
    fn shrink(&mut self, but: u128, bounds: &Bounds) {
        while self.bytes > bounds.most_bytes
            && let Some((_, root)) = self.by_use.iter().find(|(_, root)| *root != but).copied()
        {
            self.remove(root);
        }
    }

    fn remove(&mut self, root: u128) {
        let Some(known) = self.conversations.remove(&root) else { return };
        self.by_use.remove(&(known.used, root));
        self.bytes = self.bytes.saturating_sub(known.bytes);
        for name in &known.names {
            self.names.remove(name);
        }
    }

    /// Removes the turns of a conversation that no name leads to.
    fn sweep(&mut self, root: u128) {
        let Some(known) = self.conversations.get_mut(&root) else { return };
        if known.names.is_empty() {
            return self.remove(root);
        }
        let mut reached: HashSet<u128> = HashSet::new();
        for name in &known.names {
            let mut next = self.names.get(name).map(|id| id.own);
            while let Some(own) = next
                && reached.insert(own)
            {
                next = known.turns.get(&own).and_then(|turn| turn.parent.as_ref()).map(|parent| parent.own);
            }
        }
        let mut less = 0;
        known.turns.retain(|own, turn| {
            let is_reached = reached.contains(own);
            less += if is_reached { 0 } else { turn_bytes(RECORD_HEAD + turn.body.len()) };
            is_reached
        });
        known.bytes = known.bytes.saturating_sub(less);
        self.bytes = self.bytes.saturating_sub(less);
    }

    /// Takes a name from a conversation.
    fn lose_name(&mut self, root: u128, name: &[u8; 32]) {
        if let Some(known) = self.conversations.get_mut(&root)
            && known.names.remove(name)
        {
            known.bytes = known.bytes.saturating_sub(NAME_BYTES);
            self.bytes = self.bytes.saturating_sub(NAME_BYTES);
        }
    }

    /// Returns now, or later if the clock went back: the order of uses must hold.
    fn next_moment(&self) -> Moment {
        moment().max(self.by_use.last().map_or(0, |(used, _)| used.saturating_add(1)))
    }
}

impl MemoryConversation {
    /// Returns one without turns.
    fn of(owner: Owner) -> MemoryConversation {
        MemoryConversation { owner, used: 0, bytes: 0, turns: HashMap::new(), names: HashSet::new() }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Memory({:?})", self.bounds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Memory, sleep};
    use crate::store::{Bounds, Owner, StoreFault, StoredTurn};

    #[tokio::test]
    async fn what_is_too_old_goes_even_if_nothing_else_is_done() {
        let store = Memory::new(Bounds { most_age: Duration::from_millis(500), ..Bounds::default() });
        store.put(&Owner::of_key(""), &StoredTurn::first(vec![1; 100]), &["name".into()]).unwrap();
        let counts = || store.lock().as_ref().map(|kept| (kept.conversations.len(), kept.names.len(), kept.bytes > 0));
        assert_eq!(counts(), Some((1, 1, true)));
        sleep(Duration::from_millis(1600)).await;
        assert_eq!(counts(), Some((0, 0, false)));
        store.close();
        assert!(matches!(store.find(&Owner::of_key(""), &["name".into()]), Err(StoreFault::Down(_))));
    }

    #[tokio::test]
    async fn what_was_used_at_the_oldest_moment_stays() {
        let store = Memory::new(Bounds::default());
        store.put(&Owner::of_key(""), &StoredTurn::first(vec![1; 100]), &["name".into()]).unwrap();
        let mut state = store.lock();
        let kept = state.as_mut().unwrap();
        let used = kept.by_use.first().map(|(used, _)| *used).unwrap();
        kept.expire(used);
        assert_eq!(kept.conversations.len(), 1);
        kept.expire(used + 1);
        assert_eq!(kept.conversations.len(), 0);
    }
}
