use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::store::Owner;

/// The turns of named conversations that are being answered, so that a client can cancel them.
#[derive(Clone, Debug, Default)]
pub struct Running(Arc<Mutex<HashMap<Name, Vec<watch::Sender<bool>>>>>);

/// A conversation, by its owner and its name.
type Name = (Owner, String);

/// A turn that is being answered. It runs until this is dropped.
#[derive(Debug, Default)]
pub struct RunningTurn(Option<RunEntry>);

#[derive(Debug)]
struct RunEntry {
    running: Running,
    name: Name,
    /// Whether it is cancelled. `None` only while this is dropped.
    cancelled: Option<watch::Receiver<bool>>,
}

impl Running {
    /// Begins a turn. One of a conversation without a name cannot be cancelled.
    pub fn begin(&self, owner: Owner, name: Option<&str>) -> RunningTurn {
        let Some(name) = name else { return RunningTurn::default() };
        let name = (owner, name.to_owned());
        let (cancel, cancelled) = watch::channel(false);
        self.turns().entry(name.clone()).or_default().push(cancel);
        RunningTurn(Some(RunEntry { running: self.clone(), name, cancelled: Some(cancelled) }))
    }

    /// Cancels the turns of a conversation, and waits until the last of them has ended.
    pub async fn cancel(&self, owner: Owner, name: String) {
        let turns = self.turns().get(&(owner, name)).cloned().unwrap_or_default();
        for turn in &turns {
            turn.send_replace(true);
        }
        for turn in &turns {
            turn.closed().await;
        }
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<Name, Vec<watch::Sender<bool>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningTurn {
    /// Waits until the turn is cancelled.
    pub async fn cancelled(&mut self) {
        if let Some(cancelled) = self.0.as_mut().and_then(|named| named.cancelled.as_mut())
            && cancelled.wait_for(|cancelled| *cancelled).await.is_ok()
        {
            return;
        }
        pending().await
    }
}

impl Drop for RunEntry {
    fn drop(&mut self) {
        self.cancelled = None;
        if let Entry::Occupied(mut turns) = self.running.turns().entry(self.name.clone()) {
            turns.get_mut().retain(|turn| !turn.is_closed());
            if turns.get().is_empty() {
                turns.remove();
            }
        }
    }
}
