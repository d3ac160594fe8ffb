//! Runs what models call: code, in a real Jupyter kernel within a sandbox.
//!
//! # Overview
//!
//! 1. [`check`] says whether code can be run on this machine, and what to install if not.
//! 2. [`KernelOptions`] say how kernels are started, and [`KernelLimits`] what code may use.
//! 3. A [`Pool`] keeps kernels ready. A [`KernelSession`] is one conversation's: a [`Folder`] of files, and a kernel
//!    that keeps its variables from call to call.
//! 4. [`Interpreter::run`] runs code. What it prints and returns comes as [`CodeOutput`], and an [`Execution`] has all of it.
//! 5. [`Recorded`] answers what was recorded, for tests.
//!
//! 6. An [`agent`] is the loop: a model replies, its calls run, their results are the next turn.
//!
//! Calls wait for their end. Within an async task, call them where waiting is allowed (`spawn_blocking`).
//!
//! What the sandbox promises, and what not, is in `SECURITY.md`.

pub mod agent;
mod error;
mod folder;
mod interpreter;
mod kernel;
mod machine;
mod options;
mod output;
mod plain;
mod pool;
mod python;
mod recorded;
mod runtime;
mod sandbox;
mod session;

pub use error::{Error, LimitKind};
pub use folder::{FileEntry, Folder};
pub use interpreter::{Interpreter, Stop};
pub use machine::{MachineCheck, check};
pub use options::{DATA, Isolation, KernelLimits, KernelOptions};
pub use output::{CodeOutput, Execution};
pub use plain::plain;
pub use pool::Pool;
pub use python::python_folder;
pub use recorded::Recorded;
pub use session::KernelSession;
