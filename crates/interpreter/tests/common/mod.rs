//! A pool that all tests share.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

pub mod script;

use std::env;
use std::sync::{Mutex, OnceLock, PoisonError};

use rolecall_interpreter::{
    Error, Execution, Interpreter, KernelLimits, KernelOptions, KernelSession, Pool, Stop, check,
};

/// Returns whether kernels run here. A check that must be complete sets a variable, and fails without them.
pub fn can_run() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let can = *CAN.get_or_init(|| {
        let check = check(&KernelOptions::default());
        let can = check.missing.is_empty();
        if !can {
            assert!(env::var_os("ROLECALL_COMPLETE").is_none(), "no kernel runs here: {check:?}");
        }
        can
    });
    if !can {
        note_skipped();
    }
    can
}

/// Notes a test that had no kernel, for the closing line of `cargo xtask test`.
fn note_skipped() {
    use std::io::Write;
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    eprintln!("NOT TESTED: no kernel runs here");
    if let Some(path) = env::var_os("ROLECALL_SKIPPED") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{name}\tcode that runs").unwrap();
    }
}

/// Returns options with limits that tests reach soon.
pub fn options() -> KernelOptions {
    use std::time::Duration;
    let limits = KernelLimits {
        memory: 512 << 20,
        processes: 64,
        processor_time: Duration::from_secs(20),
        wall_time: Duration::from_secs(30),
        // A busy machine takes its time.
        patience: Duration::from_secs(3),
        disk: 32 << 20,
        file_size: 16 << 20,
        files: 200,
        ..KernelLimits::default()
    };
    KernelOptions { limits, ..KernelOptions::default() }
}

/// Returns a session of the pool that tests share.
pub fn session() -> Option<KernelSession> {
    static POOL: OnceLock<Mutex<Pool>> = OnceLock::new();
    can_run().then(|| {
        let pool = POOL.get_or_init(|| Mutex::new(Pool::new(options(), 2, 64).unwrap()));
        pool.lock().unwrap_or_else(PoisonError::into_inner).session().unwrap()
    })
}

/// Returns a session with limits of its own.
pub fn limited(change: impl FnOnce(&mut KernelLimits)) -> Option<KernelSession> {
    can_run().then(|| {
        let mut options = options();
        change(&mut options.limits);
        Pool::new(options, 0, 1).unwrap().session().unwrap()
    })
}

/// Runs code.
pub fn run(session: &mut KernelSession, code: &str) -> Result<Execution, Error> {
    session.run(code, &Stop::default(), &mut |_| {})
}

/// Runs code, and returns what it prints, as a model reads it.
pub fn text(session: &mut KernelSession, code: &str) -> String {
    match run(session, code) {
        Ok(execution) => execution.text(|name| format!("<{name}>")),
        Err(error) => panic!("{error}"),
    }
}
