//! Runs the command in a separate process and measures its time and memory. Shared by the tests of
//! a request's cost.

#![allow(dead_code, reason = "each test uses only a part of this module")]

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A temporary folder, removed after the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("rolecall-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder can be made");
        Folder(folder)
    }

    /// Returns the path of a file.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file and returns its path.
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

/// The cost of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// The processor time in seconds.
    pub seconds: f64,
    /// The peak memory of the process in bytes.
    pub peak: f64,
    /// The number of bytes printed.
    pub printed: usize,
}

/// Runs the command and discards its output, whether it succeeds or fails. Returns an error if it
/// does not end before the deadline.
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
    // A thread reads the output, so that the command does not block on a full pipe and can be
    // killed if it hangs.
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
        // The time of a process that has ended can be read until it is waited for.
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

/// Reports whether this system provides the time and memory of a process.
pub fn can_measure() -> bool {
    fs::metadata("/proc/self/stat").is_ok()
}

fn peak(child: &Child) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kilobytes| kilobytes * 1024.0)
}

/// Returns whether a process has ended, and its processor time in seconds.
fn state(child: &Child) -> Option<(bool, f64)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // The command's name is in parentheses and may contain spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some((fields.first() == Some(&"Z"), ticks / 100.0))
}
