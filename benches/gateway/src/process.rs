//! The processes that are measured.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::Outcome;

/// A process that ends with the benchmark.
pub struct Process(Child);

impl Process {
    /// Starts a program on one of the processor's cores.
    pub fn start(core: usize, program: &str, arguments: &[String], log: &str) -> Outcome<Process> {
        let log = fs::File::create(std::env::temp_dir().join(log))?;
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string(), program]).args(arguments);
        // smg asks the model hub for a file of the model with each request. Where the hub cannot be reached, it
        // would wait for a name server.
        command.env("HF_ENDPOINT", "http://127.0.0.1:9");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Process(command.spawn()?))
    }

    /// Returns the bytes of memory that it has.
    pub fn memory(&self) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("expected VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024)
    }

    /// Returns the processor time that it took.
    pub fn processor(&self) -> Outcome<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        // The name in parentheses may have spaces.
        let rest = stat.rsplit_once(") ").ok_or("expected a process")?.1;
        let ticks = rest.split(' ').skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        // Linux counts 100 of them per second.
        Ok(Duration::from_millis(ticks * 10))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something listens on a port.
pub async fn wait_for(port: u16) -> Outcome<()> {
    for _ in 0..600 {
        if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(100)).await;
    }
    Err(format!("nothing listens on port {port}").into())
}
