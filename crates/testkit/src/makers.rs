use std::collections::BTreeMap;
use std::fs;

use toml::de::{DeTable, DeValue};

/// The maker's template that each format must equal, with the known differences
/// (`fixtures/makers.toml`).
#[derive(Debug)]
pub struct Makers {
    /// The pairs, in the order of the file.
    pub pairs: Vec<Pair>,
}

/// A format and a template of its maker.
#[derive(Debug, Default)]
pub struct Pair {
    /// The name of the format.
    pub format: String,
    /// The file of the template.
    pub template: String,
    /// Whether the template writes the tokens that open the prompt.
    pub bos: bool,
    /// The values of the format's options.
    pub options: Vec<(String, String)>,
    /// The cases that differ, with the reasons.
    pub differs: BTreeMap<String, String>,
}

impl Makers {
    /// Reads the table of the repository.
    pub fn read() -> Makers {
        let path = crate::root().join("fixtures/makers.toml");
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let table = DeTable::parse(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into_inner();
        let Some(DeValue::Array(pairs)) = table.get("pair").map(|pairs| pairs.get_ref()) else {
            panic!("{}: no [[pair]]", path.display());
        };
        let read = pairs.iter().map(|pair| match pair.get_ref() {
            DeValue::Table(pair) => read_pair(pair),
            _ => panic!("{}: expected a table in `pair`", path.display()),
        });
        Makers { pairs: read.collect() }
    }
}

fn read_pair(table: &DeTable<'_>) -> Pair {
    let text = |key: &str| match table.get(key).map(|value| value.get_ref()) {
        Some(DeValue::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let texts = |key: &str| match table.get(key).map(|value| value.get_ref()) {
        Some(DeValue::Table(inner)) => inner
            .iter()
            .filter_map(|(key, value)| match value.get_ref() {
                DeValue::String(text) => Some((key.get_ref().to_string(), text.to_string())),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    Pair {
        format: text("format"),
        template: text("template"),
        bos: matches!(table.get("bos").map(|value| value.get_ref()), Some(DeValue::Boolean(true))),
        options: texts("options"),
        differs: texts("differs").into_iter().collect(),
    }
}
