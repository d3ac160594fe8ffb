use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, ErrorKind, FromRedisValue, RedisError, Script, ServerErrorKind};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::moment::moment;
use super::turn::hex;
use super::{Owner, StoreFault, StoredTurn, TurnId};

/// A store in Redis or Valkey, shared by several gateways.
///
/// Each operation is one script, so it is done whole or not at all. `scripts/use.lua` tells which keys
/// there are. The server itself removes conversations: by their age, and by its `maxmemory-policy`.
#[derive(Clone)]
pub struct SharedStore {
    connection: ConnectionManager,
    scripts: Arc<Scripts>,
    most_age: Duration,
}

struct Scripts {
    put: Script,
    find: Script,
    chain: Script,
    forget: Script,
}

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(1);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
/// How long an operation may take, with a second try over a new connection.
const PATIENCE: Duration = Duration::from_secs(3);

/// What all keys begin with. The number changes when older code could not read what is stored.
const PREFIX: &str = "rolecall:1:";

impl SharedStore {
    pub async fn open(url: &str, most_age: Duration) -> Result<SharedStore, StoreFault> {
        let client = Client::open(url).map_err(|_| StoreFault::Refused("expected redis://host:port".into()))?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(ANSWER))
            .set_number_of_retries(0);
        let connection = ConnectionManager::new_lazy_with_config(client, config).map_err(fault)?;
        let store = SharedStore { connection, scripts: Arc::new(Scripts::new()), most_age };
        // It asks for nothing, and shows whether the server lets us in and runs scripts.
        store.find(&Owner([0; 32]), &[]).await?;
        Ok(store)
    }

    pub async fn put(&self, owner: &Owner, turn: &StoredTurn, names: &[String]) -> Result<u64, StoreFault> {
        turn.check()?;
        let parent = turn.parent.as_ref().map_or_else(String::new, |parent| hex(parent.own));
        let mut arguments = vec![hex(turn.id.root).into(), hex(turn.id.own).into(), parent.into(), turn.to_record()];
        arguments.extend(names.iter().map(|name| digest(owner, name)));
        match self.run::<bool>(&self.scripts.put, owner, &arguments).await? {
            // Which is the later one only the server can tell, which is asked before each turn.
            true => Ok(moment()),
            false => Err(StoreFault::Gone),
        }
    }

    pub async fn find(&self, owner: &Owner, names: &[String]) -> Result<Option<(usize, TurnId)>, StoreFault> {
        let arguments: Vec<Vec<u8>> = names.iter().map(|name| digest(owner, name)).collect();
        let found: Option<(usize, String)> = self.run(&self.scripts.find, owner, &arguments).await?;
        let Some((index, id)) = found else { return Ok(None) };
        let index = index.checked_sub(1).filter(|index| *index < names.len());
        let found = index.zip(TurnId::of_text(&id)).ok_or_else(damaged)?;
        Ok(Some(found))
    }

    pub async fn chain(&self, owner: &Owner, turn: &TurnId) -> Result<Option<Vec<StoredTurn>>, StoreFault> {
        let arguments = [hex(turn.root).into(), hex(turn.own).into()];
        let found: Vec<(String, Vec<u8>)> = self.run(&self.scripts.chain, owner, &arguments).await?;
        if found.is_empty() {
            return Ok(None);
        }
        let read = |(own, record): &(String, Vec<u8>)| {
            let id = TurnId::of_text(&(hex(turn.root) + own)).ok_or_else(damaged)?;
            StoredTurn::of_record(&id, record)
        };
        found.iter().rev().map(read).collect::<Result<_, _>>().map(Some)
    }

    pub async fn forget(&self, owner: &Owner, name: &str) -> Result<Option<u64>, StoreFault> {
        let was_known: bool = self.run(&self.scripts.forget, owner, &[digest(owner, name)]).await?;
        Ok(was_known.then(moment))
    }

    /// Runs a script, and again if the connection was lost: all scripts may run twice.
    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        owner: &Owner,
        arguments: &[Vec<u8>],
    ) -> Result<T, StoreFault> {
        let age = u64::try_from(self.most_age.as_millis()).unwrap_or(u64::MAX).clamp(1, MOST_AGE);
        let mut call = script.prepare_invoke();
        call.arg(prefix(owner)).arg(age).arg(arguments);
        let work = async {
            let mut connection = self.connection.clone();
            match call.invoke_async(&mut connection).await {
                Err(error) if is_lost(&error) => call.invoke_async(&mut connection).await,
                done => done,
            }
        };
        match timeout(PATIENCE, work).await {
            Ok(done) => done.map_err(fault),
            Err(_) => Err(StoreFault::Down(format!("it took longer than {} s", PATIENCE.as_secs()))),
        }
    }
}

impl Scripts {
    fn new() -> Scripts {
        let script = |own: &str| Script::new(&[include_str!("scripts/use.lua"), own].concat());
        Scripts {
            put: script(include_str!("scripts/put.lua")),
            find: script(include_str!("scripts/find.lua")),
            chain: script(include_str!("scripts/chain.lua")),
            forget: script(include_str!("scripts/forget.lua")),
        }
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Shared({:?})", self.most_age)
    }
}

/// A hundred years, in milliseconds: the server refuses times that overflow.
const MOST_AGE: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

/// Returns what the keys of an owner begin with. Its braces are the hash tag of a cluster.
fn prefix(owner: &Owner) -> String {
    format!("{PREFIX}{{{}}}:", short_hex(&owner.0))
}

fn digest(owner: &Owner, name: &str) -> Vec<u8> {
    short_hex(&owner.digest(name)).into()
}

/// Returns 128 bits of the digest of a digest.
fn short_hex(bytes: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    hex(TurnId::of_bytes(&digest).root)
}

/// Reports whether a connection ended, or a new one could not be made.
fn is_lost(error: &RedisError) -> bool {
    !error.is_timeout() && (error.is_io_error() || error.is_connection_dropped())
}

/// The texts of the server are left out but for the code: they may quote what was sent.
fn fault(error: RedisError) -> StoreFault {
    let code = error.code().unwrap_or("no code").to_owned();
    match (error.kind(), code.as_str()) {
        _ if error.is_timeout() => StoreFault::Down("the server did not answer in time".into()),
        (ErrorKind::Io, _) => StoreFault::Down("there is no connection to the server".into()),
        // MISCONF: the server cannot write to its own disk.
        (_, "OOM" | "MISCONF") => StoreFault::Full(format!("the server refuses to write: {code}")),
        (_, "DAMAGED" | "WRONGTYPE") | (ErrorKind::UnexpectedReturnType, _) => damaged(),
        (ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig, _)
        | (ErrorKind::Server(ServerErrorKind::NoPerm | ServerErrorKind::Moved | ServerErrorKind::CrossSlot), _)
        | (_, "NOAUTH" | "WRONGPASS") => StoreFault::Refused(format!("the server refuses us: {code}")),
        (_, _) => StoreFault::Down(format!("the server refuses to work: {code}")),
    }
}

fn damaged() -> StoreFault {
    StoreFault::Damaged("the database of the server has other values than those that were written".into())
}
