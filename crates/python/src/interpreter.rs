use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict};
use rolecall::conversation::{Json, object};
use rolecall_interpreter::agent::AgentEvent;
use rolecall_interpreter::{
    CodeOutput, Error, Execution, FileEntry, Folder, Isolation, KernelLimits, KernelOptions, KernelSession, Pool, Stop,
    check,
};

use crate::error::Fault;
use crate::{caller, error, input, output};

/// A code interpreter: a real Jupyter kernel in a sandbox, with a folder of files.
///
/// `Model.run` runs the code of models with it. Variables and files stay from call to call, until `close`, the end
/// of a `with` block, or the end of the object. The kernel starts with the first code.
///
/// `python` is a Python interpreter that has the package `ipykernel`; `kernelspec` the name of an installed kernel of
/// another language; `time` the most seconds that a call may take; `memory` the most bytes that the kernel may use.
/// `unsafe_no_sandbox` runs code with all that this process may do.
///
/// Raises `InterpreterError` if something is missing on this machine, with what to install.
///
/// >>> with rolecall.Interpreter() as interpreter:  # doctest: +SKIP
/// ...     interpreter.write("data.csv", b"a,b\n1,2\n")
/// ...     interpreter.run("sum(map(int, open('data.csv').readlines()[1].split(',')))")
/// [{'type': 'output', 'kind': 'result', 'text': '3'}]
#[pyclass(frozen, module = "rolecall")]
pub struct Interpreter(Mutex<Option<SharedSession>>);

/// A session that several runs use, one after the other.
#[derive(Clone)]
pub struct SharedSession {
    session: Arc<Mutex<KernelSession>>,
    folder: Folder,
}

impl SharedSession {
    pub fn open(options: KernelOptions) -> Result<SharedSession, Error> {
        let session = Pool::new(options, 0, 1)?.session()?;
        let folder = rolecall_interpreter::Interpreter::folder(&session).clone();
        Ok(SharedSession { session: Arc::new(Mutex::new(session)), folder })
    }

    /// Starts the kernel, if it does not run.
    pub fn warm_up(&self, py: Python<'_>) -> PyResult<()> {
        let warm = py.detach(|| self.session.lock().unwrap_or_else(PoisonError::into_inner).warm_up());
        warm.map_err(|error| error::of_interpreter(py, &error))
    }
}

impl rolecall_interpreter::Interpreter for SharedSession {
    fn run(&mut self, code: &str, stop: &Stop, show: &mut dyn FnMut(&CodeOutput)) -> Result<Execution, Error> {
        // A callback of the code that runs may ask for more of it, and would wait for itself.
        match self.session.try_lock() {
            Ok(mut session) => session.run(code, stop, show),
            Err(std::sync::TryLockError::Poisoned(session)) => session.into_inner().run(code, stop, show),
            Err(std::sync::TryLockError::WouldBlock) => Err(Error::Busy),
        }
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Interpreter {
    /// Returns the session, if it was not closed.
    pub fn session(&self, py: Python<'_>) -> PyResult<SharedSession> {
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        session.ok_or_else(|| {
            let message = "the interpreter was closed".to_owned();
            Fault { class: "InterpreterError", code: "closed", message, place: None, help: None }.raise(py)
        })
    }
}

#[pymethods]
impl Interpreter {
    #[new]
    #[pyo3(
        signature = (*, python=None, kernelspec=None, time=None, memory=None, unsafe_no_sandbox=None),
        text_signature = "(*, python=None, kernelspec=None, time=120.0, memory=1073741824, unsafe_no_sandbox=False)"
    )]
    fn new(
        py: Python<'_>,
        python: Option<&Bound<'_, PyAny>>,
        kernelspec: Option<&Bound<'_, PyAny>>,
        time: Option<&Bound<'_, PyAny>>,
        memory: Option<&Bound<'_, PyAny>>,
        unsafe_no_sandbox: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Interpreter> {
        let options = KernelArguments { python, kernelspec, time, memory, unsafe_no_sandbox }.options()?;
        open(py, options).map(|session| Interpreter(Mutex::new(Some(session))))
    }

    /// Finds out whether code can be run on this machine, by running some. Returns a dict: what was `found` and what
    /// is `missing`, as lists of lines, and the command to `install` it, or None. The arguments are those of the class.
    ///
    /// >>> sorted(rolecall.Interpreter.check())
    /// ['found', 'install', 'missing']
    #[staticmethod]
    #[pyo3(
        signature = (*, python=None, kernelspec=None, time=None, memory=None, unsafe_no_sandbox=None),
        text_signature = "(*, python=None, kernelspec=None, time=120.0, memory=1073741824, unsafe_no_sandbox=False)"
    )]
    fn check(
        py: Python<'_>,
        python: Option<&Bound<'_, PyAny>>,
        kernelspec: Option<&Bound<'_, PyAny>>,
        time: Option<&Bound<'_, PyAny>>,
        memory: Option<&Bound<'_, PyAny>>,
        unsafe_no_sandbox: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let options = KernelArguments { python, kernelspec, time, memory, unsafe_no_sandbox }.options()?;
        let check = py.detach(|| check(&options));
        let lines = |lines: &[String]| lines.iter().map(|line| line.as_str().into()).collect::<Vec<Json>>();
        let install = check.install.as_deref().map_or(Json::Null, Into::into);
        let check =
            object! { "found" => lines(&check.found), "missing" => lines(&check.missing), "install" => install };
        output::object(py, &check.into())
    }

    /// Runs code until it ends, and returns what it printed and returned: dicts with a `kind` ("stdout", "stderr",
    /// "result", "picture", "error" or "note") and a `text`. A picture has its `name` among the files and its `media`
    /// type, an error its `name` and `traceback`.
    ///
    /// `on_output` is called with each of them as it comes. An error of the code is output. Raises `InterpreterError`
    /// if the kernel ends, at a limit or otherwise; the next call gets a new one, and the files are still there.
    #[pyo3(signature = (code, *, on_output=None))]
    fn run(&self, code: &Bound<'_, PyAny>, on_output: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let py = code.py();
        let code = input::argument(code, "code")?;
        let on_output = on_output.map(|on| input::callable(on, "on_output")).transpose()?;
        let mut session = self.session(py)?;
        let stop = Stop::default();
        let ended = caller::call(py, &stop, {
            let stop = stop.clone();
            move |caller| {
                rolecall_interpreter::Interpreter::run(&mut session, &code, &stop, &mut |shown| {
                    if let Some(on_output) = &on_output {
                        let (on_output, shown) = (Arc::clone(on_output), AgentEvent::Output(shown).to_json());
                        caller.tell(move |py| on_output.call1(py, (output::object(py, &shown)?,)).map(|_| ()));
                    }
                })
            }
        });
        let execution = ended?.map_err(|error| error::of_interpreter(py, &error))?;
        let outputs = execution.outputs.iter().map(|shown| AgentEvent::Output(shown).to_json());
        output::object(py, &Json::Array(outputs.collect()))
    }

    /// The files in the folder, as dicts: `name`, `size` in bytes, and `changed`, in seconds since 1970.
    #[getter]
    fn files(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let folder = self.session(py)?.folder;
        let entries = py.detach(|| folder.list()).map_err(|error| error::of_interpreter(py, &error))?;
        let entry = |entry: FileEntry| -> Json {
            let size = i64::try_from(entry.size).unwrap_or(i64::MAX);
            object! { "name" => entry.name, "size" => size, "changed" => entry.changed }.into()
        };
        output::object(py, &Json::Array(entries.into_iter().map(entry).collect()))
    }

    /// Returns the content of a file as bytes.
    fn read<'py>(&self, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = name.py();
        let name = input::argument(name, "name")?;
        let folder = self.session(py)?.folder;
        let bytes = py.detach(|| folder.read(&name)).map_err(|error| error::of_interpreter(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes a file into the folder. Code finds it as `/mnt/data/` with its name.
    fn write(&self, name: &Bound<'_, PyAny>, content: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = name.py();
        let name = input::argument(name, "name")?;
        let bytes = match (content.cast::<PyBytes>(), content.cast::<PyByteArray>()) {
            (Ok(bytes), _) => bytes.as_bytes().to_vec(),
            (_, Ok(bytes)) => bytes.to_vec(),
            _ => return Err(input::wrong_type(content, "content", "bytes")),
        };
        let folder = self.session(py)?.folder;
        py.detach(|| folder.write(&name, &bytes)).map_err(|error| error::of_interpreter(py, &error))
    }

    /// Ends the kernel and removes the files. A run that uses them ends first.
    fn close(&self, py: Python<'_>) {
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(session));
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }
}

/// Opens a session. Where something is missing, the error says how to install it.
pub fn open(py: Python<'_>, options: KernelOptions) -> PyResult<SharedSession> {
    let opened = py.detach(|| {
        SharedSession::open(options.clone()).map_err(|error| match error {
            Error::Missing { what, help } => {
                let help = match check(&options).install {
                    Some(install) => format!("install it: {install}"),
                    None => help,
                };
                Error::Missing { what, help }
            }
            other => other,
        })
    });
    opened.map_err(|error| error::of_interpreter(py, &error))
}

/// The keyword arguments that say how a kernel is started.
struct KernelArguments<'a, 'py> {
    python: Option<&'a Bound<'py, PyAny>>,
    kernelspec: Option<&'a Bound<'py, PyAny>>,
    time: Option<&'a Bound<'py, PyAny>>,
    memory: Option<&'a Bound<'py, PyAny>>,
    unsafe_no_sandbox: Option<&'a Bound<'py, PyAny>>,
}

impl KernelArguments<'_, '_> {
    fn options(&self) -> PyResult<KernelOptions> {
        let mut options = KernelOptions::default();
        if let Some(python) = self.python {
            options.python = Some(input::path("python", python)?);
        }
        if let Some(name) = self.kernelspec {
            options.kernelspec = Some(input::argument(name, "kernelspec")?);
        }
        let usual = KernelLimits::default();
        let time = self.time.map(|time| input::seconds("time", time)).transpose()?;
        let memory = self.memory.map(|memory| input::count("memory", memory)).transpose()?;
        options.limits = KernelLimits {
            wall_time: time.unwrap_or(usual.wall_time),
            // KernelLimits of processors are in whole seconds.
            processor_time: time.map_or(usual.processor_time, |time| time.max(Duration::from_secs(1))),
            memory: memory.map_or(usual.memory, |memory| memory as u64),
            ..usual
        };
        if self.unsafe_no_sandbox.map_or(Ok(false), |flag| input::flag("unsafe_no_sandbox", flag))? {
            options.isolation = Isolation::UnsafeNone;
        }
        Ok(options)
    }
}

/// Reads the options of a kernel from a dict, as the class takes them.
pub fn options_of(dict: &Bound<'_, PyDict>) -> PyResult<KernelOptions> {
    const KNOWN: [&str; 5] = ["python", "kernelspec", "time", "memory", "unsafe_no_sandbox"];
    for key in dict.keys() {
        let key = input::argument(&key, "interpreter")?;
        if !KNOWN.contains(&key.as_str()) {
            let what = format!("expected one of {}, found {key:?}", KNOWN.join(", "));
            return Err(input::refuse(dict.py(), "interpreter", what));
        }
    }
    let [python, kernelspec, time, memory, unsafe_no_sandbox] = KNOWN.map(|key| dict.get_item(key));
    let (python, kernelspec, time) = (python?, kernelspec?, time?);
    let (memory, unsafe_no_sandbox) = (memory?, unsafe_no_sandbox?);
    KernelArguments {
        python: python.as_ref(),
        kernelspec: kernelspec.as_ref(),
        time: time.as_ref(),
        memory: memory.as_ref(),
        unsafe_no_sandbox: unsafe_no_sandbox.as_ref(),
    }
    .options()
}
