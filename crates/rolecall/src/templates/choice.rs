use std::fmt;

use super::{DEFAULT, ModelTemplates, NamedTemplate, TOOL_USE};

/// The maximum number of names that are listed. The rest are counted.
const LISTED: usize = 20;

/// An error for a choice among a model's templates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoChoice {
    /// No template has the requested name.
    Unknown {
        /// The name that was requested.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// There are several templates and none is the default.
    NoDefault {
        /// The known names.
        known: Vec<String>,
    },
}

impl ModelTemplates {
    /// Chooses a template, by its name or for a conversation.
    ///
    /// Without a name, chooses the only template, else the one for tools if tools are offered (even
    /// as an empty list), else the default one.
    pub fn choose(&self, name: Option<&str>, has_tools: bool) -> Result<&NamedTemplate, NoChoice> {
        let by_name = |name: &str| self.templates.iter().find(|template| template.name == name);
        let known = || self.templates.iter().map(|template| template.name.clone()).collect();
        match (name, self.templates.as_slice()) {
            (Some(name), _) => by_name(name).ok_or_else(|| NoChoice::Unknown { name: name.to_owned(), known: known() }),
            // transformers rejects a single template with a name other than `default`. No other
            // template could be meant, so it is accepted here.
            (None, [only]) => Ok(only),
            (None, _) => {
                let for_tools = by_name(TOOL_USE).filter(|_| has_tools);
                for_tools.or_else(|| by_name(DEFAULT)).ok_or_else(|| NoChoice::NoDefault { known: known() })
            }
        }
    }
}

impl NoChoice {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            NoChoice::Unknown { .. } => "unknown_template",
            NoChoice::NoDefault { .. } => "no_default_template",
        }
    }

    /// Returns the known names.
    pub fn known(&self) -> &[String] {
        match self {
            NoChoice::Unknown { known, .. } | NoChoice::NoDefault { known } => known,
        }
    }

    /// Returns advice on how to fix the error.
    pub fn help(&self) -> String {
        match self.known() {
            [] => "give at least one".into(),
            [only] => format!("the only template is `{only}`"),
            several => {
                let names: Vec<String> = several.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
                let rest = match several.len().saturating_sub(LISTED) {
                    0 => String::new(),
                    rest => format!(" and {rest} more"),
                };
                format!("choose one by name: {}{rest}", names.join(", "))
            }
        }
    }
}

impl fmt::Display for NoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoChoice::Unknown { name, .. } => write!(f, "the model has no chat template `{name}`"),
            NoChoice::NoDefault { known } if known.is_empty() => f.write_str("there is no chat template"),
            NoChoice::NoDefault { .. } => {
                write!(f, "the model has several chat templates, and none is named `{DEFAULT}`")
            }
        }
    }
}

impl std::error::Error for NoChoice {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_names_is_cut_and_counted() {
        let known: Vec<String> = (0..100_000).map(|number| format!("t{number}")).collect();
        let help = NoChoice::NoDefault { known }.help();
        assert!(help.len() < 300 && help.ends_with("`t19` and 99980 more"), "{help}");
        let known = vec!["a".into(), "b".into()];
        assert_eq!(NoChoice::NoDefault { known }.help(), "choose one by name: `a`, `b`");
    }
}
