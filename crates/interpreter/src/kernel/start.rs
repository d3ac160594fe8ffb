use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use jupyter_zmq_client::{KernelspecDir, read_kernelspec_jsons};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use super::connection::{CHANNELS, Connection, info};
use super::relay::relay;
use super::{LastWords, RunningKernel};
use crate::folder::{Folder, Usage};
use crate::options::{Isolation, KernelOptions};
use crate::sandbox::watch::{self, Allowance};
use crate::sandbox::{self, RUN, Sandboxed};
use crate::{Error, python};
use rolecall::conversation::json::{Layout, write};

/// What is started as a kernel, found once for many of them.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The program and its arguments. `{connection_file}` stands for the path of the connection file.
    argv: Vec<String>,
    env: Vec<(String, OsString)>,
    readable: Vec<PathBuf>,
    shown: Vec<(PathBuf, PathBuf)>,
}

impl Launch {
    /// Finds out what to start.
    pub async fn find(options: &KernelOptions) -> Result<Launch, Error> {
        let mut readable = options.readable.clone();
        let mut shown = Vec::new();
        let mut env: Vec<(String, OsString)> = Vec::new();
        let argv = match &options.kernelspec {
            Some(name) => {
                let found = find_kernelspec(name, options).await?;
                readable.push(found.path.clone());
                env.extend(found.kernelspec.env.into_iter().flatten().map(|(key, value)| (key, value.into())));
                let mut argv = found.kernelspec.argv;
                if let Some(program) = argv.first_mut()
                    && !program.contains('/')
                    && let Some(path) = sandbox::find_program(program)
                {
                    *program = path.display().to_string();
                }
                // A program that is not the system's is shown with the folder that it is installed in, and so is what it
                // is a link to.
                if let Some(program) = argv.first().map(Path::new) {
                    let target = program.canonicalize().ok();
                    let installed = [Some(program), target.as_deref()].into_iter().flatten();
                    readable.extend(installed.filter_map(|program| Some(program.parent()?.parent()?.to_owned())));
                    readable.extend(python::folders(program));
                }
                // A whole system or all homes are never shown.
                readable.retain(|path| path.components().count() > 2);
                argv
            }
            None => {
                let python = python::find(options)?;
                readable.extend(python.folders.iter().cloned());
                if let Some(fonts) = &python.fonts {
                    let name = fonts.file_name().unwrap_or_default();
                    shown.push((fonts.clone(), Path::new("/home/user/.config/matplotlib").join(name)));
                }
                let program = python.program.display().to_string();
                // Modules of the folder it works in are the code's, and not the kernel's.
                let module = [
                    "-I",
                    "-B",
                    "-m",
                    "ipykernel_launcher",
                    "-f",
                    "{connection_file}",
                    "--HistoryManager.enabled=False",
                ];
                std::iter::once(program).chain(module.map(str::to_owned)).collect()
            }
        };
        readable.retain(|path| path.exists() && !sandbox::is_shown(path));
        readable.sort();
        readable.dedup();
        if options.isolation == Isolation::Sandbox && rustix::process::geteuid().is_root() {
            readable.iter().try_for_each(|path| check_readable(path))?;
        }
        // As many threads as fit into the limit of processes, whatever this machine has.
        for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
            env.push((name.into(), "2".into()));
        }
        for (name, value) in
            [("PYTHONDONTWRITEBYTECODE", "1"), ("MPLBACKEND", "module://matplotlib_inline.backend_inline")]
        {
            env.push((name.into(), value.into()));
        }
        Ok(Launch { argv, env, readable, shown })
    }
}

/// Finds a kernelspec: beside the Python interpreter of the options, as in a virtual environment, or where Jupyter looks.
async fn find_kernelspec(name: &str, options: &KernelOptions) -> Result<KernelspecDir, Error> {
    let prefix = match &options.python {
        Some(python) => python.parent().and_then(Path::parent).map(Path::to_owned),
        None => Some(python::python_folder()),
    };
    if let Some(prefix) = prefix {
        let beside = read_kernelspec_jsons(&prefix.join("share/jupyter")).await;
        if let Some(found) = beside.into_iter().find(|spec| spec.kernel_name == name) {
            return Ok(found);
        }
    }
    jupyter_zmq_client::find_kernelspec(name).await.map_err(|error| Error::Missing {
        what: format!("there is no kernelspec `{name}`: {error}"),
        help: "`jupyter kernelspec list` shows those that are installed".into(),
    })
}

/// Checks that other users can read a folder: for root, a sandbox runs as a user of its own.
fn check_readable(path: &Path) -> Result<(), Error> {
    let hidden = path.ancestors().find(|folder| {
        let needed = if *folder == path { 0o005 } else { 0o001 };
        folder.metadata().is_ok_and(|data| data.is_dir() && data.permissions().mode() & needed != needed)
    });
    match hidden {
        None => Ok(()),
        Some(folder) => Err(Error::Missing {
            what: format!(
                "{} cannot be read in the sandbox, which is not root: others may not read {}",
                path.display(),
                folder.display()
            ),
            help: format!(
                "install it elsewhere, for example in {}, or run as another user",
                python::python_folder().display()
            ),
        }),
    }
}

/// Where the connection file is within the sandbox.
const CONNECTION: &str = "/run/connection.json";

/// The longest path of a socket.
const MOST_PATH: usize = 107;

/// Starts a kernel on a folder.
pub(super) async fn start(folder: &Folder, launch: &Launch, options: &KernelOptions) -> Result<RunningKernel, Error> {
    let deadline = Instant::now() + options.limits.start;
    let failed = |error: io::Error| Error::Start(format!("{}: {error}", folder.root().display()));
    let (run, relays) = folder.next_run().map_err(failed)?;
    let is_boxed = options.isolation == Isolation::Sandbox;
    if relays.as_os_str().len() + "/k-1".len() > MOST_PATH {
        let why = format!("{} is too long for the path of a socket: choose another folder", relays.display());
        return Err(Error::Start(why));
    }
    let key = Uuid::new_v4().simple().to_string();
    let within = if is_boxed { Path::new(RUN).to_owned() } else { run.clone() };
    // It is out of the reach of code, which sees it, and cannot replace it.
    let file = folder.root().join("connection.json");
    let _ = fs::remove_file(&file);
    fs::write(&file, connection_file(&info(&within.join("k"), &key))).map_err(failed)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).map_err(failed)?;
    if let Some(user) = folder.user().filter(|_| is_boxed) {
        std::os::unix::fs::chown(&file, Some(user), Some(user)).map_err(failed)?;
    }
    let (seen, mut shown) = (Path::new(CONNECTION).to_owned(), launch.shown.clone());
    shown.push((file.clone(), seen.clone()));
    let seen = if is_boxed { seen } else { file }.display().to_string();
    let argv = launch.argv.iter().map(|argument| argument.replace("{connection_file}", &seen).into()).collect();
    let run_folder = Some(run.as_path());
    let program =
        Sandboxed { argv, env: launch.env.clone(), readable: &launch.readable, shown: &shown, run: run_folder };
    let mut child = sandbox::command(folder, &program, options)?.spawn().map_err(failed)?;
    let process = child.id().unwrap_or_default();
    let last_words = LastWords::default();
    if let Some(output) = child.stdout.take() {
        tokio::spawn(listen(output, last_words.clone()));
    }
    if let Some(output) = child.stderr.take() {
        tokio::spawn(listen(output, last_words.clone()));
    }
    let (tell, broken) = mpsc::channel(4);
    let opened = async {
        for channel in CHANNELS {
            let (socket, address) = (run.join(format!("k-{channel}")), relays.join(format!("k-{channel}")));
            loop {
                match relay(&socket, &address, options.limits.message, tell.clone()).await {
                    Ok(()) => break,
                    // It is not there yet, or nobody listens yet.
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
                    {
                        sleep(Duration::from_millis(5)).await;
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        Connection::open(&info(&relays.join("k"), &key)).await
    };
    let connection = tokio::select! {
        opened = timeout_at(deadline, opened) => match opened {
            Ok(opened) => opened,
            Err(_) => Err(Error::Start(format!("it did not answer within {} s: {}", options.limits.start.as_secs(), last_words.text()))),
        },
        status = child.wait() => {
            // Its last words may still be on their way.
            sleep(Duration::from_millis(50)).await;
            let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(Error::Start(format!("{status}: {}", last_words.text())))
        }
    };
    let limits = options.limits.clone();
    let (at, of) = (folder.clone(), limits.clone());
    let room = tokio::task::spawn_blocking(move || watch::room(process, &at, &of)).await;
    let files = room.unwrap_or_else(|_| Usage::limit(&limits));
    let allowance = Allowance { processor_time: limits.start + limits.processor_time, files };
    let folder = folder.clone();
    match connection {
        Ok(connection) => {
            Ok(RunningKernel { child, process, connection, broken, last_words, folder, limits, allowance })
        }
        Err(error) => {
            let _ = child.kill().await;
            Err(error)
        }
    }
}

fn connection_file(info: &jupyter_protocol::ConnectionInfo) -> String {
    // Only what this crate writes is in it: paths, numbers and a key.
    let path = write(&info.ip.as_str().into(), &Layout::compact());
    format!(
        r#"{{"ip": {path}, "transport": "ipc", "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5, "key": "{}", "signature_scheme": "hmac-sha256"}}"#,
        info.key
    )
}

/// Keeps the end of what a process prints.
async fn listen(mut output: impl AsyncRead + Unpin, words: LastWords) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = output.read(&mut bytes).await {
        words.add(&bytes[..count]);
    }
}
