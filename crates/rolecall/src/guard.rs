//! A panic is a bug in rolecall. Doors do the work for one row, request or call within a guard, so that
//! a panic becomes the error of that one and the others go on.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;

use crate::Error;

/// The most characters of a panic's message that an error has. The message may quote its input.
const LONGEST: usize = 300;

/// Does work, and returns [`Error::Internal`] if it panics.
///
/// What the work was changing when it panicked must not be used afterwards, unless every state of it
/// is a valid one.
///
/// ```
/// use rolecall::guard::guard;
/// let numbers = vec![1, 2, 3];
/// let at = numbers.len();
/// let error = guard(|| numbers[at]).unwrap_err();
/// assert_eq!(error.code(), "internal");
/// assert!(error.to_string().contains("the len is 3 but the index is 3"));
/// assert_eq!(guard(|| numbers[0]).ok(), Some(1));
/// ```
pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    remember_places();
    let outer = GUARDS.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDS.set(outer);
    done.map_err(|panic| {
        let place = PLACE.take();
        let error = Error::Internal { message: message_of(&*panic), place };
        // The value of a panic may panic when it is dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic))).map_err(std::mem::forget);
        error
    })
}

/// Does work like [`guard`], as a future.
pub async fn guard_future<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| match guard(|| work.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Err(error) => Poll::Ready(Err(error)),
    })
    .await
}

thread_local! {
    /// Whether this thread does work within a guard.
    static GUARDS: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic within a guard happened.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the places of panics within guards for their errors, and the panics out of standard error.
fn remember_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| match GUARDS.get() {
            true => PLACE.set(panic.location().map(|place| format!("{}:{}", place.file(), place.line()))),
            false => others(panic),
        }));
    });
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("a panic without a message");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "these tests panic on purpose")]

    use std::panic::panic_any;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn the_error_says_what_and_where() {
        let error = guard(|| panic!("on purpose")).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("on purpose") && error.contains("guard.rs:"), "{error}");
    }

    #[test]
    fn a_panic_within_a_guard_within_another_ends_only_the_inner_one() {
        let outer = guard(|| guard(|| panic!("inner")).is_err());
        assert!(matches!(outer, Ok(true)));
        assert!(!GUARDS.get());
    }

    #[test]
    fn a_value_that_panics_when_it_is_dropped_ends_nothing() {
        struct Worse;
        impl Drop for Worse {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert!(guard(|| panic_any(Worse)).is_err());
    }

    #[test]
    fn a_future_that_panics_later_ends_with_an_error() {
        let mut is_first = true;
        let work = std::future::poll_fn(|_| {
            assert!(std::mem::take(&mut is_first), "on purpose");
            Poll::<()>::Pending
        });
        let mut work = Box::pin(guard_future(work));
        let mut context = Context::from_waker(Waker::noop());
        assert!(work.as_mut().poll(&mut context).is_pending());
        assert!(matches!(work.as_mut().poll(&mut context), Poll::Ready(Err(_))));
    }
}
