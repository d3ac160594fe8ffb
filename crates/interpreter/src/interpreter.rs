use std::sync::Arc;

use tokio::sync::watch;

use crate::{CodeOutput, Error, Execution, Folder};

/// Something that runs code, and keeps its state from call to call: a kernel of one's own, or a record for tests.
pub trait Interpreter: Send + Sync {
    /// Runs code until it ends, a limit is reached, or `stop` says so. Each output is shown as it comes.
    fn run(&mut self, code: &str, stop: &Stop, show: &mut dyn FnMut(&CodeOutput)) -> Result<Execution, Error>;

    /// Returns the folder of the session.
    fn folder(&self) -> &Folder;
}

/// Stops a call from another thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Stop {
        Stop(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// Stops every call that has this.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Reports whether somebody stopped.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until somebody stops.
    pub async fn stopped(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives as long as this.
        let _ = changes.wait_for(|stopped| *stopped).await;
    }
}
