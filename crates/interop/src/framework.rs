//! The table of frameworks. To add one, write its module and add a row here.

use std::sync::Arc;

use rolecall_format::{Format, LoadError, NameClash, Registry, load};

use crate::about::About;
use crate::fields::Fields;
use crate::{files, lagent, lmdeploy, lmflow, xtuner};

/// A framework whose formats come with the library.
pub struct Framework {
    /// The folder of its data in `formats/`, and the prefix of its formats' names.
    pub name: &'static str,
    /// Loads its formats.
    pub(crate) formats: fn() -> Vec<Format>,
    /// Finds its format for a model's name or path, by its own rules.
    pub(crate) dialect: fn(&str) -> Option<Dialect>,
    /// Imports a user's own template; none if the framework has no file for one.
    pub(crate) importer: Option<Importer>,
}

/// How a framework's template files are imported.
pub(crate) struct Importer {
    /// A field by which people recognize such a file, with the framework's name.
    pub sign: &'static str,
    /// Reports whether a file with these fields is the framework's.
    pub is_template: fn(&Fields<'_, '_>) -> bool,
    /// Imports the file's text under a name.
    pub import: fn(&str, &str) -> Result<Format, LoadError>,
}

/// All frameworks.
pub static FRAMEWORKS: [Framework; 4] = [xtuner::FRAMEWORK, lmdeploy::FRAMEWORK, lmflow::FRAMEWORK, lagent::FRAMEWORK];

/// A framework's own format for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The format's name, with the framework's before the colon.
    pub format: String,
    /// Why the framework takes it.
    pub why: String,
    /// What to know before it is used.
    pub warning: Option<String>,
}

/// The formats that frameworks would take for a model's name or path, by their own rules.
///
/// ```
/// let found = rolecall_interop::dialects("internlm/internlm2-7b");
/// let base = found.iter().find(|dialect| dialect.format == "xtuner:default").expect("the table has it");
/// assert!(base.warning.as_deref().is_some_and(|warning| warning.contains("never trained")));
/// ```
pub fn dialects(model: &str) -> Vec<Dialect> {
    FRAMEWORKS.iter().filter_map(|framework| (framework.dialect)(model)).collect()
}

/// Returns all formats of other frameworks that come with the library.
pub fn formats() -> Vec<Format> {
    FRAMEWORKS.iter().flat_map(|framework| (framework.formats)()).collect()
}

/// Adds all formats of other frameworks to a registry.
///
/// ```
/// use rolecall_format::builtin;
/// let mut registry = builtin();
/// rolecall_interop::register(&mut registry)?;
/// assert_eq!(registry.get("lmdeploy:internlm-chat").map(|format| format.name.as_str()), Some("lmdeploy:internlm"));
/// # Ok::<(), rolecall_format::NameClash>(())
/// ```
pub fn register(registry: &mut Registry) -> Result<(), NameClash> {
    formats().into_iter().try_for_each(|format| registry.add(format).map(|_| ()))
}

/// Returns the value that a file of the library holds. A test reads every file, so that none ships
/// broken.
pub(crate) fn expected<T: Default>(read: Result<T, LoadError>) -> T {
    debug_assert!(read.is_ok(), "{:?}", read.as_ref().err().map(ToString::to_string));
    read.unwrap_or_default()
}

/// The files that are written in this project's own format.
pub(crate) fn native(framework: &'static str) -> Vec<Format> {
    files::of(framework, ".toml").map(|(_, text)| expected(load(text))).collect()
}

pub(crate) fn titled(mut format: Format, name: &str, about: &About) -> Format {
    let deprecated = if about.deprecated.iter().any(|known| known == name) { ", deprecated" } else { "" };
    format.title = format!("{name} as {} writes it{deprecated}", about.title);
    format.sources = about.sources.clone();
    if let Some(training) = &mut format.training {
        Arc::make_mut(training).title = format.title.clone();
    }
    format
}

impl About {
    /// Finds the format whose patterns fit a model's name best.
    pub(crate) fn dialect(&self, framework: &str, model: &str) -> Option<Dialect> {
        let named = self.models.iter().flat_map(|(name, patterns)| patterns.iter().map(move |pattern| (name, pattern)));
        let fits = named.filter_map(|(name, pattern)| Some((pattern.fit(model)?, name, pattern)));
        let (_, name, pattern) = fits.max_by_key(|(fit, ..)| *fit)?;
        let why = format!("{}'s own for `{}`", self.title, pattern.as_str());
        Some(Dialect { format: format!("{framework}:{name}"), why, warning: None })
    }
}
