//! What code must not be able to do to this machine. Each test tries, and something else sees that it did not work.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use rolecall_interpreter::{CodeOutput, Error, Folder, Interpreter, KernelOptions, LimitKind, plain};

use crate::common::{limited, run, session, text};

/// Runs one attempt, and returns the class of the error that refused it.
fn refused(code: &str) -> Option<String> {
    let mut session = session()?;
    let execution = run(&mut session, code).unwrap_or_else(|error| panic!("{code}: {error}"));
    match execution.error() {
        Some(CodeOutput::Error { name, message, .. }) => Some(format!("{name}: {message}")),
        _ => panic!("it was not refused: {code}: {execution:?}"),
    }
}

#[test]
fn no_network() {
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = here.local_addr().unwrap().port();
    let Some(error) = refused(&format!("import socket; socket.create_connection(('127.0.0.1', {port}), 2)")) else {
        return;
    };
    assert!(error.starts_with("ConnectionRefusedError"), "{error}");
    let here = TcpListener::bind("[::1]:0").ok().map_or(1, |here| here.local_addr().unwrap().port());
    for code in [
        format!("import socket; socket.create_connection(('::1', {here}), 2)"),
        "import socket; socket.create_connection(('10.255.255.254', 80), 2)".to_owned(),
        "import socket; socket.create_connection(('2001:db8::1', 80), 2)".to_owned(),
        "import socket; socket.getaddrinfo('example.com', 80)".to_owned(),
    ] {
        let error = refused(&code).unwrap();
        assert!(
            ["ConnectionRefused", "OSError", "gaierror"].iter().any(|name| error.starts_with(name)),
            "{code}: {error}"
        );
    }
    let mut session = session().unwrap();
    assert_eq!(text(&mut session, "open('/proc/net/dev').read().count(':')"), "1", "only the loopback device");
}

#[test]
fn no_abstract_sockets() {
    let name = format!("rolecall-test-{}", process::id());
    let _here = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let code = format!("import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')");
    let Some(error) = refused(&code) else { return };
    assert!(error.starts_with("ConnectionRefusedError"), "{error}");
}

#[test]
fn no_sockets_that_namespaces_do_not_divide() {
    // Packets, the host of a virtual machine, algorithms of the kernel, Bluetooth.
    for family in [17, 40, 38, 31, 15, 29] {
        let Some(error) = refused(&format!("import socket; socket.socket({family}, socket.SOCK_RAW)")) else { return };
        assert!(error.starts_with("PermissionError"), "{family}: {error}");
    }
    // Netlink is there for the addresses of the sandbox's own network alone.
    for protocol in 1..23 {
        let error = refused(&format!("import socket; socket.socket(16, socket.SOCK_RAW, {protocol})")).unwrap();
        assert!(error.starts_with("PermissionError"), "{protocol}: {error}");
    }
}

#[test]
fn homes_and_other_sessions_are_not_there() {
    let Some(mut session) = session() else { return };
    let other = Folder::new(&KernelOptions::default()).unwrap();
    other.write("secret", b"secret").unwrap();
    let (parent, home) = (env::temp_dir(), env::var("HOME").unwrap_or("/root".into()));
    for path in [
        other.path().join("secret"),
        parent.join("anything"),
        Path::new(&home).join(".profile"),
        "/etc/shadow".into(),
        "/var/log".into(),
    ] {
        assert_eq!(
            text(&mut session, &format!("import os; os.path.exists({:?})", path.display().to_string())),
            "False",
            "{path:?}"
        );
    }
    let another = crate::common::session().unwrap();
    another.folder().write("theirs", b"x").unwrap();
    assert!(
        !text(&mut session, "import os; [os.path.join(a, f) for a, b, c in os.walk('/') for f in c if f == 'theirs']")
            .contains("theirs")
    );
}

#[test]
fn no_environment_and_no_open_files_of_the_host() {
    let Some(mut session) = session() else { return };
    let seen = text(&mut session, "import os; print(open('/proc/1/environ').read(), dict(os.environ))");
    for (name, value) in env::vars().filter(|(name, _)| name.starts_with("CARGO")) {
        assert!(!seen.contains(&name) && (value.len() < 8 || !seen.contains(&value)), "{name}");
    }
    // Standard streams, and what the kernel itself opened: sockets, pipes, and files of the sandbox.
    let code = "import os\nfor p in [p for p in os.listdir('/proc') if p.isdigit()]:\n  try:\n    for f in os.listdir(f'/proc/{p}/fd'): print(os.readlink(f'/proc/{p}/fd/{f}'))\n  except OSError: pass";
    for line in text(&mut session, code).lines() {
        let is_own = [
            "socket:",
            "pipe:",
            "anon_inode:",
            "/dev/null",
            "/dev/urandom",
            "/proc",
            "/mnt/data",
            "/home/user",
            "/run/kernel",
            "/tmp",
            "/memfd:",
        ];
        assert!(is_own.iter().any(|start| line.starts_with(start)), "{line}");
    }
}

#[test]
fn a_fork_bomb_ends_within_its_limit() {
    let Some(mut session) = session() else { return };
    let begin = Instant::now();
    let code = "import os, time\nn = 0\ntry:\n  while True:\n    if os.fork() == 0:\n      time.sleep(600)\n      os._exit(0)\n    n += 1\nexcept OSError as e: print(type(e).__name__, n < 64)";
    let first = run(&mut session, code).unwrap();
    assert_eq!(first.text(|_| String::new()), "BlockingIOError True");
    let bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass";
    let error = run(&mut limited(|limits| limits.wall_time = Duration::from_secs(2)).unwrap(), bomb).unwrap_err();
    assert!(error.lost_kernel(), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn memory_is_limited() {
    let Some(mut session) = session() else { return };
    let error = text(&mut session, "x = bytearray(2 ** 30)");
    assert!(error.contains("MemoryError"), "{error}");
    // Many processes with a little each.
    let code = "import os, time\nfor i in range(8):\n  if os.fork() == 0:\n    x = os.urandom(2 ** 20) * 150\n    time.sleep(60)\n    os._exit(0)\ntime.sleep(20)";
    let error = run(&mut session, code).unwrap_err();
    assert_eq!(error, Error::Limit { kind: LimitKind::Memory, most: 512 << 20 });
    // Memory that is a file.
    for folder in ["/dev/shm", "/tmp", "/home/user"] {
        let code = format!("for i in range(9):\n  open(f'{folder}/{{i}}', 'wb').write(bytes(15 << 20))");
        let error = run(&mut session, &code).unwrap();
        assert!(error.text(|_| String::new()).contains("No space left"), "{error:?}");
    }
}

#[test]
fn disk_is_limited() {
    let Some(mut session) = session() else { return };
    assert!(text(&mut session, "open('big', 'wb').write(bytes(17 << 20))").contains("File too large"));
    let error = run(
        &mut session,
        "import time\nfor i in range(10):\n  open(f'b{i}', 'wb').write(bytes(15 << 20))\ntime.sleep(9)",
    )
    .unwrap_err();
    assert_eq!(error, Error::Limit { kind: LimitKind::Disk, most: 32 << 20 });
    let mut session = crate::common::session().unwrap();
    let error = run(&mut session, "import time\nfor i in range(1000): open(f'f{i}', 'w')\ntime.sleep(9)").unwrap_err();
    assert_eq!(error, Error::Limit { kind: LimitKind::Files, most: 200 });
}

#[test]
fn a_full_folder_may_be_emptied_and_not_filled() {
    let Some(mut session) = session() else { return };
    let fill = "import time\nfor i in range(1000): open(f'f{i}', 'w')\ntime.sleep(9)";
    let error = run(&mut session, fill).unwrap_err();
    assert!(error.to_string().ends_with("the folder is full, and code that deletes files may run"), "{error}");
    assert_eq!(text(&mut session, "x = 1").lines().count(), 1, "the note of a new kernel alone");
    // It is not ended between calls either.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(text(&mut session, "x"), "1");
    let error = run(&mut session, "open('more', 'w')\nimport time; time.sleep(9)").unwrap_err();
    assert_eq!(error, Error::Limit { kind: LimitKind::Files, most: 200 });
    let empty = "import os\nfor f in os.listdir('.'): os.remove(f)\nprint(os.listdir('.'))";
    assert!(text(&mut session, empty).ends_with("[]"));
    // Then the limit holds again.
    let error = run(&mut session, fill).unwrap_err();
    assert_eq!(error, Error::Limit { kind: LimitKind::Files, most: 200 });
}

#[test]
fn processor_time_is_limited_also_after_a_call() {
    let Some(mut session) = limited(|limits| limits.processor_time = Duration::from_secs(1)) else { return };
    let error = run(&mut session, "while True: pass").unwrap_err();
    assert_eq!(error, Error::Limit { kind: LimitKind::ProcessorTime, most: 1 });
    run(
        &mut session,
        "import threading\ndef f():\n  while True: pass\nthreading.Thread(target=f, daemon=True).start()",
    )
    .unwrap();
    let end = Instant::now() + Duration::from_secs(8);
    while session.process().is_some() {
        assert!(Instant::now() < end, "a thread works for ever");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_system_cannot_be_written() {
    for path in [
        "/usr/x",
        "/etc/x",
        "/x",
        "/dev/x",
        "/run/x",
        "/usr/bin/python3",
        "/mnt/x",
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
    ] {
        let Some(error) = refused(&format!("open({path:?}, 'w')")) else { return };
        assert!(
            ["OSError", "PermissionError", "FileNotFoundError"].iter().any(|name| error.starts_with(name)),
            "{path}: {error}"
        );
    }
}

#[test]
fn links_out_lead_nowhere() {
    let Some(mut session) = session() else { return };
    let secret = env::temp_dir().join(format!("rolecall-secret-{}", process::id()));
    fs::write(&secret, "secret").unwrap();
    let path = secret.display().to_string();
    text(&mut session, &format!("import os; os.symlink({path:?}, 'link'); os.symlink('/', 'root'); os.mkfifo('pipe')"));
    for name in ["link", "pipe", &format!("root{path}")] {
        assert!(session.folder().read(name).is_err(), "{name}");
    }
    assert!(text(&mut session, &format!("import os; os.link({path:?}, 'hard')")).contains("FileNotFoundError"));
    assert!(text(&mut session, "import os; os.link('/usr/bin/env', 'hard')").contains("Error"));
    // A picture is not written through a link that waits for it.
    text(&mut session, &format!("import os; os.symlink({path:?}, 'output-1.png')"));
    let execution = run(&mut session, "import matplotlib.pyplot as plt; plt.plot([1]); plt.show()").unwrap();
    assert_eq!(execution.pictures().collect::<Vec<_>>(), ["output-2.png"]);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    fs::remove_file(&secret).unwrap();
}

#[test]
fn no_signals_no_processes_and_no_system_of_the_host() {
    let Some(mut session) = session() else { return };
    let host = process::id();
    let seen = text(&mut session, "import os; sorted(int(p) for p in os.listdir('/proc') if p.isdigit())");
    assert!(seen.len() < 60, "{seen}");
    let killed = text(
        &mut session,
        &format!(
            "import os, signal\nfor p in range({host} - 5, {host} + 5):\n  try: os.kill(p, signal.SIGTERM); print('killed', p)\n  except OSError: pass"
        ),
    );
    assert_eq!(killed, "");
    assert_eq!(text(&mut session, "import os; os.path.exists('/sys/class')"), "False");
    for path in ["/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/sda", "/dev/vda", "/dev/kmsg"] {
        let error = refused(&format!("open({path:?}, 'rb').read(1)")).unwrap();
        assert!(error.contains("Error"), "{path}: {error}");
    }
}

#[test]
fn no_tracing_mounting_namespaces_and_keys() {
    let calls = [
        ("ptrace", 101),
        ("mount", 165),
        ("umount2", 166),
        ("pivot_root", 155),
        ("unshare", 272),
        ("setns", 308),
        ("keyctl", 250),
        ("add_key", 248),
        ("bpf", 321),
        ("perf_event_open", 298),
        ("userfaultfd", 323),
        ("chroot", 161),
        ("open_by_handle_at", 304),
        ("process_vm_readv", 310),
        ("fsopen", 430),
        ("reboot", 169),
        ("kexec_load", 246),
        ("syslog", 103),
    ];
    let Some(mut session) = session() else { return };
    if cfg!(target_arch = "x86_64") {
        for (name, number) in calls {
            let code = format!(
                "import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.syscall({number}, 0, 0, 0, 0, 0); (r, ctypes.get_errno())"
            );
            assert_eq!(text(&mut session, &code), "(-1, 1)", "{name}");
        }
        // The same calls by the numbers of x32, and io_uring.
        for number in [0x4000_0000u32 + 101, 425] {
            let code = format!(
                "import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.syscall({number}, 0, 0, 0, 0, 0); (r, ctypes.get_errno())"
            );
            assert_eq!(text(&mut session, &code), "(-1, 38)", "{number}");
        }
    }
    // Each kind of new namespace by clone, too.
    let code = "import ctypes; c = ctypes.CDLL(None, use_errno=True)\nfor flag in [0x10000000, 0x20000000, 0x40000000, 0x00020000, 0x04000000, 0x08000000, 0x02000000]:\n  r = c.syscall(56, flag | 17, 0, 0, 0, 0)\n  print(r if r <= 0 else 'new')\n  if r == 0: import os; os._exit(0)";
    assert_eq!(text(&mut session, code).lines().filter(|line| *line == "-1").count(), 7);
}

#[test]
fn limits_cannot_be_raised_nor_privileges_gained() {
    let Some(mut session) = session() else { return };
    for limit in ["RLIMIT_NPROC", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE"] {
        let code = format!(
            "import resource as r\na, b = r.getrlimit(r.{limit})\ntry: r.setrlimit(r.{limit}, (b + 1, b + 1)); print('raised')\nexcept ValueError: print('refused', b)"
        );
        assert!(text(&mut session, &code).starts_with("refused"), "{limit}");
    }
    assert!(text(&mut session, "import os; os.setuid(0)").contains("Error"));
    assert!(
        text(&mut session, "[l for l in open('/proc/self/status') if l[:6] in ('CapEff', 'CapPrm', 'CapBnd')]")
            .matches("0000000000000000")
            .count()
            == 3
    );
    assert!(text(&mut session, "open('/proc/self/status').read()").contains("NoNewPrivs:\\t1"));
}

#[test]
fn what_a_terminal_would_obey_is_taken_out() {
    let Some(mut session) = session() else { return };
    let code = r"print('\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m \x1b]52;c;AAAA\x1b\\ok\x9b31m\u202eabc', end='')";
    assert_eq!(text(&mut session, code), "red okabc");
    // Divided between two messages.
    let code = "import sys, time\nsys.stdout.write('\\x1b[3'); sys.stdout.flush(); time.sleep(0.5)\nsys.stdout.write('1mred'); sys.stdout.flush()";
    assert_eq!(text(&mut session, code), "red");
    assert_eq!(text(&mut session, r"raise ValueError('\x1b[2Jx')").lines().last(), Some("ValueError: x"));
    assert_eq!(plain("10 %\r20 %\r\ndone"), "20 %\ndone");
}

/// Reads the connection file, and speaks to the kernel's own sockets.
const FORGE: &str = "import json, socket, os, hmac, hashlib\ninfo = json.load(open('/run/connection.json'))";

#[test]
fn the_sockets_of_the_kernel_are_no_way_out() {
    let Some(mut session) = session() else { return };
    let execution = run(&mut session, FORGE).unwrap();
    assert!(execution.error().is_none(), "{execution:?}");
    // Messages that nobody expects: not JSON, of an unknown type, with a wrong shape, and an end before the end.
    let code = "from ipykernel.kernelapp import IPKernelApp\nk = IPKernelApp.instance().kernel\ns = k.session\n\
        p = k.get_parent()\n\
        for t, c in [('nothing', {}), ('stream', {}), ('status', {'execution_state': 5}), ('display_data', {'data': {'image/png': '!!!'}, 'metadata': {}})]:\n  s.send(k.iopub_socket, t, c, parent=p)\n\
        k.iopub_socket.send_multipart([b'x', b'<IDS|MSG>', b'y'])\nk.iopub_socket.send(b'z')\n\
        s.send(k.iopub_socket, 'status', {'execution_state': 'idle'}, parent=p)\nimport time; time.sleep(0.2)\nprint('after')";
    let execution = run(&mut session, code).unwrap();
    assert!(
        execution
            .outputs
            .iter()
            .any(|output| matches!(output, CodeOutput::Note(note) if note.contains("a picture could not be kept"))),
        "{execution:?}"
    );
    assert_eq!(text(&mut session, "1 + 1"), "2");
    // The sockets are replaced. Nobody connects to what is there now.
    let code = "import os, socket\nfor n in os.listdir('/run/kernel'): os.remove(f'/run/kernel/{n}')\n\
        t = socket.socket(socket.AF_UNIX); t.bind('/run/kernel/k-1'); t.listen(); t.settimeout(1)\n\
        try: t.accept(); print('connected')\nexcept TimeoutError: print('nobody')";
    assert_eq!(text(&mut session, code), "nobody");
    assert_eq!(text(&mut session, "1 + 1"), "2");
}

#[test]
fn a_frame_without_end_ends_the_kernel_alone() {
    let Some(mut session) = session() else { return };
    // The iopub socket's file descriptor of the process is found by what is connected there, and gets 2^60 bytes' length.
    let code = "import os, socket, stat\nfor n in map(int, os.listdir('/proc/self/fd')):\n  try:\n    if not stat.S_ISSOCK(os.fstat(n).st_mode): continue\n    s = socket.socket(fileno=os.dup(n))\n    if str(s.getsockname()).startswith('/run/kernel/k-2'): s.send(b'\\x02' + (2 ** 60).to_bytes(8, 'big'))\n  except OSError: pass\nimport time; time.sleep(5)";
    let error = run(&mut session, code).unwrap_err();
    assert_eq!(error, Error::Limit { kind: LimitKind::Message, most: 8 << 20 });
    assert!(run(&mut session, "1").unwrap().is_new_kernel);
}

/// Runs code in a session of its own that is expected to go beyond a limit.
fn beyond(code: &str) -> Option<LimitKind> {
    let mut session = limited(|limits| limits.disk = 24 << 20)?;
    match run(&mut session, &format!("{code}\nimport time; time.sleep(10)")) {
        Err(Error::Limit { kind, .. }) => Some(kind),
        other => panic!("{code}: {other:?}"),
    }
}

#[test]
fn disk_space_that_no_name_shows_counts_too() {
    let code = "fs = []\nimport os\nfor i in range(4):\n  f = open('x', 'wb'); f.write(bytes(10 << 20)); f.flush(); os.unlink('x'); fs.append(f)";
    let Some(kind) = beyond(code) else { return };
    assert_eq!(kind, LimitKind::Disk);
    let code = "for i in range(4): open(f'/run/kernel/{i}', 'wb').write(bytes(10 << 20))";
    assert_eq!(beyond(code), Some(LimitKind::Disk));
    let code = "import os\nfor i in range(40):\n  os.mkdir('d'); os.chdir('d')\nopen('x', 'w').write('x')";
    assert_eq!(beyond(code), Some(LimitKind::Files));
    if !rustix::process::geteuid().is_root() {
        assert_eq!(beyond("import os; os.mkdir('d'); os.chmod('d', 0o300)"), Some(LimitKind::Files));
    }
    assert_eq!(beyond("for i in range(4): open(f'h{i}', 'wb').truncate(10 << 20)"), Some(LimitKind::Disk));
    let mut session = session().unwrap();
    let code = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.fallocate(os.open('f', os.O_CREAT | os.O_RDWR), 1, 0, ctypes.c_long(8 << 20)), ctypes.get_errno()";
    assert_eq!(text(&mut session, code), "(-1, 38)");
}

#[test]
fn memory_that_is_shared_or_of_a_thread_alone_counts_too() {
    let code = "import mmap\nm = mmap.mmap(-1, 600 << 20)\nfor i in range(0, 600 << 20, 4096): m[i] = 1";
    let Some(kind) = beyond(code) else { return };
    assert_eq!(kind, LimitKind::Memory);
    // The first thread of each process ends, and the others have the memory.
    let code = "import os, threading, ctypes, time\nfor i in range(4):\n  if os.fork() == 0:\n    def f():\n      x = os.urandom(1 << 20) * 200\n      time.sleep(60)\n    threading.Thread(target=f).start(); time.sleep(0.1); ctypes.CDLL(None).syscall(60, 0)";
    if cfg!(target_arch = "x86_64") {
        assert_eq!(beyond(code), Some(LimitKind::Memory));
    }
    let mut session = session().unwrap();
    assert!(text(&mut session, "import os; os.memfd_create('x')").contains("OSError"));
}

#[test]
fn what_code_leaves_is_not_run_when_its_kernel_starts_again() {
    let Some(mut session) = session() else { return };
    let name = format!("/tmp/rolecall-host-{}", process::id());
    let _ = fs::remove_file(&name);
    let here = UnixListener::bind(&name).unwrap();
    here.set_nonblocking(true).unwrap();
    let trap = format!(
        "import os; os.remove('/run/kernel/k-1') if os.path.exists('/run/kernel/k-1') else 0; os.symlink({name:?}, '/run/kernel/k-1'); import time; time.sleep(1)"
    );
    for module in ["ipykernel_launcher", "ipykernel", "json", "pathlib", "sitecustomize", "usercustomize", "traitlets"]
    {
        session.folder().write(&format!("{module}.py"), trap.as_bytes()).unwrap();
    }
    let code =
        "import os; os.mkdir('/run/kernel/x'); os.symlink('/etc/passwd', '/run/kernel/connection.json'); os._exit(1)";
    assert!(run(&mut session, code).is_err());
    assert_eq!(text(&mut session, "1 + 1").lines().last(), Some("2"));
    assert!(here.accept().is_err(), "somebody connected");
    fs::remove_file(&name).unwrap();
}

#[test]
fn floods_of_errors_and_of_taken_names_end_soon() {
    let Some(mut session) = session() else { return };
    let begin = Instant::now();
    let code = "from ipykernel.kernelapp import IPKernelApp\nk = IPKernelApp.instance().kernel; p = k.get_parent()\nfor i in range(200): k.session.send(k.iopub_socket, 'error', {'ename': 'E', 'evalue': 'v', 'traceback': ['\\n' * 20000]}, parent=p)";
    let execution = run(&mut session, code).unwrap();
    assert!(
        execution.outputs.len() <= 9 && execution.text(|_| String::new()).len() < 200_000,
        "{}",
        execution.outputs.len()
    );
    let code = "for i in range(1, 190): open(f'output-{i}.png', 'w')\nimport matplotlib.pyplot as plt; plt.plot([1]); plt.show()";
    let execution = run(&mut session, code).unwrap();
    assert_eq!(execution.pictures().count(), 1, "{execution:?}");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn nothing_is_left_when_a_session_ends() {
    let Some(mut session) = limited(|_| {}) else { return };
    text(&mut session, "import os\nfor i in range(20):\n  os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)");
    let (root, process) = (session.folder().path().parent().unwrap().to_owned(), session.process().unwrap());
    drop(session);
    assert!(!root.exists() && !Path::new(&format!("/proc/{process}")).exists());
}
