//! The store of conversations: finished turns, found again by names.
//!
//! A turn is written once and never changes. It has a parent, so that its chain of ancestors is the
//! conversation up to it; two turns with one parent are a fork. All turns from one first turn form a
//! conversation, which is kept or removed as a whole. Everything belongs to an [`Owner`], and no other
//! owner can find or read it.
//!
//! There are three places: memory by `memory`, one file by `embedded`, and Redis or Valkey by `shared`.
//! Only the file and the server survive the process.

mod costs;
#[expect(clippy::result_large_err, reason = "an error of the database is rare, and ends the work on a turn")]
mod embedded;
mod fault;
#[expect(clippy::result_large_err, reason = "an error of the database is rare, and ends the work on a turn")]
mod file;
mod filter;
mod memory;
mod moment;
pub(crate) mod owner;
mod shared;
pub(crate) mod spread;
#[expect(clippy::result_large_err, reason = "an error of the database is rare, and ends the work on a turn")]
mod tables;
mod turn;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use self::fault::StoreFault;
pub(crate) use self::moment::{before, moment};
pub use self::owner::Owner;
pub use self::turn::{StoredTurn, TurnId};

/// Where turns are kept, and for how long.
#[derive(Clone)]
pub enum StoreConfig {
    /// In memory, until the process ends.
    Memory(Bounds),
    /// In one file. One gateway uses it at a time.
    Embedded {
        /// The file. It is created if it is missing, but its folder must exist.
        path: PathBuf,
        /// How much is kept.
        bounds: Bounds,
    },
    /// In Redis or Valkey, for several gateways.
    ///
    /// What survives a crash of the server is up to its own configuration: with `appendonly yes` and
    /// `appendfsync always` a turn is on its disk before the gateway goes on, and without them the last
    /// seconds, or everything, can be lost. `maxmemory` bounds its size.
    Shared {
        /// The address, with the password and the number of the database:
        /// `redis://:password@host:6379/0`.
        url: String,
        /// How long a conversation is kept after it was last used. Up to a tenth less, because not
        /// each use is written down.
        most_age: Duration,
    },
}

/// How much a store keeps. Conversations that were not used for the longest time are removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most bytes of all conversations, with their share of the pages of the file. The file may be
    /// up to three times as long, but the rest of it is empty.
    pub most_bytes: u64,
    /// How long a conversation is kept after it was last used.
    pub most_age: Duration,
}

impl Default for StoreConfig {
    fn default() -> StoreConfig {
        StoreConfig::Memory(Bounds::default())
    }
}

impl StoreConfig {
    /// Returns how long a conversation is kept after it was last used.
    pub(crate) fn most_age(&self) -> Duration {
        match self {
            StoreConfig::Memory(bounds) | StoreConfig::Embedded { bounds, .. } => bounds.most_age,
            StoreConfig::Shared { most_age, .. } => *most_age,
        }
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { most_bytes: 1 << 30, most_age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

impl fmt::Debug for StoreConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreConfig::Memory(bounds) => write!(formatter, "Memory({bounds:?})"),
            StoreConfig::Embedded { path, bounds } => write!(formatter, "Embedded({}, {bounds:?})", path.display()),
            // The address may have a password.
            StoreConfig::Shared { most_age, .. } => write!(formatter, "Shared({most_age:?})"),
        }
    }
}

/// A store of finished turns.
///
/// ```
/// use rolecall_gateway::{Bounds, Owner, Store, StoreConfig, StoredTurn};
///
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// let store = Store::open(&StoreConfig::Memory(Bounds::default())).await?;
/// let owner = Owner::of_key("secret");
/// let first = StoredTurn::first(b"hello".to_vec());
/// store.put(&owner, &first, &["response:1".into()]).await?;
/// let second = StoredTurn::after(&first.id, b"more".to_vec());
/// store.put(&owner, &second, &["response:2".into()]).await?;
///
/// let found = store.find(&owner, &["response:3".into(), "response:2".into()]).await?;
/// assert_eq!(found, Some((1, second.id.clone())));
/// assert_eq!(store.chain(&owner, &second.id).await?, Some(vec![first, second]));
/// assert_eq!(store.find(&Owner::of_key("other"), &["response:2".into()]).await?, None);
/// # Ok::<(), rolecall_gateway::StoreFault>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Store(StorePlace);

#[derive(Clone, Debug)]
enum StorePlace {
    Memory(memory::Memory),
    Embedded(embedded::EmbeddedStore),
    Shared(shared::SharedStore),
}

impl Store {
    /// Opens a store. A file is checked in full, which takes time in proportion to its length.
    pub async fn open(config: &StoreConfig) -> Result<Store, StoreFault> {
        Ok(Store(match config {
            StoreConfig::Memory(bounds) => StorePlace::Memory(memory::Memory::new(*bounds)),
            StoreConfig::Embedded { path, bounds } => {
                StorePlace::Embedded(embedded::EmbeddedStore::open(path.clone(), *bounds).await?)
            }
            StoreConfig::Shared { url, most_age } => {
                StorePlace::Shared(shared::SharedStore::open(url, *most_age).await?)
            }
        }))
    }

    /// Keeps a turn, and gives it names. A name that another turn has moves to this one.
    ///
    /// The turn is durable when this returns. After an error it may or may not be kept; putting the same
    /// turn again is harmless. Returns a number that grows with everything that this store does: of two
    /// turns that were given one name, it leads to that with the larger one.
    pub async fn put(&self, owner: &Owner, turn: &StoredTurn, names: &[String]) -> Result<u64, StoreFault> {
        match &self.0 {
            StorePlace::Memory(store) => store.put(owner, turn, names),
            StorePlace::Embedded(store) => store.put(owner, turn, names).await,
            StorePlace::Shared(store) => store.put(owner, turn, names).await,
        }
    }

    /// Returns the index of the first name that a turn has, and that turn.
    pub async fn find(&self, owner: &Owner, names: &[String]) -> Result<Option<(usize, TurnId)>, StoreFault> {
        match &self.0 {
            StorePlace::Memory(store) => store.find(owner, names),
            StorePlace::Embedded(store) => store.find(owner, names).await,
            StorePlace::Shared(store) => store.find(owner, names).await,
        }
    }

    /// Returns a turn and all before it, from the first on.
    pub async fn chain(&self, owner: &Owner, turn: &TurnId) -> Result<Option<Vec<StoredTurn>>, StoreFault> {
        match &self.0 {
            StorePlace::Memory(store) => store.chain(owner, turn),
            StorePlace::Embedded(store) => store.chain(owner, turn).await,
            StorePlace::Shared(store) => store.chain(owner, turn).await,
        }
    }

    /// Takes a name away, with the turns of its conversation that no name leads to any more. Returns a
    /// number as [`put`](Store::put) does, if there was such a name.
    pub async fn forget(&self, owner: &Owner, name: &str) -> Result<Option<u64>, StoreFault> {
        match &self.0 {
            StorePlace::Memory(store) => store.forget(owner, name),
            StorePlace::Embedded(store) => store.forget(owner, name).await,
            StorePlace::Shared(store) => store.forget(owner, name).await,
        }
    }

    /// Reports whether other gateways may use it, too.
    pub fn is_shared(&self) -> bool {
        matches!(self.0, StorePlace::Shared(_))
    }

    /// Ends the work of the store, after which it answers [`StoreFault::Down`]. A file that was not
    /// closed is repaired when it is opened again.
    pub async fn close(&self) {
        match &self.0 {
            StorePlace::Memory(store) => store.close(),
            StorePlace::Embedded(store) => store.close().await,
            StorePlace::Shared(_) => {}
        }
    }
}
