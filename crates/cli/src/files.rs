//! Reads what the command line names: texts, formats, tokenizers, chat templates. No other module opens a file.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rolecall::format::{Format, LoadError, Registry, read as read_format};
use rolecall::identify::{Clues, FileError, ModelFolder, read_folder};
use rolecall::template;
use rolecall::template::{ModelTemplates, NamedTemplate};
use rolecall::tokenizer;
use rolecall::tokenizer::Tokenizer;
use rolecall::tokenizer::TokenizerFile;

use crate::args::MoreFormats;
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::failure::{Failure, count_of_mistakes};
use crate::output::Output;
use crate::packed;
use crate::refusal::Refusal;
use crate::source::Source;

/// Whether a path stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The failure of a file, or of standard input, that cannot be read.
pub fn unreadable_file(path: &Path, error: &io::Error) -> Failure {
    let name = if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
    Failure::Unreadable { path: name, why: said(error) }
}

/// Reads a whole text from a file, or from standard input.
pub fn read_text(path: &Path) -> Result<Source, Failure> {
    let name = if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| Failure::Unreadable { path: name.clone(), why: said(&error) })?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name, text: without_mark(text) }),
        Err(error) => {
            let refusal = Refusal::NotUtf8(error.utf8_error().valid_up_to());
            Err(Failure::Refused { refusal, source: Source { name, text: String::new() } })
        }
    }
}

/// Opens a file, or standard input, to be read as it comes. What gzip or zstd has packed is unpacked.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if is_stdin(path) {
        if io::stdin().is_terminal() {
            // Whoever has forgotten the file would wait for an answer.
            let end = if cfg!(windows) { "Ctrl-Z and Enter end" } else { "Ctrl-D ends" };
            let _ = writeln!(io::stderr().lock(), "waiting for input from the terminal ({end} it)");
        }
        return packed::unpack(Box::new(io::stdin()));
    }
    // A folder can be opened on some systems, and then not be read.
    let file = fs::File::open(path)?;
    match file.metadata()?.is_dir() {
        true => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        false => packed::unpack(Box::new(file)),
    }
}

/// The files that the command line names; a pattern stands for all that it fits, in order.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let text = path.to_str().filter(|text| text.contains(['*', '?', '[']) && !path.exists());
        let Some(pattern) = text else {
            files.push(path.clone());
            continue;
        };
        let unreadable = |why: String| Failure::Unreadable { path: pattern.to_owned(), why };
        let found = glob::glob(pattern).map_err(|error| unreadable(format!("it is no pattern: {}", error.msg)))?;
        let before = files.len();
        for file in found {
            files.push(file.map_err(|error| unreadable(said(error.error())))?);
        }
        if files.len() == before {
            return Err(unreadable("no file fits the pattern".into()));
        }
    }
    Ok(files)
}

/// The bytes of files, or of the one that standard input is; none where that has no end yet, or is packed.
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

/// The files that a tokenizer's ids depend on; none where it cannot be found, which is said where it is loaded.
pub fn tokenizer_files(path: &Path) -> Vec<PathBuf> {
    tokenizer::files_read(path).unwrap_or_default()
}

/// The .toml files of a folder.
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

/// The formats of a run, and the files that some of them are from.
pub struct Formats {
    pub registry: Registry,
    files: Vec<(String, PathBuf)>,
    replace: bool,
    /// Files of the folder with mistakes in them, which block no other.
    broken: Vec<(Source, LoadError)>,
}

/// The built-in formats, with those of a folder.
pub fn load_formats(more: &MoreFormats) -> Result<Formats, Failure> {
    let mut formats = Formats {
        registry: rolecall::format::registry(),
        files: Vec::new(),
        replace: more.replace,
        broken: Vec::new(),
    };
    let Some(folder) = more.formats.as_deref() else { return Ok(formats) };
    let unreadable = |error: io::Error| Failure::Unreadable { path: folder.display().to_string(), why: said(&error) };
    for path in format_files(folder).map_err(unreadable)? {
        match formats.add(&path) {
            Err(Failure::FormatFile { source, error }) => formats.broken.push((source, error)),
            added => drop(added?),
        }
    }
    Ok(formats)
}

impl Formats {
    /// The name of the format that the command line asks for: one that is there, or that of a file, which is added.
    pub fn choose(&mut self, asked: &str) -> Result<String, Failure> {
        if self.registry.get(asked).is_some() {
            return Ok(asked.to_owned());
        }
        let path = Path::new(asked);
        let is_path =
            path.extension().is_some_and(|extension| ["toml", "json", "py"].iter().any(|one| extension == *one))
                || asked.contains(std::path::is_separator);
        if is_path || path.is_file() {
            return self.add(path);
        }
        // It may be the one that is broken.
        if !self.broken.is_empty() {
            let (source, error) = self.broken.remove(0);
            return Err(Failure::FormatFile { source, error });
        }
        let near = self.registry.suggest(asked).map(str::to_owned);
        Err(Failure::UnknownFormat { name: asked.to_owned(), near })
    }

    /// Says which files are left out.
    pub fn warn(&self, output: &Output) {
        for (source, error) in &self.broken {
            let first = error.diagnostics.first();
            output.show(&Diagnostic {
                severity: Severity::Warning,
                code: "bad_format",
                message: format!(
                    "{} in the format file `{}`, which is left out",
                    count_of_mistakes(error),
                    source.name
                ),
                place: match first {
                    Some(mistake) => Place::Span(source, mistake.span.clone()),
                    None => Place::Named(source.name.clone()),
                },
                help: vec![format!("`rolecall check {}` says what they are", source.name)],
            });
        }
    }

    /// Adds the format of a file, and gives its name. Another format keeps its names, unless it is to be replaced.
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

/// The format of a file.
pub fn load_format(path: &Path) -> Result<Format, Failure> {
    let source = read_text(path)?;
    read_format(&source.name, &source.text).map_err(|error| Failure::FormatFile { source, error })
}

/// The chat templates of a file or folder, or one from standard input.
pub fn load_templates(path: &Path) -> Result<ModelTemplates, Failure> {
    if is_stdin(path) {
        let source = read_text(path)?;
        let mut templates = ModelTemplates::default();
        templates.templates.push(NamedTemplate::of_file("default", source.text, source.name));
        return Ok(templates);
    }
    template::load(path).map_err(in_template)
}

/// The failure of a file that was to give a chat template.
pub fn in_template(error: FileError) -> Failure {
    unreadable(error).unwrap_or_else(Failure::TemplateFile)
}

/// The tokenizer of a file or folder.
pub fn load_tokenizer(path: &Path) -> Result<Arc<dyn Tokenizer>, Failure> {
    load_tokenizer_file(path).map(|(_, tokenizer)| Arc::from(tokenizer))
}

/// The same, with the file that it came from.
pub fn load_tokenizer_file(path: &Path) -> Result<(TokenizerFile, Box<dyn Tokenizer>), Failure> {
    tokenizer::load_file(path).map_err(|error| no_tokenizer(path, error))
}

/// The failure of a path that gives no tokenizer.
pub fn no_tokenizer(path: &Path, error: tokenizer::Error) -> Failure {
    match error {
        tokenizer::Error::Unreadable { path, source } => {
            Failure::Unreadable { path: path.display().to_string(), why: said(&source) }
        }
        tokenizer::Error::Missing { path } => {
            Failure::Unreadable { path: path.display().to_string(), why: "it holds no file of a tokenizer".into() }
        }
        error => Failure::Tokenizer { path: path.display().to_string(), error },
    }
}

/// The chat templates of a tokenizer's model; none where there are none.
pub fn templates_beside(file: &TokenizerFile) -> Result<ModelTemplates, Failure> {
    template::beside(file).map_err(in_template)
}

/// The model of a name or a folder, with what the folder's files say.
pub fn load_model(asked: &str) -> Result<Clues, Failure> {
    let path = Path::new(asked);
    if !path.is_dir() {
        return Ok(Clues { name: asked.to_owned(), folder: None });
    }
    let folder = load_folder(path)?;
    // `.` and `..` have no name of their own.
    let named = path.file_name().is_none().then(|| path.canonicalize().ok()).flatten();
    let name = named.map_or_else(|| asked.to_owned(), |path| path.display().to_string());
    Ok(Clues { name, folder: Some(folder) })
}

fn load_folder(path: &Path) -> Result<ModelFolder, Failure> {
    read_folder(path).map_err(in_model)
}

/// The failure of a file in a model's folder.
pub fn in_model(error: FileError) -> Failure {
    match unreadable(error) {
        Ok(failure) => failure,
        Err(error) => Failure::ModelFile(error),
    }
}

/// The failure of a file that cannot be read, or any other error as it is.
fn unreadable(error: FileError) -> Result<Failure, FileError> {
    match error {
        FileError::Unreadable { path, source } => {
            Ok(Failure::Unreadable { path: path.display().to_string(), why: said(&source) })
        }
        error => Err(error),
    }
}

/// What the system says, in lower case and without its error number.
pub fn said(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::NotFound => return "there is no such file or folder".into(),
        io::ErrorKind::IsADirectory => return "it is a folder".into(),
        io::ErrorKind::PermissionDenied => return "it may not be read".into(),
        _ => error.to_string(),
    };
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_lowercase()
}

/// Some editors put a byte order mark before a text.
fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// A file as it is called beside another one: by its name alone in the same folder.
fn shown(file: &Path, beside: &Path) -> String {
    let folder = beside.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    match file.file_name() {
        Some(name) if folder.as_deref() == file.parent() => beside.with_file_name(name).display().to_string(),
        _ => file.display().to_string(),
    }
}
