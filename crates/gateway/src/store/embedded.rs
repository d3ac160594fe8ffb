use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use redb::Database;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::file::{StoreFile, Trouble};
use super::filter::Filter;
use super::moment::{Moment, before, moment};
use super::tables::{self, Lives, Tables, Uses};
use super::{Bounds, Owner, StoreFault, StoredTurn, TurnId};

/// A store in one file of redb.
///
/// One thread writes. It takes all orders that wait, does them in one transaction, and waits for the
/// disk once. Reads go on meanwhile, on threads for long work. A conversation that is read counts as used
/// with the next transaction, or after a minute.
#[derive(Clone)]
pub struct EmbeddedStore {
    inner: Arc<EmbeddedInner>,
    orders: Sender<Order>,
    /// Places for orders that wait.
    slots: Arc<Semaphore>,
}

struct EmbeddedInner {
    file: StoreFile,
    bounds: Bounds,
    /// The uses that are not in the tables yet.
    uses: Mutex<Uses>,
    /// The names in the tables, those in the transaction that is being written, and some that were removed;
    /// and how often the file had been opened when they were read.
    names: RwLock<(u64, Filter)>,
}

/// Something to write.
struct Order {
    kind: StoreOrder,
    done: oneshot::Sender<Result<Option<Moment>, StoreFault>>,
    _slot: OwnedSemaphorePermit,
}

enum StoreOrder {
    Put { owner: Owner, turn: StoredTurn, names: Vec<String> },
    Forget { owner: Owner, name: String },
    Close,
}

/// How long anything may take. Disks that answer later count as failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// After how long without orders uses are written and old conversations removed.
const IDLE: Duration = Duration::from_secs(60);

/// The most orders and bytes in one transaction.
const MOST_ORDERS: usize = 256;
const MOST_BYTES: usize = 16 << 20;

impl EmbeddedStore {
    pub async fn open(path: PathBuf, bounds: Bounds) -> Result<EmbeddedStore, StoreFault> {
        let open = move || {
            let file = StoreFile::open(path)?;
            let names = (file.opened(), file.with(tables::filter)?);
            Ok(EmbeddedInner { file, bounds, uses: Mutex::default(), names: RwLock::new(names) })
        };
        let inner = spawn_blocking(open).await;
        let inner = Arc::new(inner.map_err(|_| StoreFault::Down("opening it was interrupted".into()))??);
        let (orders, queue) = channel();
        let writer = Arc::clone(&inner);
        let started = thread::Builder::new().name("store".into()).spawn(move || writer.write(&queue));
        started.map_err(|error| StoreFault::Down(error.to_string()))?;
        Ok(EmbeddedStore { inner, orders, slots: Arc::new(Semaphore::new(MOST_ORDERS * 4)) })
    }

    pub async fn put(&self, owner: &Owner, turn: &StoredTurn, names: &[String]) -> Result<Moment, StoreFault> {
        let done = self.order(StoreOrder::Put { owner: *owner, turn: turn.clone(), names: names.to_vec() }).await?;
        Ok(done.unwrap_or_default())
    }

    pub async fn forget(&self, owner: &Owner, name: &str) -> Result<Option<Moment>, StoreFault> {
        self.order(StoreOrder::Forget { owner: *owner, name: name.to_owned() }).await
    }

    pub async fn find(&self, owner: &Owner, names: &[String]) -> Result<Option<(usize, TurnId)>, StoreFault> {
        let owner = *owner;
        let names = self.inner.may_have(names.iter().map(|name| owner.digest(name)).enumerate().collect());
        if names.is_empty() {
            return Ok(None);
        }
        let found = self.read(move |database, lives| tables::find(database, &owner, &names, lives)).await?;
        if let Some((_, id)) = &found {
            self.inner.note_use(id);
        }
        Ok(found)
    }

    pub async fn chain(&self, owner: &Owner, turn: &TurnId) -> Result<Option<Vec<StoredTurn>>, StoreFault> {
        let (owner, id) = (*owner, turn.clone());
        let chain = self.read(move |database, lives| tables::chain(database, &owner, &id, lives)).await?;
        if chain.is_some() {
            self.inner.note_use(turn);
        }
        Ok(chain)
    }

    pub async fn close(&self) {
        // If it is closed already, there is nothing to do.
        let _ = self.order(StoreOrder::Close).await;
    }

    /// Has something done, and returns when it was.
    async fn order(&self, kind: StoreOrder) -> Result<Option<Moment>, StoreFault> {
        let closed = || StoreFault::Down("it was closed".into());
        let work = async {
            let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| closed())?;
            let (done, answer) = oneshot::channel();
            self.orders.send(Order { kind, done, _slot: slot }).map_err(|_| closed())?;
            answer.await.map_err(|_| closed())?
        };
        timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(slow()))
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database, &Lives<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreFault> {
        let inner = Arc::clone(&self.inner);
        let work = spawn_blocking(move || {
            let oldest = before(inner.bounds.most_age);
            let lives = |root, used| used >= oldest || inner.used(root) >= oldest;
            inner.file.with(|database| work(database, &lives))
        });
        match timeout(PATIENCE, work).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(StoreFault::Down("reading was interrupted".into())),
            Err(_) => Err(slow()),
        }
    }
}

impl EmbeddedInner {
    /// Writes until the store is closed or dropped.
    fn write(&self, queue: &Receiver<Order>) {
        loop {
            let mut orders = match queue.recv_timeout(IDLE) {
                Ok(order) => vec![order],
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut bytes = 0;
            while orders.len() < MOST_ORDERS
                && bytes < MOST_BYTES
                && let Ok(order) = queue.try_recv()
            {
                bytes += order.kind.bytes();
                orders.push(order);
            }
            let closes = orders.iter().any(|order| matches!(order.kind, StoreOrder::Close));
            self.answer(orders, closes);
            if closes {
                return;
            }
        }
        // The last uses matter little: if they cannot be written, they are not.
        let _ = self.commit(&[]);
        self.file.close();
    }

    /// Does orders, and answers them.
    fn answer(&self, orders: Vec<Order>, closes: bool) {
        let done = self.commit(&orders);
        if closes {
            self.file.close();
        }
        // Clients that left do not wait for an answer.
        match done {
            Ok(answers) => orders.into_iter().zip(answers).for_each(|(order, answer)| {
                let _ = order.done.send(answer);
            }),
            Err(fault) => orders.into_iter().for_each(|order| {
                let _ = order.done.send(Err(fault.clone()));
            }),
        }
    }

    /// Returns those of some names that may be in the tables. Nothing is known of a file that is not open, or
    /// was opened again.
    fn may_have(&self, mut names: Vec<(usize, [u8; 32])>) -> Vec<(usize, [u8; 32])> {
        let known = self.names.read().unwrap_or_else(PoisonError::into_inner);
        if self.file.is_open() && known.0 == self.file.opened() {
            names.retain(|(_, name)| known.1.may_have(name));
        }
        names
    }

    /// Adds the names in orders to the filter.
    fn note_names(&self, orders: &[Order]) -> Result<(), StoreFault> {
        let opened = self.file.opened();
        let is_over = {
            let known = self.names.read().unwrap_or_else(PoisonError::into_inner);
            known.0 != opened || known.1.is_full()
        };
        // Many of those in a full one may be of conversations that were removed.
        let again = is_over.then(|| self.file.with(tables::filter)).transpose()?;
        let digests = |order: &Order| match &order.kind {
            StoreOrder::Put { owner, names, .. } => names.iter().map(|name| owner.digest(name)).collect(),
            StoreOrder::Forget { .. } | StoreOrder::Close => Vec::new(),
        };
        let names: Vec<[u8; 32]> = orders.iter().flat_map(digests).collect();
        let mut known = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(again) = again {
            *known = (opened, again);
        }
        names.iter().for_each(|name| known.1.add(name));
        Ok(())
    }

    /// Does orders in one transaction, which is on the disk when this returns.
    fn commit(&self, orders: &[Order]) -> Result<Vec<Result<Option<Moment>, StoreFault>>, StoreFault> {
        self.note_names(orders)?;
        let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let answers = self.file.with(|database| {
            let transaction = database.begin_write()?;
            let mut answers = Vec::new();
            {
                let mut tables = Tables::open(&transaction)?;
                tables.touch(&uses)?;
                tables.expire(before(self.bounds.most_age))?;
                for order in orders {
                    answers.push(match order.kind.apply(&mut tables, &self.bounds) {
                        Err(Trouble::Fault(fault)) => Err(fault),
                        done => Ok(done?),
                    });
                }
            }
            transaction.commit()?;
            Ok(answers)
        })?;
        // Later uses are for the next transaction.
        let mut noted = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|root, used| uses.get(root) != Some(used));
        Ok(answers)
    }

    /// Returns when a conversation was used, if the tables do not know it yet.
    fn used(&self, root: u128) -> Moment {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).get(&root).copied().unwrap_or(0)
    }

    fn note_use(&self, id: &TurnId) {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).insert(id.root, moment());
    }
}

impl StoreOrder {
    fn apply(&self, tables: &mut Tables<'_>, bounds: &Bounds) -> Result<Option<Moment>, Trouble> {
        match self {
            StoreOrder::Put { owner, turn, names } => tables.put(owner, turn, names, bounds).map(Some),
            StoreOrder::Forget { owner, name } => Ok(tables.forget(owner, name)?),
            StoreOrder::Close => Ok(None),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            StoreOrder::Put { turn, .. } => turn.body.len(),
            StoreOrder::Forget { .. } | StoreOrder::Close => 0,
        }
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Embedded({:?})", self.inner.bounds)
    }
}

fn slow() -> StoreFault {
    StoreFault::Down(format!("it took longer than {} s", PATIENCE.as_secs()))
}
