use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;

use super::{AddedToken, Engine, Error, Kind, Place, Token, Tokenizer};

/// A tokenizer that remembers the ids of the runs that it has encoded, within so many bytes.
///
/// Runs between control tokens never merge with their neighbours, so that a run that comes again has the same ids: system
/// prompts, tools, the history of a conversation. A run is known by its whole text and its [`Place`], never by a hash alone.
/// Threads may share it.
///
/// ```
/// use std::sync::Arc;
/// use rolecall_encode::tokenizer::{Cached, HuggingFace, Place, Tokenizer};
/// let json = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}"#;
/// let cached = Cached::new(Arc::new(HuggingFace::from_bytes(json, None)?), 1 << 20);
/// for _ in 0..3 {
///     let mut tokens = Vec::new();
///     cached.encode_ordinary("ab", Place::Inside, &mut tokens)?;
///     assert_eq!(tokens.len(), 2);
/// }
/// assert_eq!((cached.counts().hits, cached.counts().misses), (2, 1));
/// # Ok::<(), rolecall_encode::tokenizer::Error>(())
/// ```
pub struct Cached {
    tokenizer: Arc<dyn Tokenizer>,
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    shard_bytes: usize,
    hits: AtomicU64,
    misses: AtomicU64,
    dropped: AtomicU64,
}

/// What a cache has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Runs whose ids were there.
    pub hits: u64,
    /// Runs that had to be encoded.
    pub misses: u64,
    /// Runs that were dropped again to stay within the limit.
    pub dropped: u64,
    /// Bytes that are taken up now.
    pub bytes: usize,
}

/// Runs that were asked for lately, and those of the time before: when the first are half of what is allowed, the second
/// are dropped and the first take their place. What is asked for again moves to the first.
#[derive(Default)]
struct Shard {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    /// By place, and then by text.
    runs: [HashMap<Box<str>, Arc<[Token]>, RandomState>; 2],
    bytes: usize,
}

const SHARDS: usize = 16;

/// What an entry takes beside its text and tokens, about.
const ENTRY: usize = 96;

impl Cached {
    /// The tokenizer with a memory of at most so many bytes.
    pub fn new(tokenizer: Arc<dyn Tokenizer>, bytes: usize) -> Cached {
        Cached {
            tokenizer,
            shards: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
            hasher: RandomState::default(),
            shard_bytes: bytes / SHARDS,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// What it has done so far.
    pub fn counts(&self) -> CacheCounts {
        let bytes = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.young.bytes + shard.old.bytes
        };
        CacheCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            bytes: self.shards.iter().map(bytes).sum(),
        }
    }
}

impl Shard {
    fn find(&mut self, text: &str, place: Place) -> Option<Arc<[Token]>> {
        let at = usize::from(place == Place::Start);
        if let Some(tokens) = self.young.runs[at].get(text) {
            return Some(Arc::clone(tokens));
        }
        let (text, tokens) = self.old.runs[at].remove_entry(text)?;
        let size = size(&text, &tokens);
        self.old.bytes -= size;
        self.young.bytes += size;
        self.young.runs[at].insert(text, Arc::clone(&tokens));
        Some(tokens)
    }

    /// Remembers a run; gives the number of those that are dropped for it.
    fn insert(&mut self, text: &str, place: Place, tokens: &[Token], most: usize) -> u64 {
        let size = size(text, tokens);
        if size > most / 2 {
            return 0;
        }
        let mut dropped = 0;
        if self.young.bytes + size > most / 2 {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            dropped = old.runs.iter().map(|runs| runs.len() as u64).sum();
        }
        let at = usize::from(place == Place::Start);
        // Another thread may have been faster.
        if self.young.runs[at].insert(text.into(), tokens.into()).is_none() {
            self.young.bytes += size;
        }
        dropped
    }
}

fn size(text: &str, tokens: &[Token]) -> usize {
    text.len() + size_of_val(tokens) + ENTRY
}

/// A few bytes of a text, by which its shard is chosen.
fn ends(text: &str) -> (usize, &[u8], &[u8]) {
    let bytes = text.as_bytes();
    let some = bytes.len().min(32);
    (bytes.len(), &bytes[..some], &bytes[bytes.len() - some..])
}

impl std::fmt::Debug for Cached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        super::describe(self, "Cached", f)
    }
}

impl Tokenizer for Cached {
    fn encode_ordinary(&self, text: &str, place: Place, out: &mut Vec<Token>) -> Result<(), Error> {
        let at = self.hasher.hash_one(ends(text)) as usize % SHARDS;
        let shard = || self.shards[at].lock().unwrap_or_else(PoisonError::into_inner);
        let known = shard().find(text, place);
        if let Some(tokens) = known {
            self.hits.fetch_add(1, Ordering::Relaxed);
            out.extend_from_slice(&tokens);
            return Ok(());
        }
        let first = out.len();
        self.tokenizer.encode_ordinary(text, place, out)?;
        self.misses.fetch_add(1, Ordering::Relaxed);
        let dropped = shard().insert(text, place, &out[first..], self.shard_bytes);
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
        Ok(())
    }

    fn encode_reference(&self, text: &str, place: Place, out: &mut Vec<Token>) -> Result<(), Error> {
        self.tokenizer.encode_reference(text, place, out)
    }

    fn normalizes(&self) -> bool {
        self.tokenizer.normalizes()
    }

    fn find_added(&self, text: &str, out: &mut Vec<Token>) -> Result<(), Error> {
        self.tokenizer.find_added(text, out)
    }

    fn added_tokens(&self) -> &[AddedToken] {
        self.tokenizer.added_tokens()
    }

    fn text_tokens(&self) -> Vec<AddedToken> {
        self.tokenizer.text_tokens()
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_id(text)
    }

    fn token_text(&self, id: u32) -> Option<String> {
        self.tokenizer.token_text(id)
    }

    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool {
        self.tokenizer.token_bytes(id, out)
    }

    fn prefix_space(&self, place: Place) -> bool {
        self.tokenizer.prefix_space(place)
    }

    fn vocabulary_size(&self) -> usize {
        self.tokenizer.vocabulary_size()
    }

    fn kind(&self) -> Kind {
        self.tokenizer.kind()
    }

    fn bos(&self) -> Option<u32> {
        self.tokenizer.bos()
    }

    fn engine(&self) -> Engine {
        self.tokenizer.engine()
    }

    fn adds_bos(&self) -> Option<u32> {
        self.tokenizer.adds_bos()
    }

    fn adds_eos(&self) -> Option<u32> {
        self.tokenizer.adds_eos()
    }
}
