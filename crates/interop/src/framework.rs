//! What a framework provides, and what their modules share.

use std::sync::Arc;

use rolecall_format::{Format, LoadError, load};

use crate::about::About;
use crate::fields::Fields;
use crate::files;

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
