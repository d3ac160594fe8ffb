//! Sessions in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::record::ReplayedConversation;
use crate::store::spread::Spread;
use crate::store::{Owner, TurnId, before, moment};

/// The latest conversations, by their turns and by the names of these.
///
/// The turns of a conversation share their ids, so a conversation stays or goes as a whole.
#[derive(Debug)]
pub struct Live {
    /// How many ids all of them may have.
    most: usize,
    /// How long one stays after it was last used.
    most_age: Duration,
    /// By their first turns.
    conversations: Spread<TurnId, LiveConversation>,
    turns: Spread<TurnId, Arc<ReplayedConversation>>,
    /// By digests of names, each with when it was given.
    names: Spread<[u8; 32], (TurnId, u64)>,
    /// When names were taken away lately.
    forgotten: HashMap<[u8; 32], u64>,
    /// The conversations by when they were used.
    by_use: BTreeMap<u64, TurnId>,
    uses: u64,
    /// The size of all of them.
    size: usize,
}

#[derive(Debug)]
struct LiveConversation {
    turns: Vec<TurnId>,
    names: Vec<[u8; 32]>,
    size: usize,
    used: u64,
    /// When it was used.
    used_at: u64,
}

/// Conversations are best removed before there is no room at all: as soon as only this part of it is free,
const FEW: usize = 32;

/// and until this part is. They lie side by side in memory, and what is freed becomes few large blocks: the
/// allocator is slow with many small ones.
const ENOUGH: usize = 8;

/// Of how many names it is known that they were taken away. Turns are added soon after they get their names.
const MOST_FORGOTTEN: usize = 4096;

/// What a turn takes apart from its ids, as a number of ids.
const OF_TURN: usize = 256;

impl Live {
    pub fn new(most: usize, most_age: Duration) -> Live {
        Live {
            most,
            most_age,
            conversations: Spread::default(),
            turns: Spread::default(),
            names: Spread::default(),
            forgotten: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            size: 0,
        }
    }

    /// Finds the turn with a name.
    pub fn find(&mut self, owner: Owner, name: &str) -> Option<(TurnId, Arc<ReplayedConversation>)> {
        let (turn, _) = self.names.get(&owner.digest(name))?.clone();
        let past = self.get(&turn)?;
        Some((turn, past))
    }

    /// Returns a turn.
    pub fn get(&mut self, turn: &TurnId) -> Option<Arc<ReplayedConversation>> {
        let root = turn.root();
        if self.conversations.get(&root).is_some_and(|conversation| self.is_old(conversation)) {
            self.remove(&root, &mut Vec::new());
        }
        let past = Arc::clone(self.turns.get(turn)?);
        self.touch(&root);
        Some(past)
    }

    /// Adds a turn with its names, and when it was given these. What happened to a name after that stays as it
    /// is. If there is no room for it, it removes the conversations that were not used for the longest time, and
    /// returns their turns.
    pub fn add(
        &mut self,
        owner: Owner,
        turn: TurnId,
        past: Arc<ReplayedConversation>,
        (names, when): (&[String], u64),
    ) -> Vec<Arc<ReplayedConversation>> {
        let root = turn.root();
        let new = || LiveConversation { turns: Vec::new(), names: Vec::new(), size: 0, used: 0, used_at: 0 };
        let conversation = self.conversations.get_or_insert_with(root.clone(), new);
        // The turns before may have been removed while this one was in flight. It has all that they had.
        let ids = if conversation.turns.is_empty() { past.size.whole } else { past.size.last };
        // Each turn has a list of all messages up to it, with eight bytes for each.
        let size = ids + OF_TURN + 2 * past.messages.len();
        if self.turns.insert(turn.clone(), past).is_none() {
            conversation.turns.push(turn.clone());
            conversation.size += size;
            self.size += size;
        }
        for name in names.iter().map(|name| owner.digest(name)) {
            let is_later = |other: Option<&u64>| other.is_some_and(|other| *other > when);
            if is_later(self.names.get(&name).map(|(_, given)| given)) || is_later(self.forgotten.get(&name)) {
                continue;
            }
            self.names.insert(name, (turn.clone(), when));
            conversation.names.push(name);
        }
        self.touch(&root);
        let mut removed = Vec::new();
        while (self.size > self.most || self.has_old()) && self.remove_oldest(&mut removed) {}
        removed
    }

    /// Reports whether little room is left, and there are conversations whose room others could have.
    pub fn is_nearly_full(&self) -> bool {
        self.size > self.most - self.most / FEW && self.by_use.len() > 1
    }

    /// Removes up to `count` of the conversations that were not used for the longest time, and adds their
    /// turns to `removed`. To drop them takes a while. Reports whether there is enough room now.
    pub fn thin(&mut self, count: usize, removed: &mut Vec<Arc<ReplayedConversation>>) -> bool {
        let is_over = |live: &Live| live.size > live.most - live.most / ENOUGH && live.by_use.len() > 1;
        for _ in 0..count {
            if !is_over(self) {
                break;
            }
            self.remove_oldest(removed);
        }
        !is_over(self)
    }

    /// Forgets a name that was taken away at some time. A turn that was given it before, and is added only
    /// now, does not get it.
    pub fn forget(&mut self, owner: Owner, name: &str, when: u64) {
        let name = owner.digest(name);
        if self.names.get(&name).is_some_and(|(_, given)| *given <= when) {
            self.names.remove(&name);
        }
        if self.forgotten.len() >= MOST_FORGOTTEN {
            self.forgotten.clear();
        }
        self.forgotten.insert(name, when);
    }

    fn touch(&mut self, root: &TurnId) {
        let Some(conversation) = self.conversations.get_mut(root) else { return };
        self.by_use.remove(&conversation.used);
        self.uses += 1;
        conversation.used = self.uses;
        conversation.used_at = moment();
        self.by_use.insert(self.uses, root.clone());
    }

    fn is_old(&self, conversation: &LiveConversation) -> bool {
        conversation.used_at < before(self.most_age)
    }

    /// Reports whether a conversation has not been used for too long.
    fn has_old(&self) -> bool {
        let oldest = self.by_use.first_key_value().and_then(|(_, root)| self.conversations.get(root));
        oldest.is_some_and(|oldest| self.is_old(oldest))
    }

    /// Removes a conversation, and reports whether there was one.
    fn remove_oldest(&mut self, removed: &mut Vec<Arc<ReplayedConversation>>) -> bool {
        let Some((_, oldest)) = self.by_use.pop_first() else { return false };
        self.remove(&oldest, removed);
        true
    }

    fn remove(&mut self, root: &TurnId, removed: &mut Vec<Arc<ReplayedConversation>>) {
        let Some(conversation) = self.conversations.remove(root) else { return };
        self.by_use.remove(&conversation.used);
        self.size = self.size.saturating_sub(conversation.size);
        removed.extend(conversation.turns.iter().filter_map(|turn| self.turns.remove(turn)));
        for name in conversation.names {
            // The name may belong to another conversation by now.
            if self.names.get(&name).is_some_and(|(turn, _)| turn.root() == *root) {
                self.names.remove(&name);
            }
        }
    }
}

impl std::fmt::Debug for ReplayedConversation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What was said is nobody else's to read.
        formatter.debug_struct("Replayed").field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::store::StoredTurn;
    use crate::turn::sessions::record::Record;
    use crate::turn::sessions::size::Size;

    /// A turn that takes as much as ten ids.
    pub fn past() -> Arc<ReplayedConversation> {
        of_size(10)
    }

    fn of_size(ids: usize) -> Arc<ReplayedConversation> {
        let text = br#"{"version":1,"model":"m","setup":"s","instructions":0,"new":[],"on":"keep",
            "said":{"role":"assistant","content":"a"},"kept":0,"sum":"s"}"#;
        let last = Arc::new(Record::read(text).unwrap());
        Arc::new(ReplayedConversation {
            session: None,
            messages: Vec::new(),
            chain: None,
            last,
            sent: Default::default(),
            is_stored: true,
            beside: None,
            size: Size { whole: ids, last: ids },
        })
    }

    /// Room for 100 turns of 10 ids.
    pub const MOST: usize = 100 * (OF_TURN + 10);

    pub const AGE: Duration = Duration::from_secs(60);

    #[test]
    fn nothing_is_left_of_conversations_that_were_removed() {
        let (owner, past) = (Owner::of_key("key"), past());
        let mut live = Live::new(MOST, AGE);
        let mut removed = Vec::new();
        for at in 0..1_000 {
            let first = StoredTurn::first(Vec::new()).id;
            let second = StoredTurn::after(&first, Vec::new()).id;
            for (turn, name) in [(&first, format!("{at} first")), (&second, format!("{at} second"))] {
                removed.extend(live.add(owner, turn.clone(), Arc::clone(&past), (&[name], at)));
            }
            assert!(live.size <= MOST);
            assert!(live.find(owner, &format!("{at} first")).is_some_and(|(turn, _)| turn == first));
            assert!(live.get(&second).is_some());
            assert_eq!(live.find(Owner::of_key("other"), &format!("{at} first")).map(|(turn, _)| turn), None);
            if live.is_nearly_full() && at > 500 {
                assert!(!live.thin(2, &mut removed));
                assert!(live.thin(100, &mut removed));
                assert_eq!(live.conversations.len(), 43);
            }
        }
        assert_eq!(live.turns.len() + removed.len(), 2_000);
        assert_eq!(live.conversations.values().map(|known| known.turns.len()).sum::<usize>(), live.turns.len());
        assert_eq!(live.names.len(), live.turns.len());
        assert_eq!(live.by_use.len(), live.conversations.len());
        // What was used last stays.
        assert!(live.find(owner, "999 first").is_some() && live.find(owner, "957 first").is_some());
        // One that is nearly as large as all may be stays, and a larger one does not.
        let large = StoredTurn::first(Vec::new()).id;
        live.add(owner, large.clone(), of_size(MOST - OF_TURN), (&["large".into()], 0));
        assert!(live.thin(1, &mut removed) && !live.is_nearly_full());
        assert_eq!((live.turns.len(), live.get(&large).is_some()), (1, true));
        live.add(owner, StoredTurn::first(Vec::new()).id, of_size(usize::MAX / 2), (&["larger".into()], 0));
        assert_eq!((live.turns.len(), live.names.len(), live.size), (0, 0, 0));
    }

    #[test]
    fn a_turn_whose_conversation_was_removed_meanwhile_counts_as_all_of_it() {
        let (owner, mut live) = (Owner::of_key("key"), Live::new(MOST, AGE));
        let first = StoredTurn::first(Vec::new()).id;
        let turn = |whole, last| {
            let past = ReplayedConversation { size: Size { whole, last }, ..ReplayedConversation::clone(&past()) };
            (StoredTurn::after(&first, Vec::new()).id, Arc::new(past))
        };
        live.add(owner, first.clone(), of_size(5_000), (&[], 0));
        let (id, past) = turn(5_010, 10);
        live.add(owner, id, past, (&[], 0));
        assert_eq!(live.size, 5_010 + 2 * OF_TURN);
        live.add(owner, StoredTurn::first(Vec::new()).id, of_size(MOST - OF_TURN), (&[], 0));
        let (id, past) = turn(5_020, 10);
        live.add(owner, id, past, (&[], 0));
        assert_eq!((live.turns.len(), live.size), (1, 5_020 + OF_TURN));
    }

    #[test]
    fn what_was_not_used_for_too_long_is_not_found() {
        let (owner, mut live) = (Owner::of_key("key"), Live::new(MOST, Duration::from_millis(300)));
        let add = |live: &mut Live, name: &str| {
            let turn = StoredTurn::first(Vec::new()).id;
            live.add(owner, turn.clone(), past(), (&[name.into()], moment())).len()
        };
        add(&mut live, "used");
        add(&mut live, "left");
        std::thread::sleep(Duration::from_millis(200));
        assert!(live.find(owner, "used").is_some());
        std::thread::sleep(Duration::from_millis(200));
        assert!(live.find(owner, "left").is_none() && live.find(owner, "used").is_some());
        assert_eq!((live.turns.len(), live.by_use.len(), live.names.len()), (1, 1, 1));
        // It is removed even if nobody asks for it.
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(add(&mut live, "new"), 1);
        assert_eq!((live.turns.len(), live.by_use.len()), (1, 1));
    }

    #[test]
    fn what_happened_to_a_name_later_stays() {
        let (owner, past) = (Owner::of_key("key"), past());
        let mut live = Live::new(MOST, AGE);
        let add = |live: &mut Live, when: u64| {
            let turn = StoredTurn::first(Vec::new()).id;
            live.add(owner, turn.clone(), Arc::clone(&past), (&["name".into()], when));
            turn
        };
        let leads_to = |live: &mut Live| live.find(owner, "name").map(|(turn, _)| turn);
        let later = add(&mut live, 7);
        // It was stored first, and is added last.
        let earlier = add(&mut live, 5);
        assert_eq!(leads_to(&mut live), Some(later));
        assert!(live.get(&earlier).is_some());
        // What was given the name after it was taken away keeps it.
        live.forget(owner, "name", 6);
        assert!(leads_to(&mut live).is_some());
        live.forget(owner, "name", 9);
        add(&mut live, 8);
        assert_eq!(leads_to(&mut live), None);
        let last = add(&mut live, 9);
        assert_eq!(leads_to(&mut live), Some(last));
    }
}
