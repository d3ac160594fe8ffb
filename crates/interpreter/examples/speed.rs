//! How long a kernel takes to start, a warm one to answer first, and a call: beside a bare kernel, driven by
//! `jupyter_client`. `cargo run --release -p rolecall-interpreter --example speed`

#![allow(clippy::panic, clippy::unwrap_used, reason = "a measurement that panics has failed")]

use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, thread};

use rolecall_interpreter::{Interpreter, KernelOptions, Pool, Stop, python_folder};

/// Starts a bare kernel over IPC, and prints the medians in milliseconds: its start, and a call.
const BARE: &str = r#"
import statistics, tempfile, time
from jupyter_client import KernelManager
starts, calls = [], []
for _ in range(5):
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        manager = KernelManager(transport='ipc', ip=folder + '/k')
        manager.start_kernel()
        client = manager.client()
        client.start_channels()
        client.wait_for_ready()
        starts.append(time.perf_counter() - begin)
        for _ in range(40):
            begin = time.perf_counter()
            client.execute_interactive('1 + 1', output_hook=lambda message: None)
            calls.append(time.perf_counter() - begin)
        client.stop_channels()
        manager.shutdown_kernel(now=True)
print(statistics.median(starts) * 1000, statistics.median(calls) * 1000)
"#;

fn main() {
    let run = |session: &mut rolecall_interpreter::KernelSession| {
        let begin = Instant::now();
        session.run("1 + 1", &Stop::default(), &mut |_| {}).unwrap();
        begin.elapsed()
    };
    let (mut starts, mut firsts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        let pool = Pool::new(KernelOptions::default(), 0, 1).unwrap();
        let mut session = pool.session().unwrap();
        let begin = Instant::now();
        session.warm_up().unwrap();
        starts.push(begin.elapsed());
        run(&mut session);
        calls.extend((0..40).map(|_| run(&mut session)));
    }
    for _ in 0..5 {
        let pool = Pool::new(KernelOptions::default(), 1, 1).unwrap();
        while pool.ready() == 0 {
            thread::sleep(Duration::from_millis(10));
        }
        let begin = Instant::now();
        let mut session = pool.session().unwrap();
        run(&mut session);
        firsts.push(begin.elapsed());
    }
    let python = env::args().nth(1).map_or_else(|| python_folder().join("bin/python"), Into::into);
    let output = Command::new(python).args(["-c", BARE]).output().unwrap();
    let bare: Vec<f64> =
        String::from_utf8_lossy(&output.stdout).split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let [bare_start, bare_call] = bare[..] else { panic!("{}", String::from_utf8_lossy(&output.stderr)) };
    let (start, first, call) = (median(starts), median(firsts), median(calls));
    println!(
        "start of a kernel in its sandbox: {start:.0} ms; a bare one: {bare_start:.0} ms; ratio {:.2}",
        start / bare_start
    );
    println!("first result of a warm kernel: {first:.1} ms");
    println!("a call: {call:.1} ms; on a bare kernel: {bare_call:.1} ms; difference {:.1} ms", call - bare_call);
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}
