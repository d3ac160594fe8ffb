//! Reads the files that the command line names: texts, formats, tokenizers and chat templates.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rolecall::format::{Format, LoadError, Registry, file_of, is_file};
use rolecall::identify::{Clues, FileError, ModelFolder, read_folder};
use rolecall::template;
use rolecall::template::{ModelTemplates, NamedTemplate};
use rolecall::tokenizer;
use rolecall::tokenizer::Tokenizer;
use rolecall::tokenizer::TokenizerFile;

use crate::args::MoreFormats;
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::failure::{Failure, count_of_mistakes};
use crate::file_kind;
use crate::io_message::io_message;
use crate::output::Output;
use crate::packed;
use crate::refusal::Refusal;
use crate::source::Source;

/// Reports whether a path means standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the failure for a file, or for standard input, that cannot be read.
pub fn unreadable_file(path: &Path, error: &io::Error) -> Failure {
    let path = if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
    match file_kind::of_error(error) {
        Some(kind) => Failure::NotText { path, kind },
        None => Failure::Unreadable { path, why: io_message(error) },
    }
}

/// Reads a whole file, or standard input, as text.
pub fn read_text(path: &Path) -> Result<Source, Failure> {
    let name = if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(|error| unreadable_file(path, &error))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name, text: without_mark(text) }),
        Err(error) => {
            let refusal = Refusal::NotUtf8(error.utf8_error().valid_up_to());
            Err(Failure::Refused { refusal, source: Source { name, text: String::new() } })
        }
    }
}

/// Opens a file or standard input for streaming. Data compressed with gzip or zstd is decompressed. A
/// file that is known to hold no text is an error, by which [`unreadable_file`] names its kind.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if is_stdin(path) {
        if io::stdin().is_terminal() {
            // Tell users who forgot the file argument that the command is waiting.
            let end = if cfg!(windows) { "Ctrl-Z and Enter end" } else { "Ctrl-D ends" };
            let _ = writeln!(io::stderr().lock(), "reading input from the terminal ({end} it)");
        }
        return packed::unpack(Box::new(io::stdin())).and_then(file_kind::check);
    }
    // On some systems a folder can be opened, but not read.
    let file = fs::File::open(path)?;
    match file.metadata()?.is_dir() {
        true => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        false => packed::unpack(Box::new(file)).and_then(file_kind::check),
    }
}

/// Expands the patterns among the paths to the matching files, in order.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let text = path.to_str().filter(|text| text.contains(['*', '?', '[']) && !path.exists());
        let Some(pattern) = text else {
            files.push(path.clone());
            continue;
        };
        let unreadable = |why: String| Failure::Unreadable { path: pattern.to_owned(), why };
        let found = glob::glob(pattern).map_err(|error| unreadable(format!("invalid pattern: {}", error.msg)))?;
        let before = files.len();
        for file in found {
            files.push(file.map_err(|error| unreadable(io_message(error.error())))?);
        }
        if files.len() == before {
            return Err(unreadable("no file matches the pattern".into()));
        }
    }
    Ok(files)
}

/// Returns the total size of the files in bytes, or `None` if it is unknown, as for a pipe or a
/// compressed file.
pub fn size(paths: &[PathBuf]) -> Option<u64> {
    let size = |path: &PathBuf| {
        let metadata = if is_stdin(path) { stdin_metadata()? } else { fs::metadata(path).ok()? };
        let is_packed = path.extension().is_some_and(|extension| extension == "gz" || extension == "zst");
        (metadata.is_file() && !is_packed).then_some(metadata.len())
    };
    paths.iter().map(size).sum()
}

#[cfg(unix)]
fn stdin_metadata() -> Option<fs::Metadata> {
    use std::os::fd::AsFd;
    fs::File::from(io::stdin().as_fd().try_clone_to_owned().ok()?).metadata().ok()
}

#[cfg(not(unix))]
fn stdin_metadata() -> Option<fs::Metadata> {
    None
}

/// Returns the files that a tokenizer's ids depend on. Returns none if the tokenizer is not found,
/// which loading it reports.
pub fn tokenizer_files(path: &Path) -> Vec<PathBuf> {
    tokenizer::files_read(path).unwrap_or_default()
}

/// Returns the .toml files of a folder, sorted.
pub fn format_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The formats of a run, with the files that some of them come from.
pub struct Formats {
    pub registry: Registry,
    files: Vec<(String, PathBuf)>,
    replace: bool,
    /// Format files with mistakes, which do not prevent the others from loading.
    broken: Vec<(Source, LoadError)>,
}

/// Loads the built-in formats and those of a folder.
pub fn load_formats(more: &MoreFormats) -> Result<Formats, Failure> {
    let mut formats = Formats {
        registry: rolecall::format::registry(),
        files: Vec::new(),
        replace: more.replace,
        broken: Vec::new(),
    };
    let Some(folder) = more.formats.as_deref() else { return Ok(formats) };
    let unreadable =
        |error: io::Error| Failure::Unreadable { path: folder.display().to_string(), why: io_message(&error) };
    for path in format_files(folder).map_err(unreadable)? {
        match formats.add(&path) {
            Err(Failure::FormatFile { source, error }) => formats.broken.push((source, error)),
            added => drop(added?),
        }
    }
    Ok(formats)
}

impl Formats {
    /// Returns the name of the requested format. A file is loaded and its format added first.
    pub fn choose(&mut self, asked: &str) -> Result<String, Failure> {
        if self.registry.find(asked).is_some() {
            return Ok(asked.to_owned());
        }
        let path = Path::new(asked);
        if is_file(asked) || path.is_file() {
            return self.add(path);
        }
        // The requested format may be in a broken file.
        if !self.broken.is_empty() {
            let (source, error) = self.broken.remove(0);
            return Err(Failure::FormatFile { source, error });
        }
        let near = self.registry.suggest(asked).map(str::to_owned);
        Err(Failure::UnknownFormat { name: asked.to_owned(), near })
    }

    /// Prints a warning for each format file that is ignored.
    pub fn warn(&self, output: &Output) {
        for (source, error) in &self.broken {
            let first = error.diagnostics.first();
            output.show(&Diagnostic {
                severity: Severity::Warning,
                code: "bad_format",
                message: format!("{} in the format file `{}`, which is ignored", count_of_mistakes(error), source.name),
                place: match first {
                    Some(mistake) => DiagnosticPlace::Span(source, mistake.span.clone()),
                    None => DiagnosticPlace::Named(source.name.clone()),
                },
                help: vec![format!("run `rolecall check {}` to see them", source.name)],
            });
        }
    }

    /// Adds the format of a file and returns its name. Fails if another format has one of its
    /// names, unless that format is to be replaced.
    fn add(&mut self, path: &Path) -> Result<String, Failure> {
        let format = load_format(path)?;
        let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let known = |name: &str| Some((name.to_owned(), self.registry.get(name)?.name.clone()));
        let is_other =
            |(_, known): &(String, String)| !self.files.iter().any(|(name, path)| name == known && *path == file);
        let clash = format.names().filter_map(known).find(is_other);
        if let (Some((name, other)), false) = (clash, self.replace) {
            let first = self.files.iter().find(|(known, _)| *known == other).map(|(_, first)| shown(first, path));
            return Err(Failure::NameClash { path: path.display().to_string(), name, other, first });
        }
        let name = format.name.clone();
        self.files.retain(|(known, _)| *known != name);
        self.files.push((name.clone(), file));
        self.registry.replace(format);
        Ok(name)
    }
}

/// Loads the format of a file.
pub fn load_format(path: &Path) -> Result<Format, Failure> {
    let (source, read) = read_format(path)?;
    read.map_err(|error| Failure::FormatFile { source, error })
}

/// Reads the file of a format, and the format in it.
pub fn read_format(path: &Path) -> Result<(Source, Result<Format, LoadError>), Failure> {
    let file = path.to_str().map_or(path, |named| Path::new(file_of(named).0));
    let source = read_text(file)?;
    // Standard input has a name of its own.
    let named = if file == path { source.name.clone() } else { path.display().to_string() };
    let read = rolecall::format::read(&named, &source.text);
    Ok((source, read))
}

/// Loads the chat templates of a file or folder, or one from standard input.
pub fn load_templates(path: &Path) -> Result<ModelTemplates, Failure> {
    if is_stdin(path) {
        let source = read_text(path)?;
        let mut templates = ModelTemplates::default();
        templates.templates.push(NamedTemplate::of_file("default", source.text, source.name));
        return Ok(templates);
    }
    template::load(path).map_err(in_template)
}

/// Returns the failure for a file that should contain a chat template.
pub fn in_template(error: FileError) -> Failure {
    unreadable(error).unwrap_or_else(Failure::TemplateFile)
}

/// Loads the tokenizer of a file or folder.
pub fn load_tokenizer(path: &Path) -> Result<Arc<dyn Tokenizer>, Failure> {
    load_tokenizer_file(path).map(|(_, tokenizer)| Arc::from(tokenizer))
}

/// Loads the tokenizer of a file or folder, with the file that it came from.
pub fn load_tokenizer_file(path: &Path) -> Result<(TokenizerFile, Box<dyn Tokenizer>), Failure> {
    tokenizer::load_file(path).map_err(|error| no_tokenizer(path, error))
}

/// Returns the failure for a path without a usable tokenizer.
pub fn no_tokenizer(path: &Path, error: tokenizer::Error) -> Failure {
    match error {
        tokenizer::Error::Unreadable { path, source } => {
            Failure::Unreadable { path: path.display().to_string(), why: io_message(&source) }
        }
        tokenizer::Error::Missing { path } => {
            Failure::Unreadable { path: path.display().to_string(), why: "it contains no tokenizer file".into() }
        }
        error => Failure::Tokenizer { path: path.display().to_string(), error },
    }
}

/// Loads the chat templates next to a tokenizer, which may be none.
pub fn templates_beside(file: &TokenizerFile) -> Result<ModelTemplates, Failure> {
    template::beside(file).map_err(in_template)
}

/// Returns the clues that identify a model: its name and, for a folder, its files.
pub fn load_model(asked: &str) -> Result<Clues, Failure> {
    let path = Path::new(asked);
    if !path.is_dir() {
        return Ok(Clues { name: asked.to_owned(), folder: None });
    }
    let folder = load_folder(path)?;
    // `.` and `..` do not contain the folder's name.
    let named = path.file_name().is_none().then(|| path.canonicalize().ok()).flatten();
    let name = named.map_or_else(|| asked.to_owned(), |path| path.display().to_string());
    Ok(Clues { name, folder: Some(folder) })
}

fn load_folder(path: &Path) -> Result<ModelFolder, Failure> {
    read_folder(path).map_err(in_model)
}

/// Returns the failure for a file in a model's folder.
pub fn in_model(error: FileError) -> Failure {
    match unreadable(error) {
        Ok(failure) => failure,
        Err(error) => Failure::ModelFile(error),
    }
}

/// Converts the error of an unreadable file to a failure, and returns any other error unchanged.
fn unreadable(error: FileError) -> Result<Failure, FileError> {
    match error {
        FileError::Unreadable { path, source } => {
            Ok(Failure::Unreadable { path: path.display().to_string(), why: io_message(&source) })
        }
        error => Err(error),
    }
}

/// Removes the byte order mark that some editors write.
fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// Returns the path of a file relative to the folder of another one if they share it.
fn shown(file: &Path, beside: &Path) -> String {
    let folder = beside.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    match file.file_name() {
        Some(name) if folder.as_deref() == file.parent() => beside.with_file_name(name).display().to_string(),
        _ => file.display().to_string(),
    }
}
