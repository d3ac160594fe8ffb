use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;

use super::{AddedToken, Engine, Error, NamedToken, TextPlace, Token, Tokenizer, TokenizerKind};

/// A tokenizer that caches the ids of the runs that it has encoded, up to a limit in bytes.
///
/// Runs between control tokens never merge with their neighbors, so a repeated run has the same
/// ids. This applies to system prompts, tools and the history of a conversation. A run is
/// identified by its full text and its [`TextPlace`], never by a hash alone. Threads may share the
/// cache.
///
/// ```
/// use std::sync::Arc;
/// use rolecall_tokenizer::{CachedTokenizer, HuggingFace, TextPlace, Tokenizer};
/// let json = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}"#;
/// let cached = CachedTokenizer::new(Arc::new(HuggingFace::from_bytes(json, None)?), 1 << 20);
/// for _ in 0..3 {
///     let mut tokens = Vec::new();
///     cached.encode_ordinary("ab", TextPlace::Inside, &mut tokens)?;
///     assert_eq!(tokens.len(), 2);
/// }
/// assert_eq!((cached.counts().hits, cached.counts().misses), (2, 1));
/// # Ok::<(), rolecall_tokenizer::Error>(())
/// ```
pub struct CachedTokenizer {
    tokenizer: Arc<dyn Tokenizer>,
    memory: Arc<Memory>,
    /// The number of this tokenizer among those that share the memory. Each keeps other tokens out
    /// of text.
    number: u64,
}

struct Memory {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    shard_bytes: usize,
    next: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    dropped: AtomicU64,
}

/// The statistics of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Runs that were found in the cache.
    pub hits: u64,
    /// Runs that had to be encoded.
    pub misses: u64,
    /// Runs that were dropped to stay within the limit.
    pub dropped: u64,
    /// Bytes currently in use.
    pub bytes: usize,
}

/// Recently used runs, and the runs used before them. When `young` reaches half of the limit, `old`
/// is dropped and `young` becomes `old`. A run that is used again moves to `young`.
#[derive(Default)]
struct Shard {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    /// Runs by tokenizer and place, and then by text.
    runs: HashMap<(u64, TextPlace), Runs, RandomState>,
    bytes: usize,
}

type Runs = HashMap<Box<str>, Arc<[Token]>, RandomState>;

const SHARDS: usize = 16;

/// The approximate size of an entry without its text and tokens.
const ENTRY: usize = 96;

impl CachedTokenizer {
    /// Creates a tokenizer with a cache of at most `bytes` bytes.
    pub fn new(tokenizer: Arc<dyn Tokenizer>, bytes: usize) -> CachedTokenizer {
        let memory = Memory {
            shards: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
            hasher: RandomState::default(),
            shard_bytes: bytes / SHARDS,
            next: AtomicU64::new(1),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        };
        CachedTokenizer { tokenizer, memory: Arc::new(memory), number: 0 }
    }

    /// Returns the statistics of the cache.
    pub fn counts(&self) -> CacheCounts {
        let bytes = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.young.bytes + shard.old.bytes
        };
        CacheCounts {
            hits: self.memory.hits.load(Ordering::Relaxed),
            misses: self.memory.misses.load(Ordering::Relaxed),
            dropped: self.memory.dropped.load(Ordering::Relaxed),
            bytes: self.memory.shards.iter().map(bytes).sum(),
        }
    }
}

impl CachedTokenizer {
    fn shard(&self, text: &str) -> MutexGuard<'_, Shard> {
        let at = self.memory.hasher.hash_one(ends(text)) as usize % SHARDS;
        self.memory.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, text: &str, place: TextPlace) -> Option<Arc<[Token]>> {
        let known = self.shard(text).find(text, (self.number, place));
        if known.is_some() {
            self.memory.hits.fetch_add(1, Ordering::Relaxed);
        }
        known
    }

    fn remember(&self, text: &str, place: TextPlace, tokens: &[Token]) {
        self.memory.misses.fetch_add(1, Ordering::Relaxed);
        let dropped = self.shard(text).insert(text, (self.number, place), tokens, self.memory.shard_bytes);
        self.memory.dropped.fetch_add(dropped, Ordering::Relaxed);
    }
}

impl Shard {
    fn find(&mut self, text: &str, at: (u64, TextPlace)) -> Option<Arc<[Token]>> {
        if let Some(tokens) = self.young.runs.get(&at).and_then(|runs| runs.get(text)) {
            return Some(Arc::clone(tokens));
        }
        let (text, tokens) = self.old.runs.get_mut(&at)?.remove_entry(text)?;
        let size = size(&text, &tokens);
        self.old.bytes -= size;
        self.young.bytes += size;
        self.young.runs.entry(at).or_default().insert(text, Arc::clone(&tokens));
        Some(tokens)
    }

    /// Stores a run and returns the number of runs that were dropped for it.
    fn insert(&mut self, text: &str, at: (u64, TextPlace), tokens: &[Token], most: usize) -> u64 {
        let size = size(text, tokens);
        if size > most / 2 {
            return 0;
        }
        let mut dropped = 0;
        if self.young.bytes + size > most / 2 {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            dropped = old.runs.values().map(|runs| runs.len() as u64).sum();
        }
        // Another thread may have stored the run in the meantime.
        if self.young.runs.entry(at).or_default().insert(text.into(), tokens.into()).is_none() {
            self.young.bytes += size;
        }
        dropped
    }
}

fn size(text: &str, tokens: &[Token]) -> usize {
    text.len() + size_of_val(tokens) + ENTRY
}

/// Returns the length and a few bytes of a text, which select its shard.
fn ends(text: &str) -> (usize, &[u8], &[u8]) {
    let bytes = text.as_bytes();
    let some = bytes.len().min(32);
    (bytes.len(), &bytes[..some], &bytes[bytes.len() - some..])
}

impl std::fmt::Debug for CachedTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        super::describe(self, "Cached", f)
    }
}

impl Tokenizer for CachedTokenizer {
    fn encode_ordinary(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        if let Some(tokens) = self.known(text, place) {
            out.extend_from_slice(&tokens);
            return Ok(());
        }
        let first = out.len();
        self.tokenizer.encode_ordinary(text, place, out)?;
        self.remember(text, place, &out[first..]);
        Ok(())
    }

    /// The returned tokenizer shares the memory but no runs.
    fn keeping_out(&self, ids: &BTreeSet<u32>) -> Result<Arc<dyn Tokenizer>, Error> {
        let number = self.memory.next.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(CachedTokenizer {
            tokenizer: self.tokenizer.keeping_out(ids)?,
            memory: Arc::clone(&self.memory),
            number,
        }))
    }

    fn named(&self) -> &[NamedToken] {
        self.tokenizer.named()
    }

    fn chat_control_tokens(&self) -> Option<&[String]> {
        self.tokenizer.chat_control_tokens()
    }

    fn unknown(&self) -> Option<u32> {
        self.tokenizer.unknown()
    }

    fn encode_at_most(&self, text: &str, place: TextPlace, most: usize, out: &mut Vec<Token>) -> Result<(), Error> {
        match text.len() > self.memory.shard_bytes / 2 {
            true => self.tokenizer.encode_at_most(text, place, most, out),
            false => self.encode_ordinary(text, place, out),
        }
    }

    fn encode_ids(&self, text: &str, place: TextPlace, out: &mut Vec<u32>) -> Result<(), Error> {
        if text.len() > self.memory.shard_bytes / 2 {
            self.memory.misses.fetch_add(1, Ordering::Relaxed);
            return self.tokenizer.encode_ids(text, place, out);
        }
        let mut tokens = Vec::new();
        self.encode_ordinary(text, place, &mut tokens)?;
        out.extend(tokens.iter().map(|token| token.id));
        Ok(())
    }

    fn encode_in_parts(&self, text: &str, place: TextPlace, take: &mut dyn FnMut(&[Token])) -> Result<(), Error> {
        if text.len() > self.memory.shard_bytes / 2 {
            // The run is too large to be stored.
            self.memory.misses.fetch_add(1, Ordering::Relaxed);
            return self.tokenizer.encode_in_parts(text, place, take);
        }
        if let Some(tokens) = self.known(text, place) {
            take(&tokens);
            return Ok(());
        }
        let mut tokens = Vec::new();
        self.tokenizer.encode_ordinary(text, place, &mut tokens)?;
        self.remember(text, place, &tokens);
        take(&tokens);
        Ok(())
    }

    fn encode_reference(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
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

    fn decode_bytes(&self, ids: &[u32], out: &mut Vec<u8>) -> usize {
        self.tokenizer.decode_bytes(ids, out)
    }

    fn prefix_space(&self, place: TextPlace) -> bool {
        self.tokenizer.prefix_space(place)
    }

    fn vocabulary_size(&self) -> usize {
        self.tokenizer.vocabulary_size()
    }

    fn kind(&self) -> TokenizerKind {
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
