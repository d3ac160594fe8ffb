//! LMDeploy's registered templates, and its rules for the choice of one.

use std::sync::LazyLock;

use rolecall_format::{Format, Generation, LoadError};

use super::{Builtin, Infill, Template, TemplateKind};
use crate::fields::{Fields, FrameworkFile};
use crate::files;
use crate::framework::{Dialect, expected, native};
use crate::path_rules::PathRule;

/// LMDeploy's registered templates, in order, and its rules for paths.
#[derive(Default)]
pub(crate) struct LmdeployRegistry {
    pub templates: Vec<Template>,
    pub rules: Vec<PathRule>,
}

pub(crate) static LMDEPLOY: LazyLock<LmdeployRegistry> = LazyLock::new(|| expected(read_lmdeploy()));

/// Loads all LMDeploy formats.
pub(super) fn builtin_formats() -> Vec<Format> {
    let each = LMDEPLOY.templates.iter().map(|template| {
        let name = format!("lmdeploy:{}", template.model_name);
        let mut template = template.clone();
        for alias in &mut template.builtin.aliases {
            *alias = format!("lmdeploy:{alias}");
        }
        template.into_format(&name)
    });
    each.chain(native("lmdeploy")).collect()
}

fn read_lmdeploy() -> Result<LmdeployRegistry, LoadError> {
    let file = FrameworkFile::parse(files::text("lmdeploy/registry.json"))?;
    let fields = file.fields();
    fields.refuse_others(&["title", "sources", "templates", "rules"]);
    let mut sources = Vec::new();
    if let Some(named) = fields.inner("sources") {
        sources.extend(named.keys().filter_map(|key| Some((key.to_owned(), named.text(key)?))));
    }
    let mut registry = LmdeployRegistry::default();
    for entry in fields.list("templates").unwrap_or_default() {
        let name = entry.text("file").unwrap_or_default();
        let mut template = super::read(files::text(&format!("lmdeploy/{name}.json")), |_| Some(Template::default()))?;
        template.builtin = read_builtin(&entry);
        template.builtin.sources.clone_from(&sources);
        registry.templates.push(template);
    }
    registry.rules = fields.list("rules").unwrap_or_default().iter().map(PathRule::read).collect();
    drop(fields);
    file.finish(registry)
}

fn read_builtin(entry: &Fields<'_, '_>) -> Builtin {
    // Only the Python package reads the name of the class.
    let of_classes = ["class", "base", "printed", "chat_only"];
    let of_templates = ["file", "aliases", "kind", "session_len", "sampling", "bos", "infill", "trims"];
    entry.refuse_others(&[&of_classes[..], &of_templates[..]].concat());
    let mut generation = Generation { session_len: entry.whole("session_len"), ..Generation::default() };
    if let Some(sampling) = entry.inner("sampling") {
        generation.top_p = sampling.number("top_p");
        generation.top_k = sampling.whole("top_k");
        generation.temperature = sampling.number("temperature");
        generation.repetition_penalty = sampling.number("repetition_penalty");
    }
    let infill = entry.inner("infill").map(|infill| Infill {
        gap: infill.text("gap").unwrap_or_default(),
        pieces: three(infill.texts("pieces")),
        suffix_first: three(infill.texts("suffix_first")),
        stop_words: infill.texts("stop_words").unwrap_or_default(),
    });
    Builtin {
        aliases: entry.texts("aliases").unwrap_or_default(),
        kind: match entry.text("kind").as_deref() {
            Some("text") => TemplateKind::Text,
            Some("rounds") => TemplateKind::Rounds,
            _ => TemplateKind::Parts,
        },
        generation,
        infill,
        trims: entry.boolean("trims"),
        bos: entry.texts("bos").unwrap_or_default(),
        sources: Vec::new(),
    }
}

fn three(pieces: Option<Vec<String>>) -> [String; 3] {
    let mut pieces = pieces.unwrap_or_default().into_iter();
    std::array::from_fn(|_| pieces.next().unwrap_or_default())
}

/// Finds LMDeploy's template for a model: the one registered under the model's name or, failing
/// that, the one for its path.
pub(super) fn dialect(model: &str) -> Option<Dialect> {
    let by_path = lmdeploy_match(model);
    let own = model.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(model);
    let of_path = by_path.and_then(registered);
    let by_name = registered(own).filter(|(_, template)| of_path.is_none_or(|(_, other)| other != *template));
    let Some((name, template)) = by_name else {
        let name = by_path?;
        let path = model.to_lowercase();
        let words =
            LMDEPLOY.rules.iter().find(|rule| rule.fits(&path)).map(|rule| rule.words(&path)).unwrap_or_default();
        let why = format!("LMDeploy selects it for paths with {words}");
        return Some(Dialect { format: format!("lmdeploy:{name}"), why, warning: None });
    };
    let length = template.builtin.generation.session_len;
    let length = length.map_or(String::new(), |length| format!(", for sessions of {length} tokens"));
    let why = format!("LMDeploy registers a template named `{name}`{length}");
    let warning = match by_path {
        Some(other) => {
            format!("LMDeploy selects it only by name; for this path it selects `lmdeploy:{other}`")
        }
        None => "LMDeploy selects it only by name".to_owned(),
    };
    Some(Dialect { format: format!("lmdeploy:{name}"), why, warning: Some(warning) })
}

/// Finds a registered template by its name or an alias, ignoring case, and returns it with that
/// name.
fn registered(name: &str) -> Option<(&'static str, &'static Template)> {
    LMDEPLOY.templates.iter().find_map(|template| {
        let mut names = std::iter::once(&template.model_name).chain(&template.builtin.aliases);
        let known = names.find(|known| known.eq_ignore_ascii_case(name))?;
        Some((known.as_str(), template))
    })
}

/// Finds the template that LMDeploy selects for a path: the first whose words occur in it, in order
/// of registration.
pub(crate) fn lmdeploy_match(path: &str) -> Option<&'static str> {
    let path = path.to_lowercase();
    LMDEPLOY.rules.iter().find(|rule| rule.fits(&path)).map(|rule| rule.returns.as_str())
}
