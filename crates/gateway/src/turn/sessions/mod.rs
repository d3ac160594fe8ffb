//! Conversations that go on: how they are found again, and how they are kept.
//!
//! A finished turn has names: that of its stored answer, that of its session, and the digest of the
//! conversation up to it, by which a client that sends everything again is recognised. [`Sessions::find`]
//! looks for the best name, first in memory, then in the store, and [`Sessions::keep`] stores a turn with
//! its names. The submodules: `chain` has the digests, `likeness` what a repeated message is compared by,
//! `record` what is stored of a turn, `live` the sessions in memory, `size` what they take there, `sweeper`
//! what makes room for them.

pub mod chain;
pub mod likeness;
mod live;
pub mod record;
pub mod size;
mod sweeper;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rolecall::Model;
use rolecall::conversation::{Json, Message};
use rolecall::session::Session;

use crate::engine::PromptIds;
use crate::store::{Owner, Store, StoreFault, StoredTurn, TurnId, moment};
use crate::work::{apart, unbroken};
use crate::{Fault, FaultCode};
use chain::Chain;
use live::Live;
use record::{Record, ReplayedConversation, replay, response_of};
use size::Size;
use sweeper::Sweeper;

/// All conversations that are kept.
#[derive(Clone, Debug)]
pub struct Sessions {
    live: Arc<Mutex<Live>>,
    sweeper: Arc<Sweeper>,
    store: Store,
}

/// A turn that was found.
pub struct SessionTurn {
    pub turn: TurnId,
    /// Which of the names it has.
    pub name: usize,
    pub past: Arc<ReplayedConversation>,
}

/// What a look for names found.
enum SessionLookup {
    Nothing,
    At(SessionTurn),
    /// A name in memory that the store does not have any more.
    Gone(usize),
}

/// A finished turn.
pub struct FinishedTurn {
    pub parent: Option<TurnId>,
    pub record: Record,
    pub session: Session,
    /// The session before the turn.
    pub base: Session,
    /// The ids of its prompt.
    pub sent: PromptIds,
    /// The messages of the turns before.
    pub before: Vec<Arc<Message>>,
    /// The digest of all messages.
    pub chain: Chain,
    pub names: Vec<String>,
    /// Whether it must be stored, or only kept in memory.
    pub is_stored: bool,
    /// What the conversation takes with it.
    pub size: Size,
}

impl FinishedTurn {
    /// Returns the turn as the first one of a conversation that begins with all turns before it, because
    /// these are not stored.
    pub fn whole(mut self) -> Result<FinishedTurn, Fault> {
        self.record.saved = Some(self.base.save()?);
        self.record.before = self.before.iter().map(|message| Message::clone(message)).collect();
        Ok(FinishedTurn { parent: None, ..self })
    }
}

impl Sessions {
    pub fn new(store: Store, most_ids: usize, most_age: Duration) -> Sessions {
        let live = Arc::new(Mutex::new(Live::new(most_ids, most_age)));
        Sessions { sweeper: Arc::new(Sweeper::new(&live)), live, store }
    }

    /// Finds the turn with the first of some names that is known.
    pub async fn find(&self, owner: Owner, names: &[String], model: &Model) -> Result<Option<SessionTurn>, Fault> {
        let mut gone = 0;
        while let Some(rest) = names.get(gone..).filter(|rest| !rest.is_empty()) {
            match self.find_first(owner, rest, model).await? {
                SessionLookup::Nothing => return Ok(None),
                SessionLookup::At(found) => return Ok(Some(SessionTurn { name: gone + found.name, ..found })),
                SessionLookup::Gone(name) => {
                    self.live().forget(owner, &rest[name], moment());
                    gone += name + 1;
                }
            }
        }
        Ok(None)
    }

    async fn find_first(&self, owner: Owner, names: &[String], model: &Model) -> Result<SessionLookup, Fault> {
        let found = self.recall(owner, names);
        // A turn of this name may have been stored by another gateway since, or before this one started.
        let until = match &found {
            Some(found) if self.store.is_shared() => found.name + 1,
            Some(found) => found.name,
            None => names.len(),
        };
        let remembered = |found: Option<SessionTurn>| found.map_or(SessionLookup::Nothing, SessionLookup::At);
        let Some(names) = names.get(..until).filter(|names| !names.is_empty()) else { return Ok(remembered(found)) };
        let Some((name, turn)) = self.store.find(&owner, names).await? else {
            return Ok(match found {
                // Another gateway took the name away, or the server removed the conversation.
                Some(found) if self.store.is_shared() && found.past.is_stored => SessionLookup::Gone(found.name),
                found => remembered(found),
            });
        };
        // What is only in memory is later than what the store had of the name then.
        let is_latest =
            |found: &SessionTurn| found.turn == turn || found.name == name && found.past.beside.as_ref() == Some(&turn);
        if found.as_ref().is_some_and(is_latest) {
            return Ok(remembered(found));
        }
        let known = self.live().get(&turn);
        let past = match known {
            Some(past) => past,
            None => {
                let Some(chain) = self.store.chain(&owner, &turn).await? else { return Ok(remembered(found)) };
                let model = model.clone();
                let size = chain.iter().map(|turn| turn.body.len()).sum();
                let replayed = apart(size, move || Ok(replay(&model, chain.iter().map(|turn| &turn.body[..])))).await?;
                let damaged = || Fault::new(FaultCode::DamagedSession, "the stored conversation is damaged");
                let past = Arc::new(replayed.ok_or_else(damaged)?);
                // With another model there is no session, but there is one with the conversation's own.
                if past.session.is_some() {
                    // Its names stay with the store: by now they may lead elsewhere, or have been taken away.
                    self.hold(owner, turn.clone(), Arc::clone(&past), (&[], 0));
                }
                past
            }
        };
        Ok(SessionLookup::At(SessionTurn { turn, name, past }))
    }

    /// Finds the turn with the first of some names that is in memory. Names that other gateways may have
    /// given to other turns since need [`Self::find`].
    pub fn recall(&self, owner: Owner, names: &[String]) -> Option<SessionTurn> {
        let mut live = self.live();
        let found = names.iter().enumerate().find_map(|(name, text)| Some((name, live.find(owner, text)?)));
        found.map(|(name, (turn, past))| SessionTurn { turn, name, past })
    }

    /// Keeps a finished turn in memory, and stores it before, unless it is not to be stored. It is durable when
    /// this returns. A fault of the store is an error if it must be stored.
    pub async fn keep(&self, owner: Owner, finished: FinishedTurn, must_store: bool) -> Result<(), Fault> {
        let sessions = self.clone();
        let work = async move {
            let mut finished = finished;
            let mut beside = None;
            if !finished.is_stored && sessions.store.is_shared() {
                match sessions.store.find(&owner, &finished.names).await {
                    Err(fault) if must_store => return Err(fault.into()),
                    found => beside = found.ok().flatten().map(|(_, turn)| turn),
                }
            }
            let (mut turn, mut stored) = sessions.store(owner, &finished).await;
            // The turns before it were removed to make space, or were never stored.
            if let Err(StoreFault::Gone) = stored {
                finished = finished.whole()?;
                (turn, stored) = sessions.store(owner, &finished).await;
            }
            match stored {
                Err(fault) if must_store => Err(fault.into()),
                stored => {
                    sessions.remember(owner, turn, finished, (stored.unwrap_or_default(), beside));
                    Ok(())
                }
            }
        };
        unbroken(work).await
    }

    /// Stores a turn, and returns when that was.
    async fn store(&self, owner: Owner, finished: &FinishedTurn) -> (TurnId, Result<Option<u64>, StoreFault>) {
        let FinishedTurn { parent, record, names, is_stored, .. } = finished;
        let body = if *is_stored { record.write() } else { Vec::new() };
        let turn = match parent {
            Some(parent) => StoredTurn::after(parent, body),
            None => StoredTurn::first(body),
        };
        let stored = match is_stored {
            true => self.store.put(&owner, &turn, names).await.map(Some),
            false => Ok(None),
        };
        (turn.id, stored)
    }

    fn remember(
        &self,
        owner: Owner,
        turn: TurnId,
        finished: FinishedTurn,
        (stored, beside): (Option<u64>, Option<TurnId>),
    ) {
        let FinishedTurn { record, session, before, chain, names, size, sent, .. } = finished;
        let said = record.new.iter().chain([&record.said]).cloned().map(Arc::new);
        let messages = before.into_iter().chain(said).collect();
        // The answer stays in the store.
        let last = Arc::new(Record { response: None, before: Vec::new(), new: Vec::new(), saved: None, ..record });
        let is_stored = stored.is_some();
        let past = ReplayedConversation {
            session: Some(session),
            messages,
            chain: Some(chain),
            last,
            sent,
            is_stored,
            beside,
            size,
        };
        self.hold(owner, turn, Arc::new(past), (&names, stored.unwrap_or_else(moment)));
    }

    fn hold(&self, owner: Owner, turn: TurnId, past: Arc<ReplayedConversation>, named: (&[String], u64)) {
        let (removed, is_nearly_full) = {
            let mut live = self.live();
            (live.add(owner, turn, past, named), live.is_nearly_full())
        };
        if is_nearly_full {
            self.sweeper.wake();
        }
        // They are freed here, where the lock is not held.
        drop(removed);
    }

    /// Returns the whole answer with a name.
    pub async fn response(&self, owner: Owner, name: &str) -> Result<Option<Json>, Fault> {
        let Some((_, turn)) = self.store.find(&owner, &[name.to_owned()]).await? else { return Ok(None) };
        let chain = self.store.chain(&owner, &turn).await?;
        Ok(chain.and_then(|chain| response_of(&chain.last()?.body)))
    }

    /// Forgets a name, and reports whether it was known.
    pub async fn forget(&self, owner: Owner, name: &str) -> Result<bool, Fault> {
        let (sessions, name) = (self.clone(), name.to_owned());
        let work = async move {
            let when = sessions.store.forget(&owner, &name).await?;
            sessions.live().forget(owner, &name, when.unwrap_or_else(moment));
            Ok(when.is_some())
        };
        unbroken(work).await
    }

    fn live(&self) -> std::sync::MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
