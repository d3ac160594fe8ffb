//! Containers: where the code of models runs on the server, if the operator allowed it.
//!
//! A container is a session of the interpreter, with a folder of files, by OpenAI's name. It belongs to its owner, and ends
//! when nobody has used it for a while. An answer that goes on from another has the other's container.

mod container;
mod pages;
mod uploads;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rolecall_interpreter::{Error, KernelOptions, KernelSession, Pool};

use crate::store::Owner;
use crate::{Fault, OpenFault};
use uploads::{Upload, Uploads};

pub use container::{Container, ContainerSettings, Ran};
pub use pages::{answer, take};
pub use uploads::Form;

/// What may run code on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerConfig {
    /// Whether any may. Without it, clients run the code.
    pub is_on: bool,
    /// The most containers at once.
    pub most: usize,
    /// How long a container is kept after it was last used.
    pub idle: Duration,
    /// The most bytes of all files that clients have uploaded.
    pub file_bytes: usize,
    /// How kernels are started, with their limits.
    pub kernel: KernelOptions,
}

impl Default for ContainerConfig {
    fn default() -> ContainerConfig {
        let idle = Duration::from_secs(20 * 60);
        ContainerConfig { is_on: false, most: 20, idle, file_bytes: 256 << 20, kernel: KernelOptions::default() }
    }
}

/// The container that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerChoice {
    /// Its id. Without one, it is that of the answer that the request goes on from, or a new one.
    pub id: Option<String>,
    /// The files that it gets.
    pub files: Vec<String>,
    /// Where the request names it.
    pub path: String,
}

/// All containers.
#[derive(Debug)]
pub struct Containers {
    pool: Pool,
    pub uploads: Uploads,
    idle: Duration,
    state: Mutex<ContainersState>,
}

#[derive(Debug, Default)]
struct ContainersState {
    all: HashMap<(Owner, String), Arc<Container>>,
    /// The containers of answers, the oldest first.
    of_answers: VecDeque<(Owner, String, String)>,
}

/// The most containers of an owner that are not opened yet.
const MOST_UNOPENED: usize = 1000;

/// The most answers whose containers are known.
const MOST_ANSWERS: usize = 10_000;

impl Containers {
    /// Returns the containers, if there may be any. Fails if code cannot be run on this machine.
    pub fn open(config: &ContainerConfig) -> Result<Option<Containers>, OpenFault> {
        if !config.is_on {
            return Ok(None);
        }
        let pool = Pool::new(config.kernel.clone(), 1, config.most);
        let pool = pool.map_err(|error| OpenFault::Interpreter(error.to_string()))?;
        let uploads = Uploads::new(config.file_bytes);
        Ok(Some(Containers { pool, uploads, idle: config.idle, state: Mutex::default() }))
    }

    /// Ends containers as time goes by, until these are dropped.
    pub fn watch(self: &Arc<Containers>) {
        let often = (self.idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(10));
        let all = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(often).await;
                let Some(all) = all.upgrade() else { break };
                drop(all.swept());
            }
        });
    }

    /// Returns the container that a request asks for. `answer` is the name of the answer that it goes on from. It may
    /// take the time that files take to be written.
    pub fn choose(
        self: &Arc<Containers>,
        owner: Owner,
        choice: &ContainerChoice,
        answer: Option<&str>,
    ) -> Result<Arc<Container>, Fault> {
        let ContainerChoice { id, files, path } = choice;
        let at = |field: String| move |fault: Fault| Fault { param: Some(field.into()), ..fault };
        let uploads = self.uploads(owner, files).map_err(at(format!("{path}.file_ids")))?;
        let known = if let Some(id) = id {
            Some(self.get(owner, id).map_err(at(path.clone()))?)
        } else {
            let state = self.swept();
            let of_answer = state.of_answers.iter().rev().find(|(by, name, _)| *by == owner && answer == Some(name));
            of_answer.and_then(|(_, _, id)| state.all.get(&(owner, id.clone())).cloned())
        };
        let settings = self.settings(String::new(), self.idle);
        let container = known.unwrap_or_else(|| self.add(owner, settings));
        uploads.into_iter().try_for_each(|upload| container.give(upload).map(|_| ()))?;
        Ok(container)
    }

    /// Makes a container with files. Without a time of its own, it is kept as long as any.
    pub fn create(
        self: &Arc<Containers>,
        owner: Owner,
        name: String,
        files: &[String],
        idle: Option<Duration>,
    ) -> Result<Arc<Container>, Fault> {
        let uploads = self.uploads(owner, files).map_err(|fault| Fault { param: Some("file_ids".into()), ..fault })?;
        let idle = idle.unwrap_or(self.idle).min(self.idle);
        let container = self.add(owner, ContainerSettings { is_made: true, ..self.settings(name, idle) });
        uploads.into_iter().try_for_each(|upload| container.give(upload).map(|_| ()))?;
        Ok(container)
    }

    fn settings(&self, name: String, idle: Duration) -> ContainerSettings {
        let limits = &self.pool.options().limits;
        ContainerSettings { name, idle, is_made: false, disk: limits.disk, files: limits.files }
    }

    /// Adds a container that is opened when something needs it. Of those that nothing has needed, the oldest goes.
    fn add(self: &Arc<Containers>, owner: Owner, settings: ContainerSettings) -> Arc<Container> {
        let container = Arc::new(Container::new(Arc::downgrade(self), owner, settings));
        let mut state = self.state();
        let unopened = || {
            let own = state.all.iter().filter(|((by, _), _)| *by == owner);
            own.filter(|(_, container)| !container.is_open() && Arc::strong_count(container) == 1)
        };
        if unopened().count() >= MOST_UNOPENED {
            let oldest = unopened().max_by_key(|(_, container)| container.idle()).map(|(key, _)| key.clone());
            oldest.map(|key| state.all.remove(&key));
        }
        state.all.insert((owner, container.id.clone()), Arc::clone(&container));
        container
    }

    /// Begins a session for a container. If there is no place, the owner's container that was not used for the longest time
    /// makes room.
    fn session(&self, owner: Owner) -> Result<KernelSession, Fault> {
        loop {
            match self.pool.session() {
                Err(full @ Error::Full(_)) => {
                    let mut state = self.state();
                    let free = || state.all.iter().filter(|(_, one)| one.is_open() && Arc::strong_count(one) == 1);
                    let own = free().filter(|((by, _), one)| *by == owner || one.left().is_zero());
                    let Some(oldest) = own.max_by_key(|(_, one)| one.idle()).map(|(key, _)| key.clone()) else {
                        // Then one of another owner ends, unless somebody uses it.
                        let next = free().map(|(_, one)| one.left()).min();
                        let seconds =
                            next.map(|next| u32::try_from(next.as_secs()).unwrap_or(u32::MAX).saturating_add(1));
                        return Err(Fault { retry_after: seconds, ..container::fault(&full) });
                    };
                    let gone = state.all.remove(&oldest);
                    drop(state);
                    if let Some(gone) = gone {
                        gone.end();
                    }
                }
                other => return other.map_err(|error| container::fault(&error)),
            }
        }
    }

    /// Puts an uploaded file into a container, and returns its id there.
    pub fn put(&self, owner: Owner, container: &Container, file: &str) -> Result<String, Fault> {
        container.give(self.uploads.get(owner, file)?)
    }

    fn uploads(&self, owner: Owner, files: &[String]) -> Result<Vec<Upload>, Fault> {
        files.iter().map(|file| self.uploads.get(owner, file)).collect()
    }

    /// Returns a container by its id.
    pub fn get(&self, owner: Owner, id: &str) -> Result<Arc<Container>, Fault> {
        self.swept().all.get(&(owner, id.to_owned())).cloned().ok_or_else(|| container::missing(id))
    }

    /// Returns the containers of an owner, the oldest first. One that only might run code is not among them.
    pub fn of_owner(&self, owner: Owner) -> Vec<Arc<Container>> {
        let state = self.swept();
        let own = state.all.iter().filter(|((by, _), one)| *by == owner && (one.is_open() || one.settings.is_made));
        let mut own: Vec<Arc<Container>> = own.map(|(_, container)| Arc::clone(container)).collect();
        own.sort_by_key(|container| (container.created, container.id.clone()));
        own
    }

    /// Ends a container, with what runs in it, and waits for that.
    pub fn remove(&self, owner: Owner, id: &str) -> Result<(), Fault> {
        let gone = self.swept().all.remove(&(owner, id.to_owned())).ok_or_else(|| container::missing(id))?;
        gone.end();
        Ok(())
    }

    /// Notes that an answer has a container.
    pub fn remember(&self, owner: Owner, answer: &str, id: &str) {
        let mut state = self.state();
        state.of_answers.push_back((owner, answer.to_owned(), id.to_owned()));
        if state.of_answers.len() > MOST_ANSWERS {
            state.of_answers.pop_front();
        }
    }

    /// Removes what nobody has used for a while. What runs is used.
    fn swept(&self) -> MutexGuard<'_, ContainersState> {
        let mut state = self.state();
        let is_left = |container: &Arc<Container>| Arc::strong_count(container) == 1 && container.left().is_zero();
        let gone: Vec<_> = state.all.extract_if(|_, container| is_left(container)).collect();
        if !gone.is_empty() {
            end(gone);
        }
        state
    }

    fn state(&self) -> MutexGuard<'_, ContainersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends containers on a thread of their own: their kernels are waited for.
fn end<T: Send + 'static>(gone: T) {
    std::thread::spawn(move || drop(gone));
}
