//! Sessions in memory.

use std::collections::{BTreeMap, HashMap};

use super::record::Replayed;
use crate::store::{Owner, TurnId};

/// The latest conversations, by their turns and by the names of these.
///
/// The turns of a conversation share their ids, so a conversation stays or goes as a whole.
#[derive(Debug, Default)]
pub struct Live {
    conversations: HashMap<TurnId, Conversation>,
    names: HashMap<Owner, HashMap<String, TurnId>>,
    /// The conversations by when they were used.
    by_use: BTreeMap<u64, TurnId>,
    uses: u64,
    /// The size of all of them.
    size: usize,
}

#[derive(Debug, Default)]
struct Conversation {
    turns: HashMap<TurnId, Replayed>,
    names: Vec<(Owner, String)>,
    size: usize,
    used: u64,
}

/// What a turn takes apart from its ids, as a number of ids.
const OF_TURN: usize = 256;

impl Live {
    /// Finds the turn with a name.
    pub fn find(&mut self, owner: Owner, name: &str) -> Option<(TurnId, Replayed)> {
        let turn = self.names.get(&owner)?.get(name)?.clone();
        let past = self.get(&turn)?;
        Some((turn, past))
    }

    /// Returns a turn.
    pub fn get(&mut self, turn: &TurnId) -> Option<Replayed> {
        let root = turn.root();
        let past = self.conversations.get(&root)?.turns.get(turn)?.clone();
        self.touch(&root);
        Some(past)
    }

    /// Adds a turn that added `ids` ids, and removes the conversations that were not used for the longest
    /// time, until all have at most `most` ids.
    pub fn add(&mut self, owner: Owner, turn: TurnId, past: Replayed, ids: usize, names: &[String], most: usize) {
        let root = turn.root();
        let conversation = self.conversations.entry(root.clone()).or_default();
        // Each turn has a list of all messages before it.
        let size = ids + OF_TURN + past.messages.len();
        if conversation.turns.insert(turn.clone(), past).is_none() {
            conversation.size += size;
            self.size += size;
        }
        let known = self.names.entry(owner).or_default();
        for name in names {
            known.insert(name.clone(), turn.clone());
            conversation.names.push((owner, name.clone()));
        }
        self.touch(&root);
        while self.size > most {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            self.remove(&oldest);
        }
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

    fn remove(&mut self, root: &TurnId) {
        let Some(conversation) = self.conversations.remove(root) else { return };
        self.size = self.size.saturating_sub(conversation.size);
        for (owner, name) in conversation.names {
            let Some(names) = self.names.get_mut(&owner) else { continue };
            // The name may belong to another conversation by now.
            if names.get(&name).is_some_and(|turn| turn.root() == *root) {
                names.remove(&name);
            }
            if names.is_empty() {
                self.names.remove(&owner);
            }
        }
    }
}

impl std::fmt::Debug for Replayed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What was said is nobody else's to read.
        formatter.debug_struct("Replayed").field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}
