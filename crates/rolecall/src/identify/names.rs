//! The names of a model, and the formats that match them.

use rolecall_format::{Fit, Format, Registry};

use super::{Clues, Evidence};

/// The prefix of a model's folder in the hub's cache: `models--maker--name`.
const CACHED: &str = "models--";

/// A name of the model, with the formats that match it best.
pub(super) struct ModelName<'a> {
    pub name: String,
    /// Whether the name comes from the config rather than the caller.
    pub by_config: bool,
    pub fits: Fits<'a>,
}

pub(super) enum Fits<'a> {
    /// The name is that of a format.
    Format(&'a Format),
    /// Matching patterns, all equally specific.
    Patterns(Vec<Fit<'a>>),
}

impl<'a> ModelName<'a> {
    /// Reports whether the name may mean a format.
    pub fn means(&self, format: &Format) -> bool {
        self.formats().iter().any(|one| one.name == format.name)
    }

    /// Returns the formats that the name may mean, without duplicates.
    pub fn formats(&self) -> Vec<&'a Format> {
        match &self.fits {
            Fits::Format(format) => vec![format],
            Fits::Patterns(fits) => {
                let mut formats: Vec<&Format> = fits.iter().map(|fit| fit.format).collect();
                formats.dedup_by(|a, b| a.name == b.name);
                formats
            }
        }
    }

    pub fn evidence(&self, format: &Format) -> Evidence {
        let (name, by_config) = (self.name.clone(), self.by_config);
        match &self.fits {
            Fits::Format(_) => Evidence::FormatName(name),
            Fits::Patterns(_) => {
                let listed = self.fit(format).map_or_else(String::new, |fit| fit.pattern.as_str().to_owned());
                match listed.contains('*') {
                    true => Evidence::Pattern { name, pattern: listed, by_config },
                    false => Evidence::Name { name, listed, by_config },
                }
            }
        }
    }

    /// Reports whether it is the name of a base model.
    pub fn is_base(&self) -> bool {
        matches!(&self.fits, Fits::Patterns(fits) if !fits.is_empty() && fits.iter().all(|fit| fit.base))
    }

    /// Returns the pattern of a format that the name matches.
    pub fn fit(&self, format: &Format) -> Option<&Fit<'a>> {
        match &self.fits {
            Fits::Format(_) => None,
            Fits::Patterns(fits) => fits.iter().find(|fit| fit.format.name == format.name),
        }
    }
}

/// Returns the most specific matching name: the requested name or a part of it. Only if none of
/// these matches, the name in the config.
pub(super) fn by_name<'a>(model: &Clues, registry: &'a Registry) -> Option<ModelName<'a>> {
    let own = match registry.get(&model.name) {
        Some(format) if model.folder.is_none() => {
            Some(ModelName { name: model.name.clone(), by_config: false, fits: Fits::Format(format) })
        }
        _ => best_of(names_of(&model.name), false, registry),
    };
    own.or_else(|| {
        let origin = model.folder.as_ref()?.made_from.as_deref()?;
        best_of(names_of(origin), true, registry)
    })
}

fn best_of<'a>(names: Vec<String>, by_config: bool, registry: &'a Registry) -> Option<ModelName<'a>> {
    let mut best: Option<(usize, ModelName<'a>)> = None;
    for name in names {
        let fits = registry.fits(&name);
        let Some(letters) = fits.first().map(|fit| fit.letters) else { continue };
        if best.as_ref().is_none_or(|(most, _)| letters > *most) {
            best = Some((letters, ModelName { name, by_config, fits: Fits::Patterns(fits) }));
        }
    }
    best.map(|(_, named)| named)
}

/// Returns the names that a path may contain: all of it, a name in the hub's cache, its last two
/// components, its last component.
pub(super) fn names_of(asked: &str) -> Vec<String> {
    let path = asked.replace('\\', "/");
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
    let mut names = vec![parts.join("/")];
    let cached = parts.iter().rev().filter_map(|part| part.strip_prefix(CACHED));
    names.extend(cached.map(|name| name.replace("--", "/")));
    names.extend(
        [2, 1].into_iter().filter(|count| *count < parts.len()).map(|count| parts[parts.len() - count..].join("/")),
    );
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_model_by_its_last_parts_and_by_the_cache() {
        let cases = [
            ("acme/tiny", vec!["acme/tiny", "tiny"]),
            ("tiny", vec!["tiny"]),
            ("/data/acme/tiny/", vec!["data/acme/tiny", "acme/tiny", "tiny"]),
            ("./tiny", vec!["tiny"]),
            ("C:\\acme\\tiny", vec!["C:/acme/tiny", "acme/tiny", "tiny"]),
            (
                "/hub/models--acme--tiny/snapshots/0a1b",
                vec!["hub/models--acme--tiny/snapshots/0a1b", "acme/tiny", "snapshots/0a1b", "0a1b"],
            ),
        ];
        for (asked, names) in cases {
            assert_eq!(names_of(asked), names, "{asked}");
        }
    }
}
