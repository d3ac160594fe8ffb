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

use rolecall_interpreter::{KernelOptions, Pool};

use crate::store::Owner;
use crate::{Fault, FaultCode, OpenFault};
use uploads::Uploads;

pub use container::{Container, Ran};
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

    /// Returns the container that a request asks for. `answer` is the name of the answer that it goes on from. It may
    /// take the time that a folder takes to be made.
    pub fn choose(
        &self,
        owner: Owner,
        choice: &ContainerChoice,
        answer: Option<&str>,
    ) -> Result<Arc<Container>, Fault> {
        let known = if let Some(id) = &choice.id {
            Some(self.get(owner, id)?)
        } else {
            let state = self.swept();
            let of_answer = state.of_answers.iter().rev().find(|(by, name, _)| *by == owner && answer == Some(name));
            of_answer.and_then(|(_, _, id)| state.all.get(&(owner, id.clone())).cloned())
        };
        let container = match known {
            Some(container) => container,
            None => self.create(owner, String::new())?,
        };
        choice.files.iter().try_for_each(|file| self.put(owner, &container, file).map(|_| ()))?;
        Ok(container)
    }

    /// Makes a container.
    pub fn create(&self, owner: Owner, name: String) -> Result<Arc<Container>, Fault> {
        let session = self.pool.session().map_err(|error| container::fault(&error))?;
        let container = Arc::new(Container::new(session, name));
        self.state().all.insert((owner, container.id.clone()), Arc::clone(&container));
        Ok(container)
    }

    /// Puts an uploaded file into a container, and returns its id there.
    pub fn put(&self, owner: Owner, container: &Container, file: &str) -> Result<String, Fault> {
        let upload = self.uploads.get(owner, file)?;
        container.write(&upload.name, &upload.bytes)
    }

    /// Returns a container by its id.
    pub fn get(&self, owner: Owner, id: &str) -> Result<Arc<Container>, Fault> {
        self.find(&mut self.swept(), owner, id)
    }

    fn find(&self, state: &mut ContainersState, owner: Owner, id: &str) -> Result<Arc<Container>, Fault> {
        let found = state.all.get(&(owner, id.to_owned())).cloned();
        found.ok_or_else(|| {
            let message =
                format!("there is no container `{id}`; one that nobody uses for {} s is removed", self.idle.as_secs());
            Fault::at("container", FaultCode::ContainerNotFound, message)
        })
    }

    /// Returns the containers of an owner, the newest first.
    pub fn of_owner(&self, owner: Owner) -> Vec<Arc<Container>> {
        let state = self.swept();
        let own = state.all.iter().filter(|((by, _), _)| *by == owner).map(|(_, container)| Arc::clone(container));
        let mut own: Vec<Arc<Container>> = own.collect();
        own.sort_by_key(|container| std::cmp::Reverse((container.created, container.id.clone())));
        own
    }

    /// Ends a container.
    pub fn remove(&self, owner: Owner, id: &str) -> Result<(), Fault> {
        let mut state = self.swept();
        self.find(&mut state, owner, id)?;
        let gone = state.all.remove(&(owner, id.to_owned()));
        end(gone);
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
        let is_left = |container: &Arc<Container>| Arc::strong_count(container) == 1 && container.idle() >= self.idle;
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
