use rolecall_conversation::Json;
use rolecall_format::{LoadError, Pattern};

use crate::fields::FrameworkFile;
use crate::tokens::Tokens;

/// The contents of a framework's `about.json`: facts about its templates.
#[derive(Default)]
pub(crate) struct About {
    pub title: String,
    pub sources: Vec<(String, String)>,
    tokens: Vec<(String, Tokens)>,
    /// Preset system texts by name.
    pub system_templates: Vec<(String, String)>,
    /// Patterns of the models that each template is for.
    pub models: Vec<(String, Vec<Pattern>)>,
    pub deprecated: Vec<String>,
    /// The framework's template classes by name, each with its key in this project.
    pub classes: Vec<(String, String)>,
}

impl About {
    pub fn read(text: &str) -> Result<About, LoadError> {
        let file = FrameworkFile::parse(text)?;
        let fields = file.fields();
        // Only the Python package reads `tokenizer_classes`.
        fields.refuse_others(&[
            "title",
            "sources",
            "tokens",
            "tokenizer_classes",
            "deprecated",
            "system_templates",
            "models",
            "classes",
        ]);
        let mut about = About { title: fields.text("title").unwrap_or_default(), ..About::default() };
        if let Some(sources) = fields.inner("sources") {
            about.sources = texts_of(&sources);
        }
        if let Some(systems) = fields.inner("system_templates") {
            about.system_templates = texts_of(&systems);
        }
        if let Some(classes) = fields.inner("classes") {
            about.classes = texts_of(&classes);
        }
        if let Some(tokens) = fields.inner("tokens") {
            for name in tokens.keys() {
                about.tokens.extend(tokens.inner(name).map(|inner| (name.to_owned(), Tokens::read(&inner))));
            }
        }
        if let Some(models) = fields.inner("models") {
            for name in models.keys() {
                let patterns = models.texts(name).unwrap_or_default();
                about.models.push((name.to_owned(), patterns.iter().map(|text| Pattern::new(text)).collect()));
            }
        }
        about.deprecated = fields.texts("deprecated").unwrap_or_default();
        drop(fields);
        file.finish(about)
    }

    /// Returns the tokens of the models that a template is for.
    pub fn tokens(&self, template: &str) -> Tokens {
        let known = self.tokens.iter().find(|(name, _)| name == template);
        known.map_or_else(Tokens::usual, |(_, tokens)| tokens.clone())
    }
}

fn texts_of(fields: &crate::fields::Fields<'_, '_>) -> Vec<(String, String)> {
    let each = fields.keys().filter_map(|key| match fields.value(key) {
        Some(Json::String(text)) => Some((key.to_owned(), text.clone())),
        _ => None,
    });
    each.collect()
}
