use rolecall_conversation::spelling::nearest;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::{Format, Pattern, load, reply_format};

/// The names and texts of the files in `formats/`.
const BUILTIN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// Pieces of model names that do not identify a family.
const GENERIC: [&str; 4] = ["instruct", "chat", "base", "inference"];

/// Formats by name and by model.
///
/// ```
/// use rolecall_format::builtin;
/// let registry = builtin();
/// let fit = registry.resolve("internlm/internlm2-chat-7b").expect("one format fits");
/// assert_eq!((fit.format.name.as_str(), fit.pattern.as_str()), ("internlm2", "internlm/internlm2-chat-*"));
/// assert!(registry.resolve("acme/unheard-of").is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Copies of a registry share its formats.
    formats: Vec<Arc<Format>>,
}

/// The format chosen for a model, with the reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit<'a> {
    /// The format.
    pub format: &'a Format,
    /// The pattern that matches the model's name.
    pub pattern: &'a Pattern,
    /// The specificity of the match ([`Pattern::fit`]).
    pub letters: usize,
    /// Whether it is a pattern for base models.
    pub base: bool,
}

/// A model without an unambiguous format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolveError {
    /// No pattern matches.
    Unknown {
        /// Names of the formats with the most similar patterns.
        nearest: Vec<String>,
    },
    /// Patterns of several formats match equally well.
    Ambiguous {
        /// Names of formats and their matching patterns.
        candidates: Vec<(String, String)>,
    },
}

/// A name that another format already has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameClash {
    /// The name.
    pub name: String,
    /// The name of the format that has it.
    pub of: String,
}

impl fmt::Display for NameClash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is already a name of the format `{}`", self.name, self.of)
    }
}

impl std::error::Error for NameClash {}

/// Returns the model makers' formats in `formats/`. They are read once.
pub fn builtin() -> Registry {
    static READ: OnceLock<Registry> = OnceLock::new();
    let read = || {
        let mut registry = Registry::new();
        for (file, source) in BUILTIN {
            match load(source) {
                Ok(format) => registry.formats.push(Arc::new(format)),
                // A test loads every file, so all of them are valid.
                Err(error) => debug_assert!(false, "formats/{file}: {error}"),
            }
        }
        registry
    };
    READ.get_or_init(read).clone()
}

/// Returns the file names and texts of [`builtin`].
pub fn builtin_sources() -> &'static [(&'static str, &'static str)] {
    BUILTIN
}

impl Registry {
    /// Creates an empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a format. Its names must not be taken.
    ///
    /// ```
    /// use rolecall_format::{Format, Registry};
    /// let mut registry = Registry::new();
    /// let mut mine = Format::new("mine");
    /// mine.aliases.push("my-own".into());
    /// registry.add(mine)?;
    /// let clash = registry.add(Format::new("my-own")).unwrap_err();
    /// assert_eq!(clash.to_string(), "`my-own` is already a name of the format `mine`");
    /// # Ok::<(), rolecall_format::NameClash>(())
    /// ```
    pub fn add(&mut self, format: impl Into<Arc<Format>>) -> Result<&Arc<Format>, NameClash> {
        let format = format.into();
        for name in format.names() {
            if let Some(other) = self.get(name) {
                return Err(NameClash { name: name.to_owned(), of: other.name.clone() });
            }
        }
        self.formats.push(format);
        Ok(&self.formats[self.formats.len() - 1])
    }

    /// Adds a format, replacing one of the same name. Other formats lose aliases that equal one of
    /// its names.
    pub fn replace(&mut self, format: impl Into<Arc<Format>>) -> &Arc<Format> {
        let format = format.into();
        let loses = |other: &Arc<Format>| {
            other.name != format.name && other.aliases.iter().any(|alias| format.names().any(|name| name == alias))
        };
        for other in self.formats.iter_mut().filter(|other| loses(other)) {
            Arc::make_mut(other).aliases.retain(|alias| !format.names().any(|name| name == alias));
        }
        let at = self.formats.iter().position(|known| known.name == format.name);
        let at = match at {
            Some(at) => {
                self.formats[at] = format;
                at
            }
            None => {
                self.formats.push(format);
                self.formats.len() - 1
            }
        };
        &self.formats[at]
    }

    /// Returns the format with a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Format>> {
        self.iter().find(|format| format.names().any(|known| known == name))
    }

    /// Returns the format with a name, which may also be a built-in format of replies ([`reply_format`]). Those
    /// render no prompts, so they are not among the registry's formats, as which models are recognized.
    ///
    /// ```
    /// use rolecall_format::builtin;
    /// let registry = builtin();
    /// assert!(registry.find("json-in-tags").is_some() && registry.get("json-in-tags").is_none());
    /// ```
    pub fn find(&self, name: &str) -> Option<&Arc<Format>> {
        self.get(name).or_else(|| reply_format(name))
    }

    /// Returns all formats.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Format>> {
        self.formats.iter()
    }

    /// Suggests an existing name for an unknown one.
    pub fn suggest(&self, name: &str) -> Option<&str> {
        // The part after a framework's name is compared only with other names of that framework.
        let near = || match name.split_once(':') {
            Some((framework, own)) => self.nearest_of(framework, own),
            None => nearest(name, self.iter().flat_map(|format| format.names())),
        };
        // Otherwise suggest the format of another framework, or the format of a model.
        let rest_of = |name: &'_ str| name.split_once(':').map_or(name.len(), |(_, rest)| rest.len());
        let of_others = || {
            let own = &name[name.len() - rest_of(name)..];
            let others = || self.iter().flat_map(|format| format.names());
            let near = nearest(own, others().map(|known| &known[known.len() - rest_of(known)..]))?;
            others().find(|known| known.ends_with(near) && known.len() - rest_of(known) == known.len() - near.len())
        };
        let of_model = || Some(self.fits(name).first()?.format.name.as_str());
        near().or_else(of_others).or_else(of_model)
    }

    /// Returns the name of a framework's format that is most similar to an unknown one or starts
    /// with it.
    fn nearest_of(&self, framework: &str, own: &str) -> Option<&str> {
        let names = || {
            let names = self.iter().flat_map(|format| format.names());
            names.filter_map(|known| Some((known, known.strip_prefix(framework)?.strip_prefix(':')?)))
        };
        let begins = |known: &str| own.chars().count() > 2 && known.starts_with(own);
        let near = nearest(own, names().map(|(_, known)| known));
        let begun = names().map(|(_, known)| known).filter(|known| begins(known)).min_by_key(|known| known.len());
        let near = near.or(begun)?;
        names().find(|(_, known)| *known == near).map(|(name, _)| name)
    }

    /// Returns the format for a model, by the most specific pattern that matches its name.
    pub fn resolve(&self, model: &str) -> Result<Fit<'_>, ResolveError> {
        let fits = self.fits(model);
        match fits.first().copied() {
            None => Err(ResolveError::Unknown { nearest: self.nearest_to(model) }),
            Some(best) if fits.iter().all(|fit| fit.format.name == best.format.name) => Ok(best),
            Some(_) => {
                let mut candidates: Vec<(String, String)> =
                    fits.iter().map(|fit| (fit.format.name.clone(), fit.pattern.as_str().to_owned())).collect();
                candidates.dedup_by(|a, b| a.0 == b.0);
                Err(ResolveError::Ambiguous { candidates })
            }
        }
    }

    /// Returns the most specific patterns that match a model's name. There are several if they are
    /// equally specific.
    pub fn fits(&self, model: &str) -> Vec<Fit<'_>> {
        let of =
            |format| move |(pattern, base)| Some(Fit { format, pattern, letters: Pattern::fit(pattern, model)?, base });
        let mut fits: Vec<Fit<'_>> = self
            .iter()
            .map(|format| &**format)
            .flat_map(|format| {
                let chats = format.models.iter().map(|pattern| (pattern, false));
                let bases = format.base_models.iter().map(|pattern| (pattern, true));
                chats.chain(bases).filter_map(of(format))
            })
            .collect();
        let best = fits.iter().map(|fit| fit.letters).max();
        fits.retain(|fit| Some(fit.letters) == best);
        fits
    }

    /// Returns the names of at most five formats whose patterns share the longest piece with a
    /// model's name.
    pub fn nearest_to(&self, model: &str) -> Vec<String> {
        let model = model.to_lowercase();
        let mut scored: Vec<(usize, &str)> = self
            .iter()
            .map(|format| {
                let pieces = format.models.iter().flat_map(|pattern| pattern.as_str().split(['*', '/', '-']));
                let telling = pieces.map(str::to_lowercase).filter(|piece| !GENERIC.contains(&piece.as_str()));
                let longest = telling.filter(|piece| model.contains(piece.as_str()));
                (longest.map(|piece| piece.len()).max().unwrap_or(0), format.name.as_str())
            })
            .filter(|(length, _)| *length >= 4)
            .collect();
        scored.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        scored.into_iter().take(5).map(|(_, name)| name.to_owned()).collect()
    }
}
