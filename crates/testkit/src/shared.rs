use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::{env, thread};

/// Returns the folder of references next to the workspace, if it exists. A test that runs without
/// it calls [`say_skipped`].
pub fn shared() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    folder.join("golden").is_dir().then_some(folder)
}

/// Reports what this test skips because `../shared` is missing.
///
/// The line goes to stderr, past the capture of a test's output, and to the file named by
/// `ROLECALL_SKIPPED`. `cargo xtask test` sums up these lines in its last line.
pub fn say_skipped(what: &str) {
    // If stderr is closed, there is nowhere else to report to.
    let _ = writeln!(std::io::stderr(), "skipped: ../shared is missing, so {what}");
    let Some(record) = env::var_os("ROLECALL_SKIPPED") else { return };
    let binary = env::current_exe().ok();
    let binary = binary.as_deref().and_then(|path| path.file_stem()).map(|name| name.to_string_lossy().into_owned());
    let thread = thread::current();
    let line = format!("{} {}\t{what}\n", binary.unwrap_or_default(), thread.name().unwrap_or_default());
    let written = OpenOptions::new().append(true).create(true).open(&record);
    let written = written.and_then(|mut record| record.write_all(line.as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", record.display());
}
