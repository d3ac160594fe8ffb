use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment, in microseconds since 1970.
pub type Moment = u64;

/// Returns now.
pub fn moment() -> Moment {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the moment that was so long ago.
pub fn before(age: Duration) -> Moment {
    moment().saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX))
}
