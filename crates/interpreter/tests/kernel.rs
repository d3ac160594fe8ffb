//! Code that runs, and what comes of it.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::thread;
use std::time::{Duration, Instant};

use rolecall_interpreter::{CodeOutput, Error, Interpreter, KernelOptions, LimitKind, Pool, Stop};

use crate::common::{can_run, limited, options, run, session, text};

#[test]
fn variables_stay_from_call_to_call() {
    let Some(mut session) = session() else { return };
    assert_eq!(text(&mut session, "x = 2"), "");
    assert_eq!(text(&mut session, "x + 1"), "3");
    let mut other = crate::common::session().unwrap();
    assert!(text(&mut other, "x").contains("NameError"));
}

#[test]
fn a_kernel_of_another_language_runs_in_the_same_sandbox() {
    if !can_run() {
        return;
    }
    let options = KernelOptions { kernelspec: Some("bash".into()), ..options() };
    let mut session = match Pool::new(options.clone(), 0, 1).and_then(|pool| pool.session()) {
        Ok(session) => session,
        // `.ci/interpreter` installs it.
        Err(Error::Missing { what, .. }) if std::env::var_os("ROLECALL_COMPLETE").is_none() => {
            assert!(what.contains("no kernelspec `bash`"), "{what}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    session.folder().write("data.csv", b"1,2\n").unwrap();
    assert_eq!(text(&mut session, "x=41; cat data.csv").trim(), "1,2");
    assert_eq!(text(&mut session, "echo $((x + 1)); pwd").trim(), "42\n/mnt/data");
    let outside = text(&mut session, "ls /root /etc/shadow; : < /dev/tcp/1.1.1.1/80");
    assert!(outside.matches("No such file").count() == 2 && outside.contains("unreachable"), "{outside}");
    let missing = KernelOptions { kernelspec: Some("no-such".into()), ..options };
    let error = Pool::new(missing, 0, 1).and_then(|pool| pool.session()).unwrap_err();
    assert!(error.to_string().contains("there is no kernelspec `no-such`"), "{error}");
}

#[test]
fn outputs_come_in_order_each_as_what_it_is() {
    let Some(mut session) = session() else { return };
    let code =
        "import sys, os\nprint('a')\nprint('b', file=sys.stderr)\nsys.stdout.flush()\nos.system('echo c')\n[1, 2]";
    let mut shown = Vec::new();
    let execution = session.run(code, &Stop::default(), &mut |output| shown.push(output.clone())).unwrap();
    assert!(execution.outputs.contains(&CodeOutput::Result("[1, 2]".into())), "{execution:?}");
    assert!(execution.outputs.contains(&CodeOutput::Stderr("b\n".into())), "{execution:?}");
    // What a process prints comes when it comes.
    assert!(execution.text(|_| String::new()).lines().any(|line| line == "c"), "{execution:?}");
    assert!(!shown.is_empty());
    let execution = run(&mut session, "1 / 0").unwrap();
    let Some(CodeOutput::Error { name, message, traceback }) = execution.error() else { panic!("{execution:?}") };
    assert_eq!((name.as_str(), message.as_str()), ("ZeroDivisionError", "division by zero"));
    assert!(
        traceback.iter().any(|line| line.contains("1 / 0")) && !traceback.concat().contains('\u{1b}'),
        "{traceback:?}"
    );
}

#[test]
fn pictures_and_tables() {
    let Some(mut session) = session() else { return };
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()";
    let execution = run(&mut session, code).unwrap();
    assert_eq!(execution.pictures().collect::<Vec<_>>(), ["output-1.png"], "{execution:?}");
    assert_eq!(&session.folder().read("output-1.png").unwrap()[1..4], b"PNG");
    assert_eq!(text(&mut session, code), "<output-2.png>");
    assert_eq!(text(&mut session, "import pandas as pd\npd.DataFrame({'a': [1, 2]})"), "   a\n0  1\n1  2");
}

#[test]
fn files_go_in_and_come_out() {
    let Some(mut session) = session() else { return };
    session.folder().write("data.csv", b"a\n1\n").unwrap();
    assert_eq!(text(&mut session, "open('/mnt/data/data.csv').read()"), "'a\\n1\\n'");
    assert_eq!(text(&mut session, "import os\nos.makedirs('x')\nopen('x/new.txt', 'w').write('z')"), "1");
    let names: Vec<String> = session.folder().list().unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["data.csv", "x/new.txt"]);
    let sizes: Vec<u64> = session.folder().list().unwrap().into_iter().map(|entry| entry.size).collect();
    assert_eq!(sizes, [4, 1]);
    assert_eq!(session.folder().read("/mnt/data/x/new.txt").unwrap(), b"z");
}

#[test]
fn code_is_stopped_and_variables_stay() {
    let Some(mut session) = session() else { return };
    let stop = Stop::default();
    let stopper = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        stopper.stop();
    });
    let begin = Instant::now();
    let execution = session.run("x = 5\nwhile True: pass", &stop, &mut |_| {}).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(execution.outputs.last(), Some(&CodeOutput::Note("the code was stopped".into())));
    assert_eq!(text(&mut session, "x"), "5");
}

#[test]
fn code_that_is_stopped_before_it_begins_is_never_run() {
    let Some(mut session) = session() else { return };
    let stop = Stop::default();
    let also = Stop::default().or(&stop);
    stop.stop();
    for stop in [stop, also] {
        let end = session.run("open('ghost', 'w').write('x')", &stop, &mut |_| {});
        assert_eq!(end, Err(Error::NotBegun));
    }
    assert_eq!(text(&mut session, "import os; os.listdir('.')"), "[]");
}

#[test]
fn code_that_ignores_interrupts_is_ended_and_the_session_goes_on() {
    let Some(mut session) = limited(|limits| limits.wall_time = Duration::from_secs(1)) else { return };
    session.folder().write("kept", b"kept").unwrap();
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let error = run(&mut session, code).unwrap_err();
    assert_eq!(error, Error::Limit { kind: LimitKind::WallTime, most: 1 });
    let execution = run(&mut session, "print(open('kept').read())").unwrap();
    assert!(execution.is_new_kernel);
    let text = execution.text(|_| String::new());
    assert_eq!(text, "[the kernel was started again: variables and imports are gone, files are still there]\nkept");
    assert!(!run(&mut session, "1").unwrap().is_new_kernel);
}

#[test]
fn an_interrupt_at_the_limit_keeps_the_kernel() {
    let Some(mut session) = limited(|limits| limits.wall_time = Duration::from_secs(1)) else { return };
    let execution = run(&mut session, "x = 1\nimport time\ntime.sleep(60)").unwrap();
    assert_eq!(execution.outputs.last(), Some(&CodeOutput::Note("the code was stopped after 1 s, its limit".into())));
    assert_eq!(text(&mut session, "x"), "1");
}

#[test]
fn a_kernel_that_ends_is_an_error_of_the_call() {
    let Some(mut session) = session() else { return };
    for code in [
        "import os; os._exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import ctypes; ctypes.string_at(0)",
    ] {
        let error = run(&mut session, code).unwrap_err();
        assert!(matches!(error, Error::Died(_)), "{code}: {error:?}");
        assert!(run(&mut session, "1").unwrap().is_new_kernel);
    }
}

#[test]
fn long_output_is_cut_with_a_note() {
    let Some(mut session) = limited(|limits| limits.text = 1000) else { return };
    let execution = run(&mut session, "print('é' * 5000)\n'end'").unwrap();
    let [CodeOutput::Stdout(text), CodeOutput::Note(note)] = execution.outputs.as_slice() else {
        panic!("{execution:?}")
    };
    assert_eq!((text.len(), note.as_str()), (1000, "9006 more bytes of output were cut; at most 1000 are kept"));
}

#[test]
fn input_is_refused_at_once() {
    let Some(mut session) = session() else { return };
    assert!(text(&mut session, "input('name?')").contains("StdinNotImplementedError"));
}
