use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rolecall::tokenizer::{TextPlace, Tokenizer};

use super::Spoken;

/// Finds the ids of a character that several tokens make up, of which llama.cpp tells only the last.
///
/// The server says how many ids there are, and the text of all of them. It keeps an id back as long as the
/// text ends within a character. This mostly leaves one way to cut the text into tokens. If it leaves
/// several, the tokenizer's own way is taken if it is one of them, because models write that way.
pub(super) struct Hidden {
    tokenizer: Arc<dyn Tokenizer>,
    /// The tokens that are no whole characters, by their bytes.
    parts: HashMap<Vec<u8>, Vec<u32>>,
    longest: usize,
}

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hidden").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

/// The most tokens that a search may try.
const MOST_STEPS: usize = 10_000;

impl Hidden {
    pub fn of(tokenizer: &Arc<dyn Tokenizer>) -> Hidden {
        let mut parts: HashMap<Vec<u8>, Vec<u32>> = HashMap::new();
        let mut bytes = Vec::new();
        for id in 0..u32::try_from(tokenizer.vocabulary_size()).unwrap_or(u32::MAX) {
            bytes.clear();
            if tokenizer.token_bytes(id, &mut bytes) && std::str::from_utf8(&bytes).is_err() {
                parts.entry(bytes.clone()).or_default().push(id);
            }
        }
        let longest = parts.keys().map(Vec::len).max().unwrap_or(0);
        Hidden { tokenizer: Arc::clone(tokenizer), parts, longest }
    }

    /// Returns the ids, or `None` if they cannot be known.
    pub fn ids(&self, spoken: &Spoken) -> Option<Vec<u32>> {
        let last = spoken.last?;
        let mut end = Vec::new();
        if !self.tokenizer.token_bytes(last, &mut end) {
            return None;
        }
        let head = spoken.text.as_bytes().strip_suffix(&*end)?;
        let mut search = Search { hidden: self, head, found: Vec::new(), path: Vec::new(), steps: 0 };
        search.go(0, spoken.count.checked_sub(1)?);
        if search.steps > MOST_STEPS {
            return None;
        }
        let with_last = |mut ids: Vec<u32>| {
            ids.push(last);
            ids
        };
        let mut found: Vec<Vec<u32>> = search.found.into_iter().map(with_last).collect();
        if found.len() > 1 {
            let mut own = Vec::new();
            self.tokenizer.encode_ids(&spoken.text, TextPlace::Inside, &mut own).ok()?;
            found.retain(|ids| *ids == own);
        }
        found.pop()
    }
}

struct Search<'a> {
    hidden: &'a Hidden,
    head: &'a [u8],
    found: Vec<Vec<u32>>,
    path: Vec<u32>,
    steps: usize,
}

impl Search<'_> {
    /// Cuts the rest into a number of tokens, in every way.
    fn go(&mut self, at: usize, count: usize) {
        if count == 0 {
            if at == self.head.len() {
                self.found.push(self.path.clone());
            }
            return;
        }
        let hidden = self.hidden;
        for end in at + 1..=self.head.len().min(at + hidden.longest) {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return;
            }
            // After a whole character, the server would have told the id.
            let is_open = std::str::from_utf8(&self.head[..end]).is_err_and(|error| error.error_len().is_none());
            let Some(ids) = hidden.parts.get(&self.head[at..end]).filter(|_| is_open) else { continue };
            for id in ids {
                self.path.push(*id);
                self.go(end, count - 1);
                self.path.pop();
            }
        }
    }
}
