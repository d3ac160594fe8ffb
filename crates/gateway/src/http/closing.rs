use std::future::Future;

use tokio::sync::watch;

use crate::{Fault, FaultCode};

/// Whether the gateway ends now, although requests are being answered.
#[derive(Debug, Default)]
pub(crate) struct Closing(watch::Sender<bool>);

impl Closing {
    /// Ends all waits.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Waits for work, unless the gateway ends before.
    pub async fn or<T>(&self, work: impl Future<Output = T>) -> Result<T, Fault> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.begun() => {
                let help = Some("send the request again".into());
                let fault = Fault::new(FaultCode::ShuttingDown, "the gateway ended before the reply did");
                Err(Fault { help, retry_after: Some(1), ..fault })
            }
        }
    }

    async fn begun(&self) {
        // The sender is there as long as this is awaited.
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }
}
