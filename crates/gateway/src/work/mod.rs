//! Work that takes long, on threads for it.

pub(crate) mod places;

use std::future::Future;

use rolecall::guard::{guard, guard_future};

use crate::work::places::PLACES;
use crate::{Fault, FaultCode};

/// Does work that takes time in proportion to a size: a little at once, because the way to another thread
/// and back takes longer, and the rest as long work.
pub async fn sized<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    match size <= AT_ONCE {
        true => guard(work)?,
        false => apart(size, work).await,
    }
}

/// The most bytes of text, or ids, with which work is short: it takes about 0.2 ms.
pub const AT_ONCE: usize = 16 << 10;

/// Does long work on a thread for it. Only a little is done at the same time, and owners take turns: if all of it
/// shared the processors, all of it would end late.
pub async fn apart<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let place = PLACES.take(size).await.ok_or_else(interrupted)?;
    let done = tokio::task::spawn_blocking(move || {
        // A client that leaves does not end the work.
        let _place = place;
        guard(work)?
    });
    done.await.unwrap_or_else(|_| Err(interrupted()))
}

/// Does work that must not end halfway because a client leaves.
pub async fn unbroken<T: Send + 'static>(
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    let work = async { guard_future(work).await? };
    tokio::spawn(work).await.unwrap_or_else(|_| Err(interrupted()))
}

/// Returns the error for work that was dropped, because the gateway ends.
fn interrupted() -> Fault {
    Fault::new(FaultCode::Internal, "the work for the request was dropped")
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[tokio::test]
    async fn work_that_panics_is_an_error_and_gives_its_place_back() {
        for _ in 0..100 {
            assert!(apart::<()>(1, || std::panic::panic_any("on purpose")).await.is_err());
        }
        assert_eq!(apart(1, || Ok(7)).await, Ok(7));
    }
}
