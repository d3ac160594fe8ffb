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
pub struct Stop {
    own: Arc<watch::Sender<bool>>,
    /// Another one that stops what has this.
    also: Option<Arc<watch::Sender<bool>>>,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop { own: Arc::new(watch::Sender::new(false)), also: None }
    }
}

impl Stop {
    /// Stops every call that has this.
    pub fn stop(&self) {
        self.own.send_replace(true);
    }

    /// Reports whether somebody stopped.
    pub fn is_stopped(&self) -> bool {
        *self.own.borrow() || self.also.as_ref().is_some_and(|also| *also.borrow())
    }

    /// Returns one that is stopped when either is. What stops `other` beside itself does not count.
    #[must_use]
    pub fn or(&self, other: &Stop) -> Stop {
        Stop { own: Arc::clone(&self.own), also: Some(Arc::clone(&other.own)) }
    }

    /// Waits until somebody stops.
    pub async fn stopped(&self) {
        // The senders live as long as this.
        let of = async |sender: &watch::Sender<bool>| _ = sender.subscribe().wait_for(|stopped| *stopped).await;
        match &self.also {
            None => of(&self.own).await,
            Some(also) => tokio::select! {
                () = of(&self.own) => {}
                () = of(also) => {}
            },
        }
    }
}
