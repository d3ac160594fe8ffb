use std::fmt;

use rolecall_format::Format;

/// The maximum number of characters that are shown of a text.
const SHOWN: usize = 48;

/// A piece of evidence that a model needs a format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// The chat template contains these texts.
    Template(Vec<String>),
    /// The tokenizer has these tokens.
    Tokens(Vec<String>),
    /// The config names this architecture.
    Architecture(String),
    /// The requested name is the name of a format.
    FormatName(String),
    /// The name is one that the format lists.
    Name {
        /// The name, or the part of it that matches.
        name: String,
        /// The name as the format file spells it.
        listed: String,
        /// Whether the name comes from the config.
        by_config: bool,
    },
    /// The name matches a pattern of the format.
    Pattern {
        /// The name, or the part of it that matches.
        name: String,
        /// The pattern.
        pattern: String,
        /// Whether the name comes from the config.
        by_config: bool,
    },
}

impl Evidence {
    /// Returns a stable name for the kind of evidence.
    pub fn code(&self) -> &'static str {
        match self {
            Evidence::Template(_) => "template",
            Evidence::Tokens(_) => "tokens",
            Evidence::Architecture(_) => "architecture",
            Evidence::FormatName(_) => "format_name",
            Evidence::Name { by_config: false, .. } => "name",
            Evidence::Pattern { by_config: false, .. } => "pattern",
            Evidence::Name { .. } | Evidence::Pattern { .. } => "config_name",
        }
    }

    /// Returns the pattern or the listed name that matches, if the evidence is a name.
    pub fn pattern(&self) -> Option<&str> {
        match self {
            Evidence::Pattern { pattern, .. } => Some(pattern),
            Evidence::Name { listed, .. } => Some(listed),
            _ => None,
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = |by_config: &bool| if *by_config { "its config.json names the model " } else { "" };
        match self {
            Evidence::Template(texts) => write!(f, "its chat template has {}", listed(texts)),
            Evidence::Tokens(tokens) => write!(f, "its tokenizer has {}", listed(tokens)),
            Evidence::Architecture(name) => write!(f, "its config.json names the architecture `{name}`"),
            Evidence::FormatName(name) => write!(f, "`{name}` is the name of the format"),
            Evidence::Name { name, listed, by_config } if name.eq_ignore_ascii_case(listed) => {
                write!(
                    f,
                    "{}`{name}`, {}",
                    whose(by_config),
                    if *by_config { "which the format lists" } else { "exactly as the format lists it" }
                )
            }
            Evidence::Name { name, listed, by_config } => {
                write!(f, "{}`{name}`, which the format lists as `{listed}`", whose(by_config))
            }
            Evidence::Pattern { name, pattern, by_config: false } => write!(f, "`{name}` matches `{pattern}`"),
            Evidence::Pattern { name, pattern, by_config: true } => {
                write!(f, "{}`{name}`, which matches the pattern `{pattern}`", whose(&true))
            }
        }
    }
}

/// A format that a model may need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The format's name.
    pub format: String,
    /// The evidence for it.
    pub evidence: Vec<Evidence>,
}

impl Candidate {
    pub(super) fn of(format: &Format, evidence: Vec<Evidence>) -> Candidate {
        Candidate { format: format.name.clone(), evidence }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.format)?;
        for (at, evidence) in self.evidence.iter().enumerate() {
            write!(f, "{}{evidence}", if at == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

/// Returns `` `a`, `b` and `c` ``, with long texts shortened.
pub(super) fn listed<T: AsRef<str>>(texts: &[T]) -> String {
    let shown: Vec<String> = texts
        .iter()
        .map(|text| match text.as_ref().char_indices().nth(SHOWN) {
            Some((end, _)) => format!("`{}…`", &text.as_ref()[..end]),
            None => format!("`{}`", text.as_ref()),
        })
        .collect();
    match shown.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}
