use crate::builtin::{LAGENT, LMDEPLOY, LMFLOW, XTUNER_MODELS};
use crate::lmdeploy::Template;

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
    let mut found = Vec::new();
    let plain = |format: String, why: String| Dialect { format, why, warning: None };
    if let Some(row) = XTUNER_MODELS.find(model) {
        let warning = row.base.then(|| format!("`{}` is a base model: {}", row.model, XTUNER_MODELS.why_base));
        let why = format!("XTuner's table of models has `{}`", row.model);
        found.push(Dialect { format: format!("xtuner:{}", row.template), why, warning });
    }
    found.extend(lmdeploy_dialect(model));
    for (framework, about) in [("lmflow", &*LMFLOW), ("lagent", &*LAGENT)] {
        let named =
            about.models.iter().flat_map(|(name, patterns)| patterns.iter().map(move |pattern| (name, pattern)));
        let fits = named.filter_map(|(name, pattern)| Some((pattern.fit(model)?, name, pattern)));
        if let Some((_, name, pattern)) = fits.max_by_key(|(fit, ..)| *fit) {
            let why = format!("{}'s own for `{}`", about.title, pattern.as_str());
            found.push(plain(format!("{framework}:{name}"), why));
        }
    }
    found
}

/// LMDeploy's template for a model: the one that is registered under the model's own name, else the one for its path.
fn lmdeploy_dialect(model: &str) -> Option<Dialect> {
    let by_path = lmdeploy_match(model);
    let own = model.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(model);
    let of_path = by_path.and_then(registered);
    let by_name = registered(own).filter(|(_, template)| of_path.is_none_or(|(_, other)| other != *template));
    let Some((name, template)) = by_name else {
        let name = by_path?;
        let path = model.to_lowercase();
        let words =
            LMDEPLOY.rules.iter().find(|rule| rule.fits(&path)).map(|rule| rule.words(&path)).unwrap_or_default();
        let why = format!("LMDeploy takes it for a path with {words}");
        return Some(Dialect { format: format!("lmdeploy:{name}"), why, warning: None });
    };
    let length = template.builtin.generation.session_len;
    let length = length.map_or(String::new(), |length| format!(", for sessions of {length} tokens"));
    let why = format!("LMDeploy registers a template of the name `{name}`{length}");
    let warning = match by_path {
        Some(other) => {
            format!("LMDeploy takes it only when asked for it by name; by the path it takes `lmdeploy:{other}`")
        }
        None => "LMDeploy takes it only when asked for it by name".to_owned(),
    };
    Some(Dialect { format: format!("lmdeploy:{name}"), why, warning: Some(warning) })
}

/// A template of LMDeploy, by one of its names in any letter case, and that name.
fn registered(name: &str) -> Option<(&'static str, &'static Template)> {
    LMDEPLOY.templates.iter().find_map(|template| {
        let mut names = std::iter::once(&template.model_name).chain(&template.builtin.aliases);
        let known = names.find(|known| known.eq_ignore_ascii_case(name))?;
        Some((known.as_str(), template))
    })
}

/// The template that LMDeploy takes for a path: by words in it, in the order in which templates are registered.
pub(crate) fn lmdeploy_match(path: &str) -> Option<&'static str> {
    let path = path.to_lowercase();
    LMDEPLOY.rules.iter().find(|rule| rule.fits(&path)).map(|rule| rule.returns.as_str())
}
