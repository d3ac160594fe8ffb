//! The memory and the time of forks. A process of its own, since it measures the whole process.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::{Duration, Instant};

use crate::session_common::{PLAIN, empty, model, turn};
use rolecall::session::{Finish, Session};

const FORKS: usize = 1_000;

/// Returns a session with at least this many ids, in turns of 1,000.
fn of_length(ids: usize) -> Session {
    let mut session = empty(&model(PLAIN));
    let text = "x".repeat(900);
    while session.len() < ids {
        turn(&mut session, &text, "a<|im_end|>", Finish::Stop);
    }
    session
}

/// Returns the memory of this process in bytes.
fn memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns the least time of several runs that fork a session.
fn time_of(session: &Session) -> Duration {
    let run = || {
        let begun = Instant::now();
        let forks: Vec<Session> = (0..FORKS).map(|_| session.clone()).collect();
        let time = begun.elapsed();
        assert_eq!(forks.len(), FORKS);
        time
    };
    (0..20).map(|_| run()).min().unwrap()
}

#[test]
fn forks_share_their_ids_and_their_cost_does_not_depend_on_length() {
    let (short, long) = (of_length(1_000), of_length(100_000));
    let before = memory();
    let forks: Vec<Session> = (0..FORKS).map(|_| long.clone()).collect();
    if let (Some(before), Some(after)) = (before, memory()) {
        let added = after.saturating_sub(before);
        println!("{FORKS} forks of {} ids add {} KB", long.len(), added / 1024);
        assert!(added < 20_000_000, "{added} bytes");
    }
    drop(forks);
    let (of_short, of_long) = (time_of(&short), time_of(&long));
    println!("{FORKS} forks of {} ids take {of_short:?}, of {} ids {of_long:?}", short.len(), long.len());
    assert!(of_long < of_short * 3 + Duration::from_micros(200), "{of_short:?} {of_long:?}");
}
