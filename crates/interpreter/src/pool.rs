use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::folder::Folder;
use crate::kernel::{Kernel, Launch};
use crate::runtime::{runtime, wait};
use crate::{Error, Isolation, KernelOptions, KernelSession, sandbox};

/// Kernels that are ready before they are needed.
///
/// ```no_run
/// use rolecall_interpreter::{Interpreter, KernelOptions, Pool, Stop};
/// let pool = Pool::new(KernelOptions::default(), 1, 20)?;
/// let mut session = pool.session()?;
/// let execution = session.run("2 ** 10", &Stop::default(), &mut |_| {})?;
/// assert_eq!(execution.text(|name| name.to_owned()), "1024");
/// # Ok::<(), rolecall_interpreter::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool(Arc<PoolShare>);

/// What a pool and its sessions share.
#[derive(Debug)]
pub(crate) struct PoolShare {
    options: KernelOptions,
    launch: Launch,
    warm: usize,
    most: usize,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    ready: Vec<(Folder, Kernel)>,
    /// Kernels that are being started to be ready.
    starting: usize,
    sessions: usize,
}

impl Pool {
    /// Finds out how kernels are started, and starts as many as shall be `warm`. At most as many sessions as `most` are
    /// open at once.
    pub fn new(options: KernelOptions, warm: usize, most: usize) -> Result<Pool, Error> {
        if options.isolation == Isolation::Sandbox {
            sandbox::programs()?;
        }
        let for_launch = options.clone();
        let launch = wait(async move { Launch::find(&for_launch).await })?;
        let pool = Pool(Arc::new(PoolShare { options, launch, warm, most, state: Mutex::default() }));
        pool.0.fill()?;
        Ok(pool)
    }

    /// Begins a session, with a kernel that is ready, or else with one that starts at its first call.
    pub fn session(&self) -> Result<KernelSession, Error> {
        let ready = {
            let mut state = self.0.state();
            if state.sessions >= self.0.most {
                return Err(Error::Full(self.0.most));
            }
            state.sessions += 1;
            loop {
                match state.ready.pop() {
                    Some((_, kernel)) if !kernel.is_alive() => {}
                    other => break other,
                }
            }
        };
        self.0.fill()?;
        let (folder, kernel) = match ready {
            Some((folder, kernel)) => (folder, Some(kernel)),
            None => match Folder::new(&self.0.options) {
                Ok(folder) => (folder, None),
                Err(error) => {
                    self.0.leave();
                    return Err(error);
                }
            },
        };
        Ok(KernelSession::new(Arc::clone(&self.0), folder, kernel))
    }

    /// Returns how many kernels are ready.
    pub fn ready(&self) -> usize {
        self.0.state().ready.len()
    }

    /// Returns how kernels are started.
    pub fn options(&self) -> &KernelOptions {
        &self.0.options
    }
}

impl PoolShare {
    /// Starts a kernel on a folder.
    pub async fn start(&self, folder: &Folder) -> Result<Kernel, Error> {
        Kernel::start(folder, &self.launch, &self.options).await
    }

    /// Notes that a session has ended.
    pub fn leave(&self) {
        self.state().sessions -= 1;
    }

    /// Starts kernels until as many are ready as shall be. One that cannot be started is started when it is needed,
    /// and that call says why it cannot.
    fn fill(self: &Arc<PoolShare>) -> Result<(), Error> {
        let mut state = self.state();
        while state.ready.len() + state.starting < self.warm {
            state.starting += 1;
            let shared = Arc::clone(self);
            runtime()?.spawn(async move {
                let options = shared.options.clone();
                let folder = tokio::task::spawn_blocking(move || Folder::new(&options)).await;
                let started = match folder {
                    Ok(Ok(folder)) => shared.start(&folder).await.ok().map(|kernel| (folder, kernel)),
                    _ => None,
                };
                let mut state = shared.state();
                state.starting -= 1;
                state.ready.extend(started);
            });
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
