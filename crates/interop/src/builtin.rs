//! The frameworks' own templates, made of the data in `formats/`.

use std::sync::{Arc, LazyLock};

use rolecall_format::{Choice, Format, Generation, Layout, LoadError, NameClash, Op, Registry, load};

use crate::about::About;
use crate::fields::{Fields, File};
use crate::lmdeploy::{Builtin, Infill, Kind, Template};
use crate::models::ModelTable;
use crate::path_rules::PathRule;
use crate::{files, lmdeploy, lmflow, xtuner};

/// The registered templates of LMDeploy, in order, and its rules.
#[derive(Default)]
pub(crate) struct LmdeployRegistry {
    pub templates: Vec<Template>,
    pub rules: Vec<PathRule>,
}

pub(crate) static LMDEPLOY: LazyLock<LmdeployRegistry> = LazyLock::new(|| expected(read_lmdeploy()));
pub(crate) static XTUNER_MODELS: LazyLock<ModelTable> =
    LazyLock::new(|| expected(ModelTable::read(files::text("xtuner/models.json"))));
pub(crate) static LAGENT: LazyLock<About> = LazyLock::new(|| expected(About::read(files::text("lagent/about.json"))));
pub(crate) static LMFLOW: LazyLock<About> = LazyLock::new(|| expected(About::read(files::text("lmflow/about.json"))));

/// All formats of other frameworks that come with the library.
pub fn formats() -> Vec<Format> {
    let mut formats = native("lagent");
    formats.extend(lmdeploy_formats());
    formats.extend(native("lmdeploy"));
    formats.extend(lmflow_formats());
    formats.extend(xtuner_formats());
    formats
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

/// A test reads every file; a broken one never ships.
fn expected<T: Default>(read: Result<T, LoadError>) -> T {
    debug_assert!(read.is_ok(), "{:?}", read.as_ref().err().map(ToString::to_string));
    read.unwrap_or_default()
}

/// The files that are written in this project's own format.
fn native(framework: &'static str) -> Vec<Format> {
    files::of(framework, ".toml").map(|(_, text)| expected(load(text))).collect()
}

fn xtuner_formats() -> Vec<Format> {
    let about = expected(About::read(files::text("xtuner/about.json")));
    let templates = files::of("xtuner", ".json").filter(|(name, _)| !matches!(*name, "about" | "models"));
    let each = templates.map(|(name, text)| {
        let tokens = about.tokens(name);
        let format = xtuner::import(text, &format!("xtuner:{name}"), &tokens.bos, tokens.eos.as_deref());
        titled(with_system_templates(expected(format), &about), name, &about)
    });
    each.collect()
}

/// What the option `system_template` may choose.
fn with_system_templates(mut format: Format, about: &About) -> Format {
    let bot_name = [("bot_name", Op::hole(rolecall_format::Field::Option(0), rolecall_format::Codec::Text))];
    for (name, text) in &about.system_templates {
        let ops = crate::braces::pieces(text, &bot_name);
        format.defaults.system_templates.push((name.clone(), Layout::new(ops, &format.controls)));
    }
    let names = about.system_templates.iter().map(|(name, _)| name.clone());
    format.choices.push(Choice {
        name: "system_template".into(),
        default: "none".into(),
        values: std::iter::once("none".to_owned()).chain(names).collect(),
        usual: Vec::new(),
        help: "a ready system text, where the conversation has none".into(),
    });
    format
}

fn lmflow_formats() -> Vec<Format> {
    let presets = files::of("lmflow", ".json").filter(|(name, _)| *name != "about");
    let each = presets.map(|(name, text)| {
        let tokens = LMFLOW.tokens(name);
        let format = lmflow::import(text, &format!("lmflow:{name}"), &tokens.bos, tokens.eos.as_deref());
        titled(expected(format), name, &LMFLOW)
    });
    each.collect()
}

fn titled(mut format: Format, name: &str, about: &About) -> Format {
    let deprecated = if about.deprecated.iter().any(|known| known == name) { ", deprecated" } else { "" };
    format.title = format!("{name} as {} writes it{deprecated}", about.title);
    format.sources = about.sources.clone();
    if let Some(training) = &mut format.training {
        Arc::make_mut(training).title = format.title.clone();
    }
    format
}

fn lmdeploy_formats() -> Vec<Format> {
    let each = LMDEPLOY.templates.iter().map(|template| {
        let name = format!("lmdeploy:{}", template.model_name);
        let mut template = template.clone();
        for alias in &mut template.builtin.aliases {
            *alias = format!("lmdeploy:{alias}");
        }
        template.into_format(&name)
    });
    each.collect()
}

fn read_lmdeploy() -> Result<LmdeployRegistry, LoadError> {
    let file = File::parse(files::text("lmdeploy/registry.json"))?;
    let fields = file.fields();
    fields.refuse_others(&["title", "sources", "templates", "rules"]);
    let mut sources = Vec::new();
    if let Some(named) = fields.inner("sources") {
        sources.extend(named.keys().filter_map(|key| Some((key.to_owned(), named.text(key)?))));
    }
    let mut registry = LmdeployRegistry::default();
    for entry in fields.list("templates").unwrap_or_default() {
        let name = entry.text("file").unwrap_or_default();
        let mut template =
            lmdeploy::read(files::text(&format!("lmdeploy/{name}.json")), |_| Some(Template::default()))?;
        template.builtin = read_builtin(&entry);
        template.builtin.sources.clone_from(&sources);
        registry.templates.push(template);
    }
    registry.rules = fields.list("rules").unwrap_or_default().iter().map(PathRule::read).collect();
    drop(fields);
    file.finish(registry)
}

fn read_builtin(entry: &Fields<'_, '_>) -> Builtin {
    entry.refuse_others(&["file", "aliases", "kind", "session_len", "sampling", "bos", "infill", "trims"]);
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
            Some("text") => Kind::Text,
            Some("rounds") => Kind::Rounds,
            _ => Kind::Parts,
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
