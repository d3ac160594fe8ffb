//! What a framework provides, and what their modules share.

use std::sync::Arc;

use rolecall_format::{Format, LoadError, load};

use crate::about::About;
use crate::fields::Fields;
use crate::files;

/// A framework whose formats come with the library.
pub struct Framework {
    /// The name of its folder in `formats/`, and the prefix of its formats' names.
    pub name: &'static str,
    /// Loads its formats.
    pub(crate) formats: fn() -> Vec<Format>,
    /// Finds its format for a model's name or path, by the framework's rules.
    pub(crate) dialect: fn(&str) -> Option<Dialect>,
    /// Imports a user's template. `None` if the framework has no template files.
    pub(crate) importer: Option<Importer>,
}

/// How a framework's template files are imported.
pub(crate) struct Importer {
    /// A typical field of such a file, with the framework's name, for error messages.
    pub sign: &'static str,
    /// Reports whether a file with these fields is a template of the framework.
    pub is_template: fn(&Fields<'_, '_>) -> bool,
    /// Imports the file's text as a format with this name.
    pub import: fn(&str, &str) -> Result<Format, LoadError>,
}

/// A framework's format for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The format's name, with the framework's name before the colon.
    pub format: String,
    /// The reason that the framework uses it.
    pub why: String,
    /// A caveat for users of the format.
    pub warning: Option<String>,
}

/// Returns the value that was read from an embedded file, or the default if the file is invalid.
/// Debug builds panic on an invalid file. A test reads every file, so no invalid file ships.
pub(crate) fn expected<T: Default>(read: Result<T, LoadError>) -> T {
    debug_assert!(read.is_ok(), "{:?}", read.as_ref().err().map(ToString::to_string));
    read.unwrap_or_default()
}

/// Loads a framework's files in this project's TOML format.
pub(crate) fn native(framework: &'static str) -> Vec<Format> {
    files::of(framework, ".toml").map(|(_, text)| expected(load(text))).collect()
}

/// Sets the format's title and sources.
pub(crate) fn titled(mut format: Format, name: &str, about: &About) -> Format {
    let deprecated = if about.deprecated.iter().any(|known| known == name) { " (deprecated)" } else { "" };
    format.title = format!("{} template {name}{deprecated}", about.title);
    format.sources = about.sources.clone();
    if let Some(training) = &mut format.training {
        Arc::make_mut(training).title = format.title.clone();
    }
    format
}

impl About {
    /// Finds the format with the pattern that matches a model's name best.
    pub(crate) fn dialect(&self, framework: &str, model: &str) -> Option<Dialect> {
        let named = self.models.iter().flat_map(|(name, patterns)| patterns.iter().map(move |pattern| (name, pattern)));
        let fits = named.filter_map(|(name, pattern)| Some((pattern.fit(model)?, name, pattern)));
        let (_, name, pattern) = fits.max_by_key(|(fit, ..)| *fit)?;
        let why = format!("{}'s template for models that match `{}`", self.title, pattern.as_str());
        Some(Dialect { format: format!("{framework}:{name}"), why, warning: None })
    }
}
