use crate::{Format, LoadError, Pattern, load};

/// The files of `formats/`, by name.
const BUILTIN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// Pieces of models' names that say nothing of the family.
const GENERIC: [&str; 4] = ["instruct", "chat", "base", "inference"];

/// Formats by name, and by the models they belong to.
///
/// ```
/// use rolecall_format::Registry;
/// let registry = Registry::builtin();
/// let fit = registry.resolve("internlm/internlm2-chat-7b").expect("one format fits");
/// assert_eq!((fit.format.name.as_str(), fit.pattern.as_str()), ("internlm2", "internlm/internlm2-chat-*"));
/// assert!(registry.resolve("acme/unheard-of").is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    formats: Vec<Format>,
}

/// Why a format was chosen for a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit<'a> {
    /// The format.
    pub format: &'a Format,
    /// The pattern that the model's name fits.
    pub pattern: &'a Pattern,
}

/// A model for which no format can be chosen without a guess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// No pattern fits; the formats whose patterns come nearest.
    Unknown {
        /// Names of formats.
        nearest: Vec<String>,
    },
    /// Patterns of several formats fit equally well.
    Ambiguous {
        /// Names of formats and the patterns that fit.
        candidates: Vec<(String, String)>,
    },
}

impl Registry {
    /// No formats.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// The formats that come with the library.
    pub fn builtin() -> Registry {
        let mut registry = Registry::new();
        for (file, source) in BUILTIN {
            match load(source) {
                Ok(format) => registry.formats.push(format),
                // A test loads every file; a broken one never ships.
                Err(error) => debug_assert!(false, "formats/{file}: {error}"),
            }
        }
        registry
    }

    /// The sources of the formats that come with the library: file name and text.
    pub fn builtin_sources() -> &'static [(&'static str, &'static str)] {
        BUILTIN
    }

    /// Reads a format file and adds it; one of the same name is replaced.
    pub fn load(&mut self, source: &str) -> Result<&Format, LoadError> {
        let format = load(source)?;
        Ok(self.add(format))
    }

    /// Adds a format; one of the same name is replaced.
    pub fn add(&mut self, format: Format) -> &Format {
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

    /// The format of a name.
    pub fn get(&self, name: &str) -> Option<&Format> {
        self.formats.iter().find(|format| format.name == name)
    }

    /// All formats.
    pub fn iter(&self) -> impl Iterator<Item = &Format> {
        self.formats.iter()
    }

    /// The names that are nearest to one that is not there.
    pub fn suggest(&self, name: &str) -> Option<&str> {
        rolecall_conversation::spelling::nearest(name, self.formats.iter().map(|format| format.name.as_str()))
    }

    /// The format that a model needs, by the most specific pattern that its name fits.
    pub fn resolve(&self, model: &str) -> Result<Fit<'_>, Unresolved> {
        let mut fits: Vec<Fit<'_>> = self
            .formats
            .iter()
            .flat_map(|format| format.models.iter().map(move |pattern| Fit { format, pattern }))
            .filter(|fit| fit.pattern.matches(model))
            .collect();
        fits.sort_by_key(|fit| std::cmp::Reverse(fit.pattern.specificity()));
        let Some(best) = fits.first().copied() else {
            return Err(Unresolved::Unknown { nearest: self.nearest_to(model) });
        };
        let equal = fits.iter().filter(|fit| fit.pattern.specificity() == best.pattern.specificity());
        let mut candidates: Vec<(String, String)> =
            equal.map(|fit| (fit.format.name.clone(), fit.pattern.as_str().to_owned())).collect();
        candidates.dedup_by(|a, b| a.0 == b.0);
        match candidates.len() {
            1 => Ok(best),
            _ => Err(Unresolved::Ambiguous { candidates }),
        }
    }

    /// Formats whose patterns share the longest run of letters with a model's name.
    fn nearest_to(&self, model: &str) -> Vec<String> {
        let model = model.to_lowercase();
        let mut scored: Vec<(usize, &str)> = self
            .formats
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
