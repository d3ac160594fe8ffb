//! Sessions in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::record::Replayed;
use crate::store::{Owner, TurnId};

/// The latest conversations, by their turns and by the names of these.
///
/// The turns of a conversation share their ids, so a conversation stays or goes as a whole.
#[derive(Debug, Default)]
pub struct Live {
    /// By their first turns.
    conversations: HashMap<TurnId, Conversation>,
    turns: HashMap<TurnId, Arc<Replayed>>,
    names: HashMap<Owner, HashMap<Arc<str>, TurnId>>,
    /// The conversations by when they were used.
    by_use: BTreeMap<u64, TurnId>,
    uses: u64,
    /// The size of all of them.
    size: usize,
}

#[derive(Debug)]
struct Conversation {
    owner: Owner,
    turns: Vec<TurnId>,
    names: Vec<Arc<str>>,
    size: usize,
    used: u64,
}

/// In how many parts the ids in memory are removed.
const PARTS: usize = 8;

/// What a turn takes apart from its ids, as a number of ids.
const OF_TURN: usize = 256;

impl Live {
    /// Finds the turn with a name.
    pub fn find(&mut self, owner: Owner, name: &str) -> Option<(TurnId, Arc<Replayed>)> {
        let turn = self.names.get(&owner)?.get(name)?.clone();
        let past = self.get(&turn)?;
        Some((turn, past))
    }

    /// Returns a turn.
    pub fn get(&mut self, turn: &TurnId) -> Option<Arc<Replayed>> {
        let past = Arc::clone(self.turns.get(turn)?);
        self.touch(&turn.root());
        Some(past)
    }

    /// Adds a turn that added `ids` ids. If all conversations have more than `most` ids then, it removes
    /// those that were not used for the longest time, and returns their turns. To drop them takes a while.
    pub fn add(
        &mut self,
        owner: Owner,
        turn: TurnId,
        past: Arc<Replayed>,
        ids: usize,
        names: &[String],
        most: usize,
    ) -> Vec<Arc<Replayed>> {
        let root = turn.root();
        let new = || Conversation { owner, turns: Vec::new(), names: Vec::new(), size: 0, used: 0 };
        let conversation = self.conversations.entry(root.clone()).or_insert_with(new);
        // Each turn has a list of all messages before it.
        let size = ids + OF_TURN + past.messages.len();
        if self.turns.insert(turn.clone(), past).is_none() {
            conversation.turns.push(turn.clone());
            conversation.size += size;
            self.size += size;
        }
        let known = self.names.entry(owner).or_default();
        for name in names {
            let name: Arc<str> = name.as_str().into();
            known.insert(Arc::clone(&name), turn.clone());
            conversation.names.push(name);
        }
        self.touch(&root);
        let mut removed = Vec::new();
        if self.size > most {
            // Many at a time: they lie side by side in memory, and what is freed becomes few large blocks. The
            // allocator is slow with many small ones.
            let enough = most - most / PARTS;
            while self.size > most || (self.size > enough && self.by_use.len() > 1) {
                let Some((_, oldest)) = self.by_use.pop_first() else { break };
                self.remove(&oldest, &mut removed);
            }
        }
        removed
    }

    /// Forgets a name.
    pub fn forget(&mut self, owner: Owner, name: &str) {
        if let Some(names) = self.names.get_mut(&owner) {
            names.remove(name);
        }
    }

    fn touch(&mut self, root: &TurnId) {
        let Some(conversation) = self.conversations.get_mut(root) else { return };
        self.by_use.remove(&conversation.used);
        self.uses += 1;
        conversation.used = self.uses;
        self.by_use.insert(self.uses, root.clone());
    }

    fn remove(&mut self, root: &TurnId, removed: &mut Vec<Arc<Replayed>>) {
        let Some(conversation) = self.conversations.remove(root) else { return };
        self.size = self.size.saturating_sub(conversation.size);
        removed.extend(conversation.turns.iter().filter_map(|turn| self.turns.remove(turn)));
        let Some(names) = self.names.get_mut(&conversation.owner) else { return };
        for name in conversation.names {
            // The name may belong to another conversation by now.
            if names.get(&name).is_some_and(|turn| turn.root() == *root) {
                names.remove(&name);
            }
        }
        if names.is_empty() {
            self.names.remove(&conversation.owner);
        }
    }
}

impl std::fmt::Debug for Replayed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What was said is nobody else's to read.
        formatter.debug_struct("Replayed").field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::record::Record;
    use crate::store::StoredTurn;

    fn past() -> Arc<Replayed> {
        let text = br#"{"version":1,"model":"m","setup":"s","instructions":0,"new":[],"on":"keep",
            "said":{"role":"assistant","content":"a"},"kept":0,"sum":"s"}"#;
        let last = Arc::new(Record::read(text).unwrap());
        Arc::new(Replayed { session: None, messages: Vec::new(), chain: None, last, sent: Default::default() })
    }

    #[test]
    fn nothing_is_left_of_conversations_that_were_removed() {
        let (owner, past, most) = (Owner::of_key("key"), past(), 100 * (OF_TURN + 10));
        let mut live = Live::default();
        let mut removed = 0;
        for at in 0..1_000 {
            let first = StoredTurn::first(Vec::new()).id;
            let second = StoredTurn::after(&first, Vec::new()).id;
            for (turn, name) in [(&first, format!("{at} first")), (&second, format!("{at} second"))] {
                removed += live.add(owner, turn.clone(), Arc::clone(&past), 10, &[name], most).len();
            }
            assert!(live.size <= most);
            assert!(live.find(owner, &format!("{at} first")).is_some_and(|(turn, _)| turn == first));
            assert!(live.get(&second).is_some());
            assert_eq!(live.find(Owner::of_key("other"), &format!("{at} first")).map(|(turn, _)| turn), None);
        }
        assert_eq!(live.turns.len() + removed, 2_000);
        assert_eq!(live.conversations.values().map(|known| known.turns.len()).sum::<usize>(), live.turns.len());
        assert_eq!(live.names[&owner].len(), live.turns.len());
        assert_eq!(live.by_use.len(), live.conversations.len());
        // What was used last stays, and an eighth left at a time.
        assert!(live.turns.len() >= 2 * 43, "{}", live.turns.len());
        // One that is nearly as large as all may be stays, and a larger one does not.
        let large = StoredTurn::first(Vec::new()).id;
        live.add(owner, large.clone(), Arc::clone(&past), most - OF_TURN, &["large".into()], most);
        assert_eq!((live.turns.len(), live.get(&large).is_some()), (1, true));
        live.add(owner, StoredTurn::first(Vec::new()).id, past, usize::MAX / 2, &["larger".into()], most);
        assert_eq!((live.turns.len(), live.names.len(), live.size), (0, 0, 0));
    }
}
