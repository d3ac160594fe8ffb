use crate::builtin::{LAGENT, LMDEPLOY, LMFLOW, XTUNER_MODELS};

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
    if let Some(name) = lmdeploy_match(model) {
        let path = model.to_lowercase();
        let words =
            LMDEPLOY.rules.iter().find(|rule| rule.fits(&path)).map(|rule| rule.words(&path)).unwrap_or_default();
        found.push(plain(format!("lmdeploy:{name}"), format!("LMDeploy takes it for a path with {words}")));
    }
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

/// The template that LMDeploy takes for a path: by words in it, in the order in which templates are registered.
pub(crate) fn lmdeploy_match(path: &str) -> Option<&'static str> {
    let path = path.to_lowercase();
    LMDEPLOY.rules.iter().find(|rule| rule.fits(&path)).map(|rule| rule.returns.as_str())
}
