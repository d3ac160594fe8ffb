//! What the tests of a request's cost share: the command in a process of its own, whose time and
//! memory are read while it runs.

#![allow(dead_code, reason = "each of them uses a part")]

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder of a test's own, gone when the test is over.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("rolecall-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder can be made");
        Folder(folder)
    }

    /// Writes a file and gives its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("the file can be written");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Seconds of the processor.
    pub seconds: f64,
    /// The most memory that the process had, in bytes.
    pub peak: f64,
    /// Bytes that it printed.
    pub printed: usize,
}

/// Runs the command to its end; an error says that it did not end in time. Its answer, good or bad,
/// is read and dropped.
pub fn cost_of(args: &[String], deadline: Duration) -> Result<Cost, String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rolecall"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let mut stdout = child.stdout.take().expect("it is a pipe");
    // What stands in the way of its printing is read by a thread, so that one that hangs can be
    // ended.
    let reader = std::thread::spawn(move || {
        let mut printed = 0;
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = stdout.read(&mut buffer) {
            printed += count;
        }
        printed
    });
    let mut cost = Cost::default();
    loop {
        if let Some(peak) = peak(&child) {
            cost.peak = peak;
        }
        // Of a process that has ended and was not waited for, the time can still be read.
        let (has_ended, seconds) = state(&child).ok_or("there is no /proc")?;
        cost.seconds = seconds;
        if has_ended {
            break;
        }
        if begun.elapsed() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it did not end within {} s", deadline.as_secs()));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    child.wait().map_err(|error| error.to_string())?;
    cost.printed = reader.join().map_err(|_| "its output could not be read")?;
    Ok(cost)
}

/// Whether this system tells what a process takes.
pub fn can_measure() -> bool {
    fs::metadata("/proc/self/stat").is_ok()
}

fn peak(child: &Child) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kilobytes| kilobytes * 1024.0)
}

/// Whether a process has ended, and the processor's time that it took.
fn state(child: &Child) -> Option<(bool, f64)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // The command's name is in brackets and may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some((fields.first() == Some(&"Z"), ticks / 100.0))
}
