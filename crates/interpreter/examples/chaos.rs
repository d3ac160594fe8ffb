//! Many sessions call at once, while kernels are killed: each call gets a result or a typed error, and nothing is left
//! behind. `cargo run --release -p rolecall-interpreter --example chaos -- CALLS SESSIONS KILLS`

#![allow(clippy::panic, clippy::unwrap_used, reason = "a check that panics has failed, which is what it is for")]

use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rolecall_interpreter::{Interpreter, KernelOptions, Pool, Stop};
use rustix::process::{Pid, Signal, kill_process};

fn main() {
    let numbers: Vec<usize> = env::args().skip(1).map(|argument| argument.parse().expect("a number")).collect();
    let [calls, sessions, kills] = numbers[..] else { panic!("CALLS SESSIONS KILLS") };
    let folder = env::temp_dir().join(format!("rolecall-chaos-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let options = KernelOptions { folder: Some(folder.clone()), ..KernelOptions::default() };
    let begin = Instant::now();
    let pool = Pool::new(options, 2, sessions).unwrap();
    let living: Arc<Vec<Mutex<Option<u32>>>> = Arc::new((0..sessions).map(|_| Mutex::new(None)).collect());
    let (results, errors, killed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    let slowest = Mutex::new(Duration::ZERO);
    thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut state = 20_261_130_u64;
            while killed.load(Ordering::Relaxed) < kills && !is_over.load(Ordering::Relaxed) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % sessions;
                let process = living[at].lock().unwrap().and_then(|process| Pid::from_raw(process as i32));
                if process.is_some_and(|process| kill_process(process, Signal::KILL).is_ok()) {
                    killed.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(60));
            }
        });
        let callers: Vec<_> = (0..sessions)
            .map(|at| {
                let (living, results, errors, pool, slowest) =
                    (Arc::clone(&living), &results, &errors, pool.clone(), &slowest);
                scope.spawn(move || {
                    let mut session = pool.session().unwrap();
                    for call in 0..calls / sessions {
                        let code = format!("import time; time.sleep(0.05); {call} * 2");
                        let _ = session.warm_up();
                        *living[at].lock().unwrap() = session.process();
                        let begin = Instant::now();
                        match session.run(&code, &Stop::default(), &mut |_| {}) {
                            Ok(execution) => {
                                let text = execution.text(str::to_owned);
                                assert_eq!(text.lines().last(), Some((call * 2).to_string().as_str()));
                                results.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => {
                                assert!(error.lost_kernel() || error.code() == "kernel_start", "{error:?}");
                                errors.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        let mut slowest = slowest.lock().unwrap();
                        *slowest = begin.elapsed().max(*slowest);
                        *living[at].lock().unwrap() = None;
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        killer.join().unwrap();
    });
    let spent = begin.elapsed();
    drop(pool);
    // What is warm ends with the pool.
    let mut left = Vec::new();
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(50));
        left = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
        if left.is_empty() && processes(&folder) == 0 {
            break;
        }
    }
    let (results, errors, killed) = (results.into_inner(), errors.into_inner(), killed.into_inner());
    println!(
        "{results} results and {errors} typed errors of {calls} calls in {sessions} sessions, {killed} kernels killed, in {:.1} s; slowest call {:.1} s; left behind: {} folders, {} processes",
        spent.as_secs_f32(),
        slowest.into_inner().unwrap().as_secs_f32(),
        left.len(),
        processes(&folder)
    );
    let _ = fs::remove_dir(&folder);
    exit(i32::from(results + errors != calls / sessions * sessions || !left.is_empty() || killed < kills));
}

/// Returns how many processes have the folder among their arguments.
fn processes(folder: &std::path::Path) -> usize {
    let output = Command::new("pgrep").args(["-fc", &format!("bwrap.*{}", folder.display())]).output();
    output.ok().and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok()).unwrap_or(0)
}
