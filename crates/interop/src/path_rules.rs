use crate::fields::Fields;

/// A rule that selects a template by words in a model's path. The first rule that matches wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathRule {
    pub returns: String,
    all: Vec<String>,
    any: Vec<String>,
    none: Vec<String>,
}

impl PathRule {
    pub fn read(fields: &Fields<'_, '_>) -> PathRule {
        fields.refuse_others(&["returns", "all", "any", "none"]);
        PathRule {
            returns: fields.text("returns").unwrap_or_default(),
            all: fields.texts("all").unwrap_or_default(),
            any: fields.texts("any").unwrap_or_default(),
            none: fields.texts("none").unwrap_or_default(),
        }
    }

    /// Reports whether a lowercase path matches.
    pub fn fits(&self, path: &str) -> bool {
        let has = |word: &String| path.contains(word.as_str());
        self.all.iter().all(has) && (self.any.is_empty() || self.any.iter().any(has)) && !self.none.iter().any(has)
    }

    /// Returns the words of the rule that a lowercase path contains, for messages.
    pub fn words(&self, path: &str) -> String {
        let there = self.any.iter().filter(|word| path.contains(word.as_str()));
        let words: Vec<String> = self.all.iter().chain(there).map(|word| format!("`{word}`")).collect();
        words.join(" and ")
    }
}
