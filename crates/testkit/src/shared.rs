use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::{env, thread};

/// The folder of references beside the workspace, if it is there. A test that does without it calls [`say_skipped`].
pub fn shared() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    folder.join("golden").is_dir().then_some(folder)
}

/// Says what this test did not try because `../shared` is not there.
///
/// The line goes to stderr, past the capture of a test's output, and to the file that `ROLECALL_SKIPPED` names:
/// `cargo xtask test` sums these lines up in its closing line.
pub fn say_skipped(what: &str) {
    // A test has nowhere else to say it.
    let _ = writeln!(std::io::stderr(), "skipped: ../shared is not there, so {what}");
    let Some(record) = env::var_os("ROLECALL_SKIPPED") else { return };
    let binary = env::current_exe().ok();
    let binary = binary.as_deref().and_then(|path| path.file_stem()).map(|name| name.to_string_lossy().into_owned());
    let thread = thread::current();
    let line = format!("{} {}\t{what}\n", binary.unwrap_or_default(), thread.name().unwrap_or_default());
    let written = OpenOptions::new().append(true).create(true).open(&record);
    let written = written.and_then(|mut record| record.write_all(line.as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", record.display());
}
