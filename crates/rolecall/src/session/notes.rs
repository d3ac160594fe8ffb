//! What the caller was told about a session, as a list that forks share.

use std::sync::Arc;

use super::{Session, SessionNote};

/// Notes, each with the index of the id that it is about. A clone shares all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    last: Option<Arc<NoteChain>>,
}

#[derive(Debug)]
struct NoteChain {
    before: Notes,
    at: usize,
    note: SessionNote,
}

impl Notes {
    /// Adds a note about the id with this index.
    pub fn push(&mut self, at: usize, note: SessionNote) {
        let before = std::mem::take(self);
        self.last = Some(Arc::new(NoteChain { before, at, note }));
    }

    /// Returns the notes in the order in which they were added.
    pub fn all(&self) -> Vec<(usize, &SessionNote)> {
        let mut all = Vec::new();
        let mut next = self.last.as_ref();
        while let Some(noted) = next {
            all.push((noted.at, &noted.note));
            next = noted.before.last.as_ref();
        }
        all.reverse();
        all
    }

    /// Returns the notes about the first `ids` ids.
    pub fn up_to(&self, ids: usize) -> Notes {
        let all = self.all();
        if all.iter().all(|(at, _)| *at < ids) {
            return self.clone();
        }
        let mut kept = Notes::default();
        for (at, note) in all.into_iter().filter(|(at, _)| *at < ids) {
            kept.push(at, note.clone());
        }
        kept
    }
}

impl Drop for Notes {
    /// Drops a long list without recursion.
    fn drop(&mut self) {
        let mut next = self.last.take();
        while let Some(noted) = next {
            next = Arc::try_unwrap(noted).ok().and_then(|mut noted| noted.before.last.take());
        }
    }
}

impl Session {
    /// Records what an operation reported. `keep` is the number of ids before it.
    pub(super) fn record(&mut self, keep: usize, notes: &[SessionNote]) {
        let after = self.reply().map_or(0, |reply| reply.after.len());
        for note in notes {
            let behind = match note {
                SessionNote::LeftOut { .. } => continue,
                SessionNote::Kept(rewrite) => rewrite.ids,
                SessionNote::AfterStop { ids } => *ids,
                SessionNote::OtherStop { .. } | SessionNote::Contradicted { .. } | SessionNote::StopInReasoning => {
                    after + 1
                }
                _ => 0,
            };
            self.notes.push(keep.saturating_sub(behind), note.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Notes, SessionNote};

    #[test]
    fn a_note_about_the_next_id_is_not_about_the_ids_before_it() {
        let mut notes = Notes::default();
        for at in [1, 3] {
            notes.push(at, SessionNote::CutCall);
        }
        let about = |ids: usize| notes.up_to(ids).all().into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!([1, 2, 3, 4].map(about), [vec![], vec![1], vec![1], vec![1, 3]]);
    }
}
